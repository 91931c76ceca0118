"""The one application that spark-submit runs: ``entry_point.py --request '<json>'``.

Its only argument is the JSON of a :class:`~airflow_provider_cdc.jobs.model.Request`. A request that
is too long for that comes as ``--request-file '<uri>'``. Secrets come by the environment, because
arguments show in the process list. If the job fails, it exits with 1, and the answer in the state
folder describes the error. If some of several consumptions fail, it exits with 0, and the answer
names them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.model.json_text import from_json
from airflow_provider_cdc.jobs.answers import sweep_answers, write_answer
from airflow_provider_cdc.jobs.driver_lines import DriverFormatter
from airflow_provider_cdc.jobs.model import Request
from airflow_provider_cdc.jobs.requests import read_request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUEST_FILE = "--request-file"
"""The argument that names the file of a request."""

STORAGE_OPTIONS_VARIABLE = "AIRFLOW_PROVIDER_CDC_STORAGE_OPTIONS"
"""Environment variable: the storage options of the state folder, a JSON object."""

SECRET_CONF_VARIABLE = "AIRFLOW_PROVIDER_CDC_SECRET_CONF"
"""Environment variable: Spark settings that must not show in arguments, a JSON object."""

JARS_FILE_VARIABLE = "AIRFLOW_PROVIDER_CDC_JARS_FILE"
"""Environment variable, in client mode only: the file to which the driver writes the URIs of the
jars that Spark resolved for the packages of the submission, as a JSON list.
"""

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""The settings that a Spark session needs for Delta."""

# A script has the module name __main__, and messages of __main__ below WARNING are not logged.
log = logging.getLogger("airflow_provider_cdc.jobs.entry_point")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the request of the command line, and return the exit code.

    :param arguments: the arguments; ``None``: those of the process
    :raises msgspec.ValidationError: the request is malformed
    """
    from airflow_provider_cdc.jobs.run import run  # noqa: PLC0415 - DAG files need no Spark

    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(DriverFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("airflow_provider_cdc").setLevel(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--request", help="the JSON of the request")
    given.add_argument(REQUEST_FILE, help="the URI of a file with that JSON")
    parsed = parser.parse_args(arguments)
    storage_options = json_object(os.environ, STORAGE_OPTIONS_VARIABLE)
    if parsed.request_file is None:
        request = from_json(parsed.request, Request)
    else:
        request = read_request(parsed.request_file, storage_options)

    spark = delta_session(json_object(os.environ, SECRET_CONF_VARIABLE))
    try:
        keep_jars(spark, os.environ.get(JARS_FILE_VARIABLE))
        log.info("Spark %s runs the %s job", spark.version, request.job)
        answer = run(request, spark, storage_options)
        write_answer(request.state, answer, storage_options)
        sweep_answers(request.state, storage_options)
    finally:
        spark.stop()
    return 1 if answer.error else 0


def json_object(environment: Mapping[str, str], variable: str) -> dict[str, str]:
    """Return the JSON object in ``variable``; empty if the variable is not set or empty.

    :raises ValueError: the variable holds something else; the message does not repeat its value
    """
    try:
        value = json.loads(environment.get(variable) or "{}")
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{variable}: is not a JSON object")
    return {str(key): str(item) for key, item in value.items()}


def delta_session(secret_conf: Mapping[str, str]) -> SparkSession:
    """Return the session that spark-submit prepared, or a new one if its settings lack Delta."""
    # Workers import this module without Spark.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from airflow_provider_cdc.engine.spark.session.failures import (  # noqa: PLC0415
        log_no_query_errors,
    )

    log_no_query_errors()
    conf: dict[str, bool | float | int | str | None] = dict(secret_conf)
    spark = SparkSession.builder.config(map=conf).getOrCreate()
    present = spark.conf.get("spark.sql.extensions", None) or ""
    extension = DELTA_CONF["spark.sql.extensions"]
    if extension in present:
        return spark
    spark.stop()
    extensions = ",".join(filter(None, (present, extension)))
    conf |= DELTA_CONF | {"spark.sql.extensions": extensions}
    return SparkSession.builder.config(map=conf).getOrCreate()


def keep_jars(spark: SparkSession, file: str | None) -> None:
    """Write the URIs of the session's jars to ``file``, for later submissions of this worker.

    :param file: ``None``: nothing is written
    """
    if not file:
        return
    conf = spark.sparkContext.getConf()
    jars = conf.get("spark.jars", "") or conf.get("spark.yarn.dist.jars", "") or ""
    draft = f"{file}.{os.getpid()}"
    try:
        with open(draft, "w", encoding="utf-8") as opened:
            json.dump([jar for jar in jars.split(",") if jar], opened)
        os.replace(draft, file)
    except OSError as error:
        log.warning(
            "The list of Spark's jars cannot be saved, so the next job asks Ivy again: %s", error
        )


if __name__ == "__main__":
    # Spark puts this script's folder first on the path. There model.py and run.py would shadow
    # other modules.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]
    sys.exit(main())
