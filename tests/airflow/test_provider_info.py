from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.sdk.log import redact
from airflow.triggers.base import BaseTrigger

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


def test_provider_info_secrets_are_redacted_by_airflow_where_it_shows_a_connection():
    fields = INFO["connection-types"][0]["conn-fields"]
    shown = redact({name: {"a_setting": "hidden"} for name in fields})

    hidden = {name for name, value in shown.items() if "hidden" not in str(value)}

    assert hidden == SECRET_FIELDS


def test_airflow_cdc_streams_shows_the_streams_of_a_connection(tmp_path, monkeypatch, capsys):
    extra = {"state": str(tmp_path)}
    monkeypatch.setenv("AIRFLOW_CONN_CDC_CLI", json.dumps({"conn_type": "cdc", "extra": extra}))
    (name,) = INFO["cli"]
    module, _, function = name.rpartition(".")
    (group,) = getattr(importlib.import_module(module), function)()
    (command,) = group.subcommands
    parser = argparse.ArgumentParser()
    for argument in command.args:
        argument.add_to_parser(parser)

    command.func(parser.parse_args(["--conn-id", "cdc_cli", "-o", "json"]))
    assert json.loads(capsys.readouterr().out) == []

    with pytest.raises(SystemExit, match="stream nothing: does not exist"):
        command.func(parser.parse_args(["nothing", "--conn-id", "cdc_cli"]))
