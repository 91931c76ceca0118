"""The catalog raises only our errors, whatever it gets, and every reader still works."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from absurd_values import ABSURD, absurd_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import NOON, new_stream, register

from airflow_provider_cdc.cli.lines import stream_lines, upsert_lines
from airflow_provider_cdc.engine import StreamCatalog
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.model.access import Right
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream

# Good arguments of each public method of the catalog.
GOOD: dict[str, dict[str, Any]] = {
    "alter_stream": {
        "name": "s",
        "comment": "c",
        "owner": "somebody",
        "readers": ["r"],
        "consumers": None,
        "max_data_extension": "P1D",
        "max_lag": "PT10M",
    },
    "advance_stream": {"name": "s"},
    "clone_stream": {"name": "t", "of": "s", "comment": None},
    "get_stream": {"name": "s"},
    "drop_stream": {"name": "s", "if_exists": True},
    "stream_history": {"name": "s"},
    "probe_stream": {"name": "s"},
    "registered": {"names": ["s"]},
    "streams_with_work": {"names": ["s"]},
    "permitted": {"name": "s", "right": Right.READ},
    "rename_stream": {"name": "s", "to": "u"},
    "describe_stream": {"name": "s"},
    "explain_stream": {"name": "s"},
    "undrop_stream": {"name": "s"},
    "check_begun": {},
    "list_streams": {},
    "list_streams_if_begun": {},
    "describe_streams": {},
    "upsert_tables": {},
}
# These take the result of another method of the catalog.
INTERNAL = {
    "for_upserts",
    "plan_of",
    "probe_of",
    "quarantine_of",
    "skip_range",
    "status_and_span",
    "status_of",
    "verifications_of",
}


def test_every_public_method_of_the_catalog_is_listed() -> None:
    public = {
        name
        for name, member in inspect.getmembers(StreamCatalog, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {*GOOD, *INTERNAL}


def new_catalog(folder: Path) -> StreamCatalog:
    for name in ("s", "good"):
        register(folder, new_stream(name))
    return StreamCatalog(str(folder), clock=lambda: NOON, principal="somebody")


def read_all(catalog: StreamCatalog, folder: Path) -> None:
    """Call every reader of the state folder; any error but ours fails the test."""
    found = catalog.list_streams_if_begun() or []
    assert not [each for each in found if isinstance(each, UnreadableStream)]
    for stream in catalog.list_streams():
        assert catalog.get_stream(stream.name) == stream
        catalog.stream_history(stream.name)
    stream_lines(catalog, None)
    upsert_lines(catalog)
    StreamMonitor(str(folder), clock=lambda: NOON).run({}, margin="P2D")


def attempt(call: Callable[[], object]) -> None:
    try:
        call()
    except CdcError as error:
        str(error).encode()


@pytest.mark.parametrize("method", [name for name, given in GOOD.items() if given])
def test_absurd_argument_of_the_catalog_is_refused_or_kept(method: str, tmp_path: Path) -> None:
    catalog = new_catalog(tmp_path)
    for argument in GOOD[method]:
        for value in ABSURD:
            attempt(lambda: getattr(catalog, method)(**GOOD[method] | {argument: value}))  # noqa: B023
    read_all(catalog, tmp_path)


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_absurd_arguments_together_are_refused_or_kept(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state")
    catalog = new_catalog(folder)
    for _ in range(5):
        method = data.draw(st.sampled_from(sorted(GOOD)))
        given = {
            name: data.draw(st.one_of(st.just(value), absurd_values()))
            for name, value in GOOD[method].items()
        }
        attempt(lambda: getattr(catalog, method)(**given))  # noqa: B023
    read_all(catalog, folder)


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: type(value).__name__)
def test_absurd_state_folder_is_refused(value: object, tmp_path: Path) -> None:
    attempt(lambda: StreamCatalog(value).list_streams())  # type: ignore[arg-type]
    attempt(lambda: StreamCatalog(str(tmp_path), principal=value).list_streams())  # type: ignore[arg-type]
    attempt(lambda: StreamCatalog(str(tmp_path), storage_options=value).list_streams())  # type: ignore[arg-type]
    if not callable(value):
        attempt(lambda: StreamCatalog(str(tmp_path), clock=value).describe_streams())  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: type(value).__name__)
def test_absurd_argument_of_the_monitor_is_refused(value: Any, tmp_path: Path) -> None:
    register(tmp_path, new_stream("s"))
    monitor = StreamMonitor(str(tmp_path), clock=lambda: NOON)
    attempt(lambda: monitor.run({}, margin=value))
    attempt(lambda: monitor.run(value, margin="P2D"))
