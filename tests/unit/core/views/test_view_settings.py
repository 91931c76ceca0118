"""Which of the settings that Spark stores with a view determine the meaning of its text."""

from __future__ import annotations

from airflow_provider_cdc.engine.core.views.view_settings import TIME_ZONE, view_settings


def test_stored_settings_that_affect_meaning_override_defaults() -> None:
    found = view_settings(
        {
            TIME_ZONE: "Asia/Tokyo",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.legacy.something": "x",
            "spark.sql.files.openCostInBytes": "65536",
        }
    )
    assert found[TIME_ZONE] == "Asia/Tokyo"
    assert found["spark.sql.ansi.enabled"] == "false"
    assert found["spark.sql.legacy.something"] == "x"
    assert found["spark.sql.caseSensitive"] == "false"
    assert "spark.sql.files.openCostInBytes" not in found


def test_time_zone_that_is_not_stored_is_that_of_the_session() -> None:
    assert TIME_ZONE not in view_settings({})
