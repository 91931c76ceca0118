"""The engine raises only our errors, whatever it gets, and every reader still works."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from absurd_values import FEW_ABSURD
from history_options import APPLY_OPTIONS
from pyspark.sql import DataFrame, SparkSession
from upsert_lab import SALARIES, UpsertLab

from airflow_provider_cdc.engine import Engine, Transaction, Version, Watch
from airflow_provider_cdc.engine.core.errors import CdcError

INSERT = "INSERT INTO {copy} SELECT id, v FROM s"
MESSAGES = {
    "payload": None,
    "sequence_by": None,
    "unavailable_value": "__debezium_unavailable_value",
}
WITHOUT_ARGUMENTS = {
    "describe_change_streams",
    "describe_streams",
    "list_change_streams",
    "show_streams",
}


def used(rows: Any) -> None:
    """Read the result of a lazy method: errors of the read count as errors of the method."""
    if isinstance(rows, DataFrame):
        rows.count()


def attempt(call: Callable[[], Any]) -> str | None:
    """The text of an error that is not ours, or ``None``."""
    try:
        used(call())
    except CdcError as error:
        str(error).encode()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


class Scene(UpsertLab):
    """A stream ``s`` on a table, and an upsert table ``t``, both made again after a call removes
    them.
    """

    def set_up(self) -> None:
        self.make("source", "id INT, v STRING")
        self.make("copy", "id INT, v STRING")
        self.restore()
        self.sql("INSERT INTO {source} VALUES (1, 'a')")

    def restore(self) -> None:
        self.engine.create_stream("s", on_table=self.path("source"), if_not_exists=True)
        self.engine.create_change_stream(
            "cs", {self.path("source"): Watch(keys=["id"])}, if_not_exists=True
        )
        if not Path(self.table()).exists():
            self.engine.create_upsert_table(self.table(), SALARIES, "ID")

    def calls(self) -> dict[str, dict[str, Any]]:
        """Good arguments of each public method."""
        changes = self.frame([(1, "a", 5, "UPSERT")])
        on_table = {"name": "s", "on_table": self.path("source")}
        lengths = {"max_data_extension": "P1D", "max_lag": None}
        people = {"owner": "somebody", "readers": ["r"], "consumers": None}
        bounds = {"max_commits": None, "max_bytes": None}
        table = {"name": self.table()}
        return {
            "create_stream": on_table
            | {"on_view": None, "on_files": None, "file_format": None, "file_options": None}
            | {"file_schema": None, "mode": None, "append_semantics": "inserted"}
            | {"column_style": "snowflake", "at": None, "before": None, "or_replace": True}
            | {"if_not_exists": False, "show_initial_rows": False, "comment": None}
            | people
            | lengths,
            "alter_stream": {"name": "s", "comment": "c"} | people | lengths,
            "abort_consumption": {"name": "s", "keep": ()},
            "advance_stream": {"name": "s"},
            "changes": {"name": self.path("source"), "at": Version(0), "before": None, "end": None}
            | {"information": "default", "column_style": "snowflake"},
            "change_feed": {
                "name": self.path("source"),
                "from_version": 0,
                "from_timestamp": None,
                "to_version": None,
                "to_timestamp": None,
                "source": "auto",
                "schema": "end",
                "out_of_range": "error",
                "row_ids": False,
                "column_prefix": "",
                "where": None,
                "archive": None,
                "exclude_regex": None,
            },
            "apply_changes": {"target": self.path("history"), **APPLY_OPTIONS},
            "read_scd": {"target": self.path("history"), "at": None, "known_at": None},
            "rebuild_history": {
                "target": self.path("history"),
                "archive": self.path("archive"),
                "stream": "s",
                "consumer": "c",
                "query": None,
            },
            "archive_changes": {
                "table": self.path("source"),
                "archive": self.path("archive"),
                "from_version": None,
                "from_timestamp": None,
                "bootstrap": True,
            }
            | bounds,
            "replay": {"archive": self.path("archive"), "as_of": None},
            "provenance": {"target": self.path("copy"), "version": None},
            "verify_target": {
                "name": "s",
                "target": self.path("copy"),
                "key": "id",
                "heal": False,
                "full": False,
            },
            "enable_change_tracking": {
                "name": self.path("source"),
                "row_tracking": True,
                "change_feed": False,
            },
            "create_change_stream": {
                "name": "cs",
                "tables": {self.path("source"): Watch(keys=["id"])},
                "value_capture_type": "NEW_ROW",
                "retention_period": "1d",
                "exclude_insert": False,
                "exclude_update": False,
                "exclude_delete": False,
                "partitions": 2,
                "int64_as": "string",
                "on_duplicate_key": "fail",
                "target_rows": 1000,
                "comment": None,
                "or_replace": False,
                "if_not_exists": True,
            },
            "alter_change_stream": {
                "name": "cs",
                "tables": {self.path("source"): Watch(keys=["id"])},
                "value_capture_type": "NEW_ROW",
                "retention_period": "2d",
                "exclude_insert": False,
                "exclude_update": False,
                "exclude_delete": False,
                "int64_as": "string",
                "on_duplicate_key": "fail",
                "target_rows": 1000,
                "comment": None,
            },
            "drop_change_stream": {"name": "missing", "if_exists": True},
            "advance_change_stream": {"name": "cs"},
            "split_partition": {
                "name": "cs",
                "partition_token": "t",
                "at": {"k": 1},
                "table": "t",
            },
            "merge_partitions": {"name": "cs", "partition_tokens": ["t", "u"]},
            "read_change_stream": {
                "name": "cs",
                "start_timestamp": self.engine.list_change_streams()[0].created,
                "end_timestamp": None,
                "partition_token": None,
                "heartbeat_milliseconds": 10_000,
            },
            "list_partitions": {
                "name": "cs",
                "consumer": "c",
                "start_timestamp": None,
                "end_timestamp": None,
                "holder": "h",
                "lease": "PT1H",
                "limit": None,
            },
            "consume_partition": {
                "name": "cs",
                "consumer": "c",
                "partition_token": "t",
                "statements": self.text("INSERT INTO {copy} SELECT 1, mod_type FROM mods"),
            },
            "process_partition": {
                "name": "cs",
                "consumer": "c",
                "partition_token": "t",
                "work": print,
            },
            "settle_partitions": {"name": "cs", "consumer": "c", "holder": "h"},
            "query_change_stream": {
                "query": "SELECT ChangeRecord FROM READ_cs(@s, NULL, NULL, 1000)",
                "parameters": {"s": self.engine.list_change_streams()[0].created},
            },
            "change_records": {
                "name": "cs",
                "start_timestamp": None,
                "end_timestamp": None,
                "group_by_transaction": False,
            },
            "published_watermark": {"name": "cs", "consumers": ["c"]},
            "clone_stream": {"name": "c", "of": "s", "comment": None},
            "clone_table": {"source": self.path("source"), "target": self.path("c")}
            | {"location": None},
            "consume": {"statements": [self.text(INSERT)], "consumer": "c"} | bounds,
            "read_and_consume": {"query": "SELECT * FROM s", "consumer": "c"} | bounds,
            "describe_stream": {"name": "s"},
            "drop_stream": {"name": "s", "if_exists": False},
            "explain_stream": {"name": "s"},
            "stream_has_data": {"name": "s", "exact": True},
            "stream_history": {"name": "s"},
            "maintain_streams": {"ahead": "P1D"},
            "read_stream": {"name": "s"},
            "recover_stream": {
                "name": "s",
                "target": self.path("copy"),
                "key": "id",
                "consumer": "c",
            },
            "rename_stream": {"name": "s", "to": "r"},
            "rewind_stream": {"name": "s", "to": Version(0)},
            "transaction": {"consumer": "c"} | bounds,
            "undrop_stream": {"name": "s"},
            "create_upsert_table": {"name": self.path("u"), "schema": SALARIES, "primary_key": "ID"}
            | {"max_staleness": None, "tombstone_horizon": "P2D", "cluster_by": None}
            | {"partial_changes": False, "if_not_exists": False},
            "alter_upsert_table": table | {"max_staleness": None, "tombstone_horizon": "P2D"},
            "add_columns": table | {"schema": "extra INT"},
            "apply_upserts": table,
            "change_sink": table | {"query": "q", "on_bad_rows": "fail"} | MESSAGES,
            "describe_upsert_table": table,
            "drop_upsert_table": table | {"if_exists": False},
            "query_upsert_table": table | {"work": DataFrame.count},
            "read_upsert_table": table,
            "recommended_max_staleness": table,
            "redrive_changes": table | {"late": False},
            "upsert_usage": {"since": "P7D", "period": "PT1H"},
            "write_changes": table
            | {"rows": changes, "write_id": None, "on_bad_rows": "fail"}
            | MESSAGES,
        }

    def check_readers(self) -> None:
        self.engine.show_streams().count()
        assert not [
            each.name
            for each in self.engine.describe_streams()
            if "cannot be read" in str(each.invalid_reason)
        ]
        self.engine.upsert_usage()


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = Scene(spark, tmp_path_factory.mktemp("absurd"))
    made.set_up()
    return made


def public_methods(kind: type) -> set[str]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name for name, _ in members if not name.startswith("_")}


@pytest.mark.thorough
def test_every_public_method_is_called_here(scene: Scene) -> None:
    assert public_methods(Engine) == {*scene.calls(), *WITHOUT_ARGUMENTS}
    assert public_methods(Transaction) == {"sql", "stream", "write"}


def test_absurd_arguments_of_engine_methods_raise_only_cdc_errors(scene: Scene) -> None:
    faults = []
    for method, good in scene.calls().items():
        for argument in good:
            scene.restore()
            for value in FEW_ABSURD:
                given = good | {argument: value}
                fault = attempt(lambda: getattr(scene.engine, method)(**given))  # noqa: B023
                if fault is not None:
                    faults.append(f"{method}({argument}={value!r:.40}): {fault}")
    assert not faults, "\n".join(faults)
    scene.check_readers()


def test_absurd_arguments_of_a_transaction_raise_only_cdc_errors(scene: Scene) -> None:
    scene.restore()
    rows = scene.spark.range(1)
    good: dict[str, dict[str, Any]] = {
        "sql": {"text": "SELECT 1"},
        "stream": {"name": "s"},
        "write": {"rows": rows, "target": scene.path("copy"), "mode": "append"},
    }
    faults = []
    for method, arguments in good.items():
        for argument in arguments:
            for value in FEW_ABSURD:
                given = arguments | {argument: value}
                fault = attempt(lambda: run_alone(scene, method, given))  # noqa: B023
                if fault is not None:
                    faults.append(f"{method}({argument}={value!r:.40}): {fault}")
    assert not faults, "\n".join(faults)
    scene.check_readers()


def run_alone(scene: Scene, method: str, given: dict[str, Any]) -> None:
    with scene.engine.transaction(consumer="t") as tx:
        used(getattr(tx, method)(**given))


@pytest.mark.parametrize("value", FEW_ABSURD, ids=lambda value: type(value).__name__)
def test_absurd_argument_of_the_engine_constructor_raises_only_cdc_errors(
    spark: SparkSession, tmp_path: Path, value: Any
) -> None:
    state = str(tmp_path)
    assert attempt(lambda: Engine(spark, value).describe_streams()) is None
    for argument in ("storage_options", "strategy", "principal", "show_progress"):
        given = {argument: value}
        assert attempt(lambda: Engine(spark, state, **given).describe_streams()) is None  # noqa: B023
