"""What the page of streams lets a user do: it starts the run of a DAG that does it."""

from __future__ import annotations

from typing import Annotated

from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.models.dag import DagModel
from airflow.utils.types import DagRunTriggeredByType
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_cdc.dag_factories.dag_ids import StreamAction, action_dag_id

from .problems import NoAnswer, Problem

_Name = Annotated[str, Field(min_length=1, max_length=1000)]


class ActionRequest(BaseModel):
    """The body of a request for an action. Each action has its own fields besides ``stream``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    stream: _Name
    version: Annotated[int, Field(ge=0)] | None = None
    keep: list[_Name] | None = None
    target: _Name | None = None
    key: Annotated[list[_Name], Field(min_length=1)] | None = None

    def conf_of(self, action: StreamAction) -> dict[str, object] | None:
        """The configuration of the run. ``None``: a field is missing, or does not belong to it."""
        needed = _FIELDS[action]
        given = self.model_dump(exclude_none=True)
        if action is StreamAction.ABORT:
            given.setdefault("keep", [])
        if given.keys() - {"stream"} != needed:
            return None
        return given if action is not StreamAction.MAINTAIN else {}


_FIELDS: dict[StreamAction, set[str]] = {
    StreamAction.ADVANCE: set(),
    StreamAction.REWIND: {"version"},
    StreamAction.ABORT: {"keep"},
    StreamAction.RECOVER: {"target", "key"},
    StreamAction.MAINTAIN: set(),
}


def may_act(user: BaseUser, conn_id: str) -> bool:
    """Whether the user may change the connection, and so the streams of its state folder."""
    details = ConnectionDetails(conn_id=conn_id)
    return get_auth_manager().is_authorized_connection(method="PUT", details=details, user=user)


def may_run(user: BaseUser, dag_id: str) -> bool:
    """Whether the user may start a run of a DAG."""
    return get_auth_manager().is_authorized_dag(
        method="POST",
        access_entity=DagAccessEntity.RUN,
        details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
        user=user,
    )


def possible_actions(user: BaseUser, conn_id: str) -> list[str]:
    """The actions that the page offers to the user: those whose DAG the user may run."""
    if not may_act(user, conn_id):
        return []
    return [
        action.value
        for action in StreamAction
        if may_run(user, dag_id := action_dag_id(action, conn_id))
        and DagModel.get_dagmodel(dag_id) is not None
    ]


def start(
    action: StreamAction, conn_id: str, conf: dict[str, object], user: BaseUser
) -> dict[str, str | None]:
    """Start the run that does an action. Returns its id and that of its DAG.

    :raises NoAnswer: the DAG is missing, or would not run
    """
    dag_id = action_dag_id(action, conn_id)
    dag = DagModel.get_dagmodel(dag_id)
    if dag is None or dag.is_stale:
        raise NoAnswer(Problem.no_action_dag(dag_id, conn_id))
    if dag.is_paused:
        raise NoAnswer(Problem.paused(dag_id))
    run = trigger_dag(
        dag_id,
        triggered_by=DagRunTriggeredByType.UI,
        triggering_user_name=user.get_name(),
        conf=conf,
        note=f"{action.value} by {user.get_name()} on the page of streams",
    )
    return {"dag_id": dag_id, "run_id": None if run is None else run.run_id}
