"""The DAGs that act on one stream of a connection. The page of streams starts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.operators.maintenance import MaintainStreams, RecoverStream
from airflow_provider_cdc.operators.stream import AdvanceStream
from airflow_provider_cdc.operators.stream_administration import AbortConsumption, RewindStream

from .dag_ids import StreamAction, action_dag_id

_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def stream_actions(
    *,
    conn_id: str = CdcHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
) -> list[DAG]:
    """Return the DAGs that advance, rewind, abort, recover and maintain streams of ``conn_id``.

    They have no schedule. An operator starts them on the page of streams or on the page of the DAG,
    and names the stream there. Their ids are ``stream_actions.advance`` and so on, and for a
    connection other than ``cdc_default`` ``stream_actions-<conn_id>.advance``.

    :param conn_id: a connection of type ``cdc``
    :param default_args: the ``default_args`` of the DAGs, for example ``pool``
    """
    stream = {"stream": Param(type="string", minLength=1, description="The name of the stream.")}

    def dag(action: StreamAction, description: str, **params: Param) -> DAG:
        return DAG(
            action_dag_id(action, conn_id),
            schedule=None,
            is_paused_upon_creation=False,
            default_args=dict(default_args or {}),
            tags=["cdc"],
            description=description,
            params=params,
            # With tojson below, a text stays a text, and a list a list.
            render_template_as_native_obj=True,
        )

    with dag(StreamAction.ADVANCE, "Move a stream to the end of its source.", **stream) as advance:
        AdvanceStream(task_id="advance", stream=_param("stream"), conn_id=conn_id)
    version = Param(type="integer", minimum=0, description="The version that it is moved to.")
    with dag(StreamAction.REWIND, "Move a stream back.", **stream, version=version) as rewind:
        to = {"version": _param("version")}
        RewindStream(task_id="rewind", stream=_param("stream"), to=to, conn_id=conn_id)
    keep = Param([], description="The targets on which nothing is undone.", **_NAMES)
    with dag(StreamAction.ABORT, "End an open consumption.", **stream, keep=keep) as abort:
        AbortConsumption(
            task_id="abort", stream=_param("stream"), keep=_param("keep"), conn_id=conn_id
        )
    target = Param(type="string", minLength=1, description="The table to make equal.")
    key = Param(minItems=1, description="The columns that identify its rows.", **_NAMES)
    text = "Make a target equal to the source of a stale stream."
    with dag(StreamAction.RECOVER, text, **stream, target=target, key=key) as recover:
        RecoverStream(
            task_id="recover",
            stream=_param("stream"),
            target=_param("target"),
            key=_param("key"),
            conn_id=conn_id,
        )
    text = "Let sources keep what streams need."
    with dag(StreamAction.MAINTAIN, text) as maintain:
        MaintainStreams(task_id="maintain", conn_id=conn_id)
    return [advance, rewind, abort, recover, maintain]


def _param(name: str) -> str:
    """The template of a parameter of the run."""
    return f"{{{{ params.{name} | tojson }}}}"
