from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.sdk.log import redact
from airflow.triggers.base import BaseTrigger
from partitions import new_change_stream
from streams import new_stream, register

from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of, stamp_of, stamp_text
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.change_stream_consumers import ChangeStreamConsumers
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams
from airflow_provider_cdc.get_provider_info import get_provider_info
from airflow_provider_cdc.hooks.connection import CdcConnection

INFO = get_provider_info()
SECRET_FIELDS = {"secret_conf", "secret_storage_options"}
BASES = {
    "operators": BaseOperator,
    "sensors": BaseSensorOperator,
    "hooks": BaseHook,
    "triggers": BaseTrigger,
}


def test_provider_info_against_airflows_schema_is_valid():
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)


def test_provider_info_entry_point_is_installed():
    providers = entry_points(group="apache_airflow_provider")

    assert "airflow_provider_cdc.get_provider_info:get_provider_info" in {
        provider.value for provider in providers
    }


@pytest.mark.parametrize("kind", sorted(BASES))
def test_provider_info_modules_hold_classes_of_their_kind(kind):
    for entry in INFO[kind]:
        for name in entry["python-modules"]:
            module = importlib.import_module(name)
            classes = [
                item
                for _, item in inspect.getmembers(module, inspect.isclass)
                if issubclass(item, BASES[kind]) and item.__module__ == name
            ]
            assert classes, name


def test_provider_info_connection_type_belongs_to_its_hook():
    (connection,) = INFO["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)

    assert (hook.conn_type, hook.hook_name) == (
        connection["connection-type"],
        connection["hook-name"],
    )


def test_provider_info_connection_form_has_every_field_that_the_hook_reads():
    (connection,) = INFO["connection-types"]
    read = {item.name for item in dataclasses.fields(CdcConnection)} - {"conn_id"}

    assert set(connection["conn-fields"]) == read


def test_provider_info_fields_with_secrets_are_passwords():
    fields = INFO["connection-types"][0]["conn-fields"]

    assert {
        name for name, item in fields.items() if item["schema"].get("format") == "password"
    } == SECRET_FIELDS


def test_provider_info_form_begins_with_the_required_and_common_fields():
    fields = INFO["connection-types"][0]["conn-fields"]
    sections = [item["schema"].get("section") for item in fields.values()]

    # Airflow's form shows a star at a field that may not be null, and puts a section into a panel.
    assert [name for name, item in fields.items() if "null" not in item["schema"]["type"]] == [
        "state"
    ]
    assert list(fields)[:2] == ["state", "spark_conn_id"]
    assert list(dict.fromkeys(sections)) == [
        "State folder and Spark",
        "Store of the state folder",
        "Spark jobs",
        None,
    ]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)


def test_provider_info_secrets_are_redacted_by_airflow_in_a_connection():
    fields = INFO["connection-types"][0]["conn-fields"]
    shown = redact({name: {"a_setting": "hidden"} for name in fields})

    hidden = {name for name, value in shown.items() if "hidden" not in str(value)}

    assert hidden == SECRET_FIELDS


@pytest.fixture
def run(tmp_path, define_connection, cdc_command):
    """Runs a command of the provider on an empty state folder, and returns the lines that it
    prints.
    """
    define_connection("cdc_cli", "cdc", state=str(tmp_path))

    def run_command(*arguments):
        return json.loads(cdc_command(*arguments, "--conn-id", "cdc_cli", "-o", "json"))

    return run_command


def test_provider_info_names_the_function_of_the_commands():
    (name,) = INFO["cli"]
    module, _, function = name.rpartition(".")
    (group,) = getattr(importlib.import_module(module), function)()
    assert group.name == "cdc"


def test_airflow_cdc_streams_shows_the_streams_of_a_connection(run, tmp_path):
    with pytest.raises(SystemExit, match=f"state folder {tmp_path}: holds no registry"):
        run("streams")

    register(tmp_path, new_stream("s"))
    (line,) = run("streams")
    assert line["name"] == "s"
    with pytest.raises(SystemExit, match="stream nothing: does not exist"):
        run("streams", "nothing")


def test_airflow_cdc_change_streams_shows_them_and_their_consumers(run, tmp_path):
    with pytest.raises(SystemExit, match=f"state folder {tmp_path}: holds no registry"):
        run("change-streams")

    register(tmp_path, new_stream("s"))
    files, created = Files(), stamp_of(datetime.now(UTC) - timedelta(hours=1))
    streams = ChangeStreams(str(tmp_path), files)
    given = new_change_stream(created).ticked([SourceCommit("id", 1, created)], created + 1)
    stream = streams.create(given, None)
    ChangeStreamConsumers(streams, files).begin(
        stream, "reports", lambda _: ConsumerState.begun("reports", stream, created, None)
    )

    (line,) = run("change-streams")
    captured = moment_of(created).isoformat(timespec="seconds")
    assert (line["name"], line["partitions"], line["sealed_commits"]) == ("cs", "2", "1")
    assert (line["captured_through"], int(line["lag_seconds"]) // 60) == (captured, 60)
    assert f"'consumer': 'reports', 'watermark': '{stamp_text(created - 1)}'" in line["consumers"]


def test_airflow_cdc_upsert_tables_shows_the_upsert_tables_of_a_connection(run, tmp_path):
    with pytest.raises(SystemExit, match=f"state folder {tmp_path}: holds no registry"):
        run("upsert-tables")

    upserts = new_stream("upserts_1", upsert_table="orders", max_lag=timedelta(minutes=10))
    register(tmp_path, upserts)
    register(tmp_path, new_stream("s"))

    (line,) = run("upsert-tables")
    assert (line["name"], line["stream"]) == ("orders", "upserts_1")
    assert (line["max_staleness"], line["pending_commits"]) == ("0-0 0 0:10:0 (10 minutes)", "")
