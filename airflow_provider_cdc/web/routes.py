"""The routes of the page of streams. They read three files of the state folder: no route starts a
JVM, and none lists a store.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import msgspec
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_connection,
    requires_access_view,
)
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response

from airflow_provider_cdc.dag_factories.dag_ids import StreamAction, action_dag_id
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import StatusSnapshot
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots

from .actions import ActionRequest, may_run, possible_actions, start
from .connections import cdc_connections
from .problems import NoAnswer, Problem
from .snapshots import lags_in, moves_in, snapshot_in, snapshots_of

_CONTENT_TYPES = {
    "page.css": "text/css; charset=utf-8",
    "connection.js": "text/javascript; charset=utf-8",
    "elements.js": "text/javascript; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "overview.js": "text/javascript; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "stream.js": "text/javascript; charset=utf-8",
    "actions.js": "text/javascript; charset=utf-8",
    "alerts.js": "text/javascript; charset=utf-8",
    "change_streams.js": "text/javascript; charset=utf-8",
    "targets.js": "text/javascript; charset=utf-8",
    "upsert_tables.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
}

router = APIRouter(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))])

ConnectionId = Annotated[str, Path(max_length=250)]


def _snapshots(connection_id: ConnectionId) -> StatusSnapshots:
    return snapshots_of(connection_id)


# FastAPI makes it once for each request, so the connection is looked up once.
Snapshots = Annotated[StatusSnapshots, Depends(_snapshots)]


def _snapshot(snapshots: Snapshots, connection_id: ConnectionId) -> StatusSnapshot:
    return snapshot_in(snapshots, connection_id)


Snapshot = Annotated[StatusSnapshot, Depends(_snapshot)]


def _only_json(request: Request) -> None:
    """Refuse a body of another type: a form of a foreign page can send one with the cookies."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "expected a body of type application/json")


@router.get("/")
def page() -> Response:
    """The page itself."""
    return Response(_static("index.html"), media_type="text/html; charset=utf-8")


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A script or the style of the page."""
    if name not in _CONTENT_TYPES:
        raise HTTPException(404, "no such file")
    return Response(_static(name), media_type=_CONTENT_TYPES[name])


@router.get("/api/connections")
def connections() -> Response:
    """The ids of the connections of type ``cdc`` that Airflow's store and the environment hold."""
    return json_response({"connections": cdc_connections()})


@router.get("/api/connections/{connection_id}/streams")
def streams(found: Snapshot) -> Response:
    """The lines of all streams."""
    return json_response({"as_of": found.as_of, "lines": found.lines})


@router.get("/api/connections/{connection_id}/streams/{stream:path}")
def stream(
    found: Snapshot,
    snapshots: Snapshots,
    connection_id: ConnectionId,
    stream: str,
    user: GetUserDep,
) -> Response:
    """One stream, by its id or its name, with its lags and its moves over the last days, and what
    the user may do.
    """
    line = next((each for each in found.lines if stream in (each.stream_id, each.name)), None)
    if line is None:
        raise NoAnswer(Problem.no_such_stream(stream))
    lags = lags_in(snapshots, [line.stream_id]).get(line.stream_id, ())
    moves = moves_in(snapshots, line.stream_id)
    actions = possible_actions(user, connection_id)
    held = [
        target
        for target in found.targets
        if any(each.stream == line.name for each in target.provenance.sources)
    ]
    content = {"as_of": found.as_of, "line": line, "lags": lags, "held": held}
    return json_response(content | {"moves": moves, "actions": actions})


@router.get("/api/connections/{connection_id}/upsert-tables")
def upsert_tables(found: Snapshot, snapshots: Snapshots) -> Response:
    """The upsert tables, with the lags of the streams on their changes."""
    lags = lags_in(snapshots, [line.stream_id for line in found.upsert_tables])
    content = {"as_of": found.as_of, "upsert_tables": found.upsert_tables, "lags": lags}
    return json_response(content | {"omitted": found.omitted})


@router.get("/api/connections/{connection_id}/change-streams")
def change_streams(found: Snapshot) -> Response:
    """The change streams, with their partitions over time and their consumers."""
    content = {"as_of": found.as_of, "change_streams": found.change_streams}
    return json_response(content | {"omitted": found.omitted})


@router.get("/api/connections/{connection_id}/targets")
def targets(found: Snapshot) -> Response:
    """The targets: which versions of their sources they hold, and what their last verifications
    found.
    """
    checks = [
        {"stream_id": line.stream_id, "stream": line.name, **msgspec.to_builtins(check)}
        for line in found.lines
        for check in line.verifications
    ]
    content = {"as_of": found.as_of, "targets": checks, "held": found.targets}
    return json_response(content | {"omitted": found.omitted})


@router.get("/api/connections/{connection_id}/alerts")
def alerts(found: Snapshot) -> Response:
    """The last alerts that were sent, the newest first."""
    sent = [{**msgspec.to_builtins(alert), "sentence": alert.sentence} for alert in found.alerts]
    return json_response({"as_of": found.as_of, "alerts": sent})


@router.post(
    "/api/connections/{connection_id}/actions/{action}",
    # In this order: the audit log has only what was permitted.
    dependencies=[
        Depends(requires_access_connection("PUT")),
        Depends(_only_json),
        Depends(action_logging(event="cdc_stream_action")),
    ],
)
def act(
    connection_id: ConnectionId, action: StreamAction, body: ActionRequest, user: GetUserDep
) -> Response:
    """Start the run of the DAG that does an action to a stream."""
    if not may_run(user, action_dag_id(action, connection_id)):
        raise HTTPException(403, "Forbidden")
    conf = body.conf_of(action)
    if conf is None:
        raise NoAnswer(Problem.wrong_fields(action.value))
    return json_response(start(action, connection_id, conf, user), 201)


def _static(name: str) -> bytes:
    return resources.files(__package__).joinpath("static", name).read_bytes()


def json_response(content: object, status: int = 200) -> Response:
    """An answer with ``content`` as JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")
