"""Three streams that one job of a real Airflow consumes; see ``shared_dags/cdc_many.py``."""

from __future__ import annotations

from airflow_fixtures import RunningAirflow
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine


def check_many_streams(airflow: RunningAirflow, spark: SparkSession) -> None:
    """Run ``cdc_many``, and assert that its retry consumed only what the first attempt left."""
    server, tables = airflow.server, airflow.tables
    engine = Engine(spark, airflow.state.as_uri())
    for number in range(3):
        for table in (f"many_{number}", f"many_target_{number}"):
            spark.sql(f"CREATE TABLE delta.`{tables}/{table}` (id INT, v STRING) USING delta")
        engine.create_stream(f"many_{number}", on_table=f"{tables}/many_{number}")
        spark.sql(f"INSERT INTO delta.`{tables}/many_{number}` VALUES ({number}, 'a')")
    server.wait_dag("cdc_many")
    run = server.trigger("cdc_many")
    server.wait_success("cdc_many", run)

    for number in range(3):
        found = spark.sql(f"SELECT * FROM delta.`{tables}/many_target_{number}`").collect()
        assert list(map(tuple, found)) == [(number, "a")]
    assert server.task("cdc_many", run, "consume")["try_number"] == 2
    results = server.xcom("cdc_many", run, "consume")["consumptions"]
    assert [each["consumer"] for each in results] == [
        f"cdc_many/consume/many_{n}" for n in range(3)
    ]
    assert [each["outcome"]["streams"][0]["rows"]["inserted"] for each in results] == [1] * 3
    first, second = (server.task_log("cdc_many", run, "consume", number) for number in (1, 2))
    assert "3 consumptions: 2 done, 1 failed" in first
    assert "3 consumptions: 1 failed, cdc_many/consume/many_1" in first
    assert "2 consumptions: an earlier attempt of this run has consumed" in second
    assert "consumed many_1 up to version" in second
    assert "consumed many_0" not in second
