"""The lines of spark-submit that the log of a task shows."""

from __future__ import annotations

import io
import logging
import re

from airflow_provider_cdc.hooks.driver_log import LOG4J_FILE, DriverLog
from airflow_provider_cdc.jobs.driver_lines import RECORD, DriverFormatter

# Output of a driver of Spark 4.2, without the middle of Ivy's report.
OUTPUT = """\
WARNING: Using incubator modules: jdk.incubator.vector
WARNING: package sun.security.action not in java.base
:: loading settings :: url = jar:file:/spark/jars/ivy-2.5.3.jar!/org/apache/ivy/core/settings.xml
Ivy Default Cache set to: /home/me/.ivy2.5.2/cache
The jars for the packages stored in: /home/me/.ivy2.5.2/jars
io.delta#delta-spark_4.2_2.13 added as a dependency
:: resolving dependencies :: org.apache.spark#spark-submit-parent-1;1.0
\tconfs: [default]
\tfound io.delta#delta-storage;4.4.0 in central
:: retrieving :: org.apache.spark#spark-submit-parent-1
\tconfs: [default]
\t0 artifacts copied, 33 already retrieved (0kB/86ms)

2026-01-01 00:00:00 INFO Spark 4.2.0 runs the consume job
printed by a function
2026-01-01 00:00:01 WARN TaskSetManager: Lost task 0.0
java.io.IOException: missing
\tat org.apache.spark.Task.run(Task.scala:1)
Setting Spark log level to "WARN".
2026-01-01 00:00:02 ERROR stream s: is stale.
"""


class Kept:
    """A logger that keeps its lines."""

    def __init__(self):
        self.lines: list[tuple[str, str]] = []

    def log(self, level, event, *args):
        self.lines.append((logging.getLevelName(level), event % args if args else event))


def shown(output: str) -> list[tuple[str, str]]:
    """The lines logged for ``output``, read as the Spark provider reads it, except DEBUG lines."""
    logger = Kept()
    log = DriverLog(logger)
    for line in log.following(iter(output.splitlines(keepends=True))):
        log.info(line.strip())
    return [line for line in logger.lines if line[0] != "DEBUG"]


def test_log_of_a_task_keeps_record_levels_and_drops_the_banner():
    assert shown(OUTPUT) == [
        ("INFO", "Spark 4.2.0 runs the consume job"),
        ("INFO", "printed by a function"),
        ("WARNING", "TaskSetManager: Lost task 0.0"),
        ("WARNING", "java.io.IOException: missing"),
        ("WARNING", "\tat org.apache.spark.Task.run(Task.scala:1)"),
        ("ERROR", "stream s: is stale."),
    ]


def test_log_of_a_task_shows_why_spark_did_not_start():
    output = ":: loading settings ::\n:: UNRESOLVED DEPENDENCIES ::\n" + (
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b;1]\n'
    )

    ((level, line),) = shown(output)

    assert level == "ERROR"
    assert "unresolved dependency: a#b;1" in line


def test_log_of_a_task_keeps_the_hooks_messages_but_not_the_command():
    logger = Kept()
    log = DriverLog(logger)

    log.info("Spark-Submit cmd: %s", "spark-submit --request {}")
    log.info("identified spark driver id: %s", "driver-1")

    assert logger.lines == [
        ("DEBUG", "Spark-Submit cmd: spark-submit --request {}"),
        ("INFO", "identified spark driver id: driver-1"),
    ]


def test_record_of_a_driver_is_read_as_it_was_written():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(DriverFormatter())
    handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, "one\ntwo", None, None))

    assert [(level, text) for level, text in shown(stream.getvalue())] == [
        ("WARNING", "one"),
        ("WARNING", "  two"),
    ]


def test_jvm_log_pattern_matches_the_records_that_the_driver_log_reads():
    (pattern,) = re.findall(r"layout\.pattern = (.*)", LOG4J_FILE.read_text(encoding="utf-8"))

    line = pattern.replace("%d{yyyy-MM-dd HH:mm:ss}", "2026-01-01 00:00:00").replace("%p", "WARN")

    assert RECORD.match(line)
