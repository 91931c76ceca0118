"""The class path of drivers in client mode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_cdc.hooks.class_path import class_path_settings
from airflow_provider_cdc.hooks.connection import CdcConnection
from airflow_provider_cdc.hooks.driver_options import CLASS_PATH

CONNECTION = CdcConnection("cdc_default", "file:///state")
JARS = (
    "file:///my%20jars/io.delta_delta-spark-4.4.0.jar",
    "file:///my%20jars/com.fasterxml.jackson.core_jackson-core-2.13.5.jar",
    "file:///my%20jars/io.delta_delta-storage-4.4.0.jar",
)


@pytest.fixture(autouse=True)
def no_spark_of_the_machine(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def test_class_path_of_the_default_package_has_only_the_jars_of_delta():
    found = class_path_settings(CONNECTION, JARS, {})

    spark, storage = "io.delta_delta-spark-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar"
    assert found == {CLASS_PATH: f"/my jars/{spark}:/my jars/{storage}"}


def test_class_path_without_a_jar_of_delta_is_not_set():
    assert class_path_settings(CONNECTION, JARS[1:2], {}) == {}


def test_class_path_of_a_driver_with_unity_catalog_is_not_set():
    conf = {"spark.sql.catalog.main": "io.unitycatalog.spark.UCSingleCatalog"}

    assert class_path_settings(CONNECTION, JARS, conf) == {}


@pytest.mark.parametrize("change", [{"packages": "a:b:1"}, {"jars": "/mine.jar"}])
def test_class_path_of_other_jars_is_left_as_it_is(change):
    assert class_path_settings(replace(CONNECTION, **change), JARS, {}) == {}


def test_class_path_of_the_user_is_left_as_it_is():
    assert class_path_settings(CONNECTION, JARS, {CLASS_PATH: "/mine.jar"}) == {}


@pytest.mark.parametrize("variable", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_class_path_that_a_file_of_defaults_may_set_is_left_as_it_is(
    tmp_path, monkeypatch, variable
):
    monkeypatch.setenv(variable, str(tmp_path))
    folder = tmp_path / "conf" if variable == "SPARK_HOME" else tmp_path
    folder.mkdir(exist_ok=True)
    assert class_path_settings(CONNECTION, JARS, {}) != {}

    (folder / "spark-defaults.conf").touch()

    assert class_path_settings(CONNECTION, JARS, {}) == {}
