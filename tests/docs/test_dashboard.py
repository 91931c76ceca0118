"""The dashboard of Grafana names metrics that exist, and all of them."""

from __future__ import annotations

import json
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from airflow_provider_cdc.operators.metrics import Figure

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/grafana"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("dashboard", str(ROOT / ".ci/dashboard"))
    spec = spec_from_loader("dashboard", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_dashboard_is_the_one_that_its_description_makes(script: ModuleType) -> None:
    fix = "run `make dashboard`"
    assert (FOLDER / "streams.json").read_text() == script.dashboard(), fix
    assert (FOLDER / "statsd-mapping.yaml").read_text() == script.mapping(), fix


def test_dashboard_names_every_metric_and_no_other() -> None:
    text = (FOLDER / "streams.json").read_text()
    panels = json.loads(text)["panels"]
    shown = {panel["targets"][0]["expr"].partition("{")[0] for panel in panels}
    assert shown == {f"cdc_stream_{figure.value}" for figure in Figure}
    assert set(re.findall(r"cdc_stream_\w+", text)) == shown


@pytest.mark.parametrize("figure", Figure)
def test_mapping_gives_each_metric_its_connection_and_stream(figure: Figure) -> None:
    rules = yaml.safe_load((FOLDER / "statsd-mapping.yaml").read_text())["mappings"]
    sent = f"airflow.cdc.stream.cdc_default.lake.orders_changes.{figure.value}"
    fitting = [rule for rule in rules if re.match(rule["match"], sent)]
    assert [rule["name"] for rule in fitting] == [f"cdc_stream_{figure.value}"]
    found = re.match(fitting[0]["match"], sent)
    assert found is not None
    assert found.groups() == ("cdc_default", "lake.orders_changes")
