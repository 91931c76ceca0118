"""The page of streams under a real API server: its routes, who may use them, and its data."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPMessage

import jwt
import pytest
from airflow_fixtures import JWT_SECRET, UNREACHABLE_SECRET
from fastapi.routing import APIRoute
from page_site import HOSTILE, PageSite

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.monitoring.conditions import Condition
from airflow_provider_cdc.web.application import new_application

PARTS = {
    "name": "main.js",
    "connection_id": "cdc_page",
    "stream:path": "late",
    "action": "advance",
}
JSON = "application/json"
ACTIONS = "/api/connections/cdc_page/actions"
NOBODY, VIEWER, ADMIN = None, "VIEWER", "ADMIN"


@dataclass(frozen=True)
class Answer:
    """What a request got."""

    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@pytest.fixture
def page(running_airflow, page_site: PageSite):
    """A server whose connection ``cdc_page`` has streams in several conditions."""
    page_site.check()
    return running_airflow.server


def token(server, role: str | None) -> str:
    """The token of a user with ``role``, signed as the server signs them."""
    claims = jwt.decode(server.token(), options={"verify_signature": False})
    algorithm = jwt.get_unverified_header(server.token())["alg"]
    return jwt.encode({**claims, "role": role}, JWT_SECRET, algorithm=algorithm)


def get(server, path: str, role: str | None = ADMIN, *, has_token: bool = True) -> Answer:
    return ask(server, urllib.request.Request(f"{server.url}/cdc{path}"), role, has_token)


def post(server, path: str, body, role: str | None = ADMIN, *, has_token=True, kind=JSON) -> Answer:
    request = urllib.request.Request(f"{server.url}/cdc{path}", method="POST")
    request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.add_header("Content-Type", kind)
    return ask(server, request, role, has_token)


def ask(server, request, role: str | None, has_token: bool) -> Answer:
    if has_token:
        request.add_header("Cookie", f"_token={token(server, role)}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


def paths(method: str) -> list[str]:
    """A path of each route of the application for a method."""
    found = []
    for route in new_application().routes:
        # Another kind of route, such as a mount, would not have the router's authorisation.
        assert isinstance(route, APIRoute)
        assert route.methods in ({"GET"}, {"POST"})
        path = route.path
        for name, value in PARTS.items():
            path = path.replace(f"{{{name}}}", value)
        assert "{" not in path
        if method in route.methods:
            found.append(path)
    return found


@pytest.mark.parametrize("path", paths("POST"))
def test_changing_route_answers_only_users_who_may_change_the_connection(page, path) -> None:
    body = {"stream": "current"}
    assert post(page, path, body, has_token=False).status == 401
    assert post(page, path, body, NOBODY).status == 403
    # Viewers see plugins, users start DAGs, and both may not change a connection.
    assert post(page, path, body, VIEWER).status == 403
    assert post(page, path, body, "USER").status == 403
    page.wait_dag("stream_actions-cdc_page.advance")
    assert post(page, path, body, ADMIN).status == 201
    assert get(page, path).status == 405


def test_action_starts_a_run_that_does_it_and_is_in_the_audit_log(
    page, page_site: PageSite
) -> None:
    page.wait_dag("stream_actions-cdc_page.advance")
    catalog = StreamCatalog(str(page_site.state))
    assert catalog.get_stream("quiet").offset.version == 0
    started = post(page, f"{ACTIONS}/advance", {"stream": "quiet"})
    assert started.status == 201
    page.wait_success(started.json["dag_id"], started.json["run_id"])
    assert catalog.get_stream("quiet").offset.version == 1
    log = page.api("GET", "/eventLogs?event=cdc_stream_action&order_by=-event_log_id")
    entry = log["event_logs"][0]
    assert entry["owner"] == "admin"
    assert json.loads(entry["extra"]) == {
        "connection_id": "cdc_page",
        "action": "advance",
        "stream": "quiet",
        "method": "POST",
    }
    found = get(page, "/api/connections/cdc_page/streams/late").json["actions"]
    assert found == ["advance", "rewind", "abort", "recover", "maintain"]
    assert get(page, "/api/connections/cdc_page/streams/late", VIEWER).json["actions"] == []


@pytest.mark.parametrize(
    ("action", "body", "kind", "status"),
    [
        ("advance", {"stream": "late"}, "text/plain", 415),
        ("advance", b"stream=late", "application/x-www-form-urlencoded", 415),
        ("advance", b"{", JSON, 422),
        ("advance", {}, JSON, 422),
        ("advance", {"stream": "late", "version": 1}, JSON, 422),
        ("advance", {"stream": "late", "other": 1}, JSON, 422),
        ("rewind", {"stream": "late"}, JSON, 422),
        ("rewind", {"stream": "late", "version": -1}, JSON, 422),
        ("rewind", {"stream": "late", "version": "1"}, JSON, 422),
        ("recover", {"stream": "late", "target": "t", "key": []}, JSON, 422),
        ("drop", {"stream": "late"}, JSON, 422),
    ],
)
def test_wrong_request_for_an_action_is_refused(page, action, body, kind, status) -> None:
    assert post(page, f"{ACTIONS}/{action}", body, kind=kind).status == status


def test_action_without_its_dag_says_how_to_make_it(page) -> None:
    path = "/api/connections/cdc_unwatched/actions/advance"
    answer = post(page, path, {"stream": "s"})
    assert answer.status == 409
    assert answer.json["problem"] == "There is no DAG stream_actions-cdc_unwatched.advance."
    assert "stream_actions()" in answer.json["fix"]


@pytest.mark.parametrize("path", paths("GET"))
def test_route_answers_only_users_with_the_right(page, path) -> None:
    assert get(page, path, has_token=False).status == 401
    assert get(page, path, NOBODY).status == 403
    assert get(page, path, VIEWER).status == 200
    assert get(page, path, ADMIN).status == 200


def test_route_reads_nothing_for_users_without_the_right(page) -> None:
    path = "/api/connections/unknown/streams"
    assert get(page, path, has_token=False).status == 401
    assert get(page, path, NOBODY).status == 403
    assert get(page, path).status == 404


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/static/..%2froutes.py"])
def test_page_has_no_other_route(page, path) -> None:
    assert get(page, path).status == 404


def test_overview_shows_the_streams_of_the_last_check(page) -> None:
    answer = get(page, "/api/connections/cdc_page/streams")
    lines = answer.json["lines"]
    assert [(line["name"], line["condition"]) for line in lines] == [
        ("broken", "stale"),
        ("unreachable", "unreachable"),
        ("differs", "differs"),
        ("late", "late"),
        ("upserts_2", "quarantined"),
        ("at_risk", "at_risk"),
        ("unsettled", "unsettled"),
        ("consuming", "consuming"),
        ("waiting", "waiting"),
        ("upserts_1", "waiting"),
        ("current", "current"),
        ("quiet", "current"),
    ]
    assert {line["condition"] for line in lines} == set(Condition)
    assert (lines[3]["source"], lines[3]["commits_behind"]) == (HOSTILE, 1)
    assert answer.headers["Content-Type"] == "application/json"
    assert "cdc_page" in get(page, "/api/connections").json["connections"]


def test_views_show_upsert_tables_change_streams_and_targets(page) -> None:
    found = get(page, "/api/connections/cdc_page/upsert-tables").json
    _, table = found["upsert_tables"]
    assert (table["name"], table["max_staleness_seconds"]) == ("lake.prices", 7200)
    # BigQuery: twice the 95th percentile in whole minutes, plus seven minutes.
    assert table["recommended_max_staleness_seconds"] == 9 * 60
    assert [use["job_class"] for use in table["jobs"]] == ["background apply", "query"]
    assert table["stream_id"] in found["lags"]

    (stream,) = get(page, "/api/connections/cdc_page/change-streams").json["change_streams"]
    assert [each["parents"] for each in stream["partitions"]] == [[], [], [0], [0]]
    (consumer,) = stream["consumers"]
    stuck = [each["partition"] for each in consumer["partitions"] if each["is_stuck"]]
    assert stuck == [1]

    found = get(page, "/api/connections/cdc_page/targets").json
    assert [(each["target"], each["differing_keys"]) for each in found["targets"]] == [
        ("lake.differing_copy", 3),
        ("lake.current_copy", 0),
    ]
    (held,) = found["held"]
    (source,) = held["provenance"]["sources"]
    assert (held["target"], held["provenance"]["version"]) == ("lake.waiting_copy", 4)
    assert (source["source"], source["spans"]) == (
        "lake.waiting",
        [{"after_version": -1, "through_version": 4}],
    )
    assert get(page, "/api/connections/cdc_page/streams/waiting").json["held"] == [held]
    assert get(page, "/api/connections/cdc_page/streams/late").json["held"] == []


def test_stream_is_found_by_its_id_and_by_its_name(page) -> None:
    by_name = get(page, "/api/connections/cdc_page/streams/late").json
    identity = urllib.parse.quote(by_name["line"]["stream_id"])
    by_id = get(page, f"/api/connections/cdc_page/streams/{identity}").json
    assert by_id["line"] == by_name["line"]
    assert len(by_name["lags"]) == 1
    assert [move["transition"] for move in by_name["moves"]] == ["created"]
    waiting = get(page, "/api/connections/cdc_page/streams/waiting").json
    assert [move["rows"]["inserted"] for move in waiting["moves"][1:]] == [500, 400, 300, 200, 100]
    missing = get(page, "/api/connections/cdc_page/streams/other")
    assert missing.status == 404
    assert "found no stream other" in missing.json["problem"]


def test_answers_forbid_foreign_scripts_and_frames(page) -> None:
    headers = get(page, "/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("connection", "status", "text"),
    [
        ("cdc_unwatched", 404, "No monitor has checked the streams of cdc_unwatched yet."),
        ("cdc_unreachable", 503, "The API server cannot read the state folder"),
        ("spark_default", 404, "is not of the type cdc"),
        ("unknown", 404, "Connection unknown was not found"),
    ],
)
def test_connection_without_a_snapshot_says_why_and_what_to_do(
    page, connection, status, text
) -> None:
    answer = get(page, f"/api/connections/{connection}/streams")
    assert answer.status == status
    assert text in answer.json["problem"]
    assert answer.json["fix"]
    assert UNREACHABLE_SECRET not in answer.body.decode()


def test_navigation_of_airflow_has_the_page(page) -> None:
    plugins = page.api("GET", "/plugins")["plugins"]
    (plugin,) = [plugin for plugin in plugins if plugin["name"] == "cdc"]
    (view,) = plugin["external_views"]
    assert (view["name"], view["category"], view["href"]) == ("Streams", "browse", "/airflow/cdc/")
