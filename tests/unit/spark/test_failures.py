"""What the engine reports of an exception that Spark raised."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from streams import NOON

from airflow_provider_cdc.engine.consumption.attempts import statement_failed
from airflow_provider_cdc.engine.consumption.ports import Failure
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
)
from airflow_provider_cdc.engine.spark.session.failures import (
    first_line,
    has_ended,
    is_session_lost,
    reason,
)

ANSWER = """An error occurred while calling o64.sql.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.task(QueryExecutionErrors.scala:843)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] 'x' is no INT.
== SQL (line 1, position 97) ==
SELECT CAST(v AS INT)
       ^^^^^^^^^^^^^^
\tat org.apache.spark.sql.catalyst.util.UTF8StringUtils$.toIntExact(UTF8StringUtils.scala:34)
\t... 1 more
"""


class Py4JJavaError(Exception):
    """Has the name of pyspark's error for a JVM exception without a class of its own."""


class Py4JNetworkError(Exception):
    """Has the name of pyspark's error for a JVM that no longer answers."""


def test_reason_holds_every_message_and_no_stack() -> None:
    assert reason(Py4JJavaError(ANSWER)) == (
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/t.\n"
        "[CAST_INVALID_INPUT] 'x' is no INT.\n"
        "== SQL (line 1, position 97) ==\n"
        "SELECT CAST(v AS INT)\n"
        "       ^^^^^^^^^^^^^^"
    )


def test_reason_of_a_plain_message_is_the_message() -> None:
    assert reason(ValueError("the disk is full. ")) == "the disk is full"
    assert reason(ValueError()) == ""


def test_statement_has_ended_if_spark_or_its_jvm_reports_the_error() -> None:
    assert has_ended(PySparkException(errorClass="SESSION_ALREADY_EXIST", messageParameters={}))
    assert has_ended(Py4JJavaError(ANSWER))


def test_statement_may_still_run_when_the_connection_is_lost() -> None:
    assert not has_ended(Py4JNetworkError("Answer from Java side is empty"))
    assert not has_ended(PySparkException("the channel was closed"))
    assert not has_ended(ConnectionResetError())


@pytest.mark.parametrize(
    "condition",
    [
        "INVALID_HANDLE.SESSION_CHANGED",
        "INVALID_HANDLE.OPERATION_ABANDONED",
        "INVALID_CURSOR.DISCONNECTED",
        "RESPONSE_ALREADY_RECEIVED",
        "OPERATION_CANCELED",
        "NO_ACTIVE_SESSION",
    ],
)
def test_statement_may_still_run_when_its_answer_is_lost(condition: str) -> None:
    error = PySparkException(condition)
    error._errorClass = condition
    assert error.getCondition() == condition
    assert not has_ended(error)


@pytest.mark.parametrize("condition", ["INVALID_HANDLE.SESSION_CHANGED", "NO_ACTIVE_SESSION"])
def test_session_is_lost_if_another_server_answers(condition: str) -> None:
    error = PySparkException(condition)
    error._errorClass = condition

    assert is_session_lost(error)


def test_session_is_lost_if_nothing_answers() -> None:
    assert is_session_lost(Py4JNetworkError("Answer from Java side is empty"))
    assert is_session_lost(SparkConnectGrpcException("the channel was closed"))


def test_session_is_not_lost_if_a_statement_fails() -> None:
    assert not is_session_lost(Py4JJavaError(ANSWER))
    assert not is_session_lost(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no table t"))
    assert not is_session_lost(ValueError("v"))


def test_reason_of_an_analysis_error_ends_before_the_plan() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nope` cannot be resolved. SQLSTATE: 42703;"
        " line 1 pos 36;\n'InsertIntoStatement 'UnresolvedRelation [t]\n+- 'Project ['nope]\n"
    )
    wanted = text.partition(";\n")[0]

    assert reason(AnalysisException(text)) == wanted
    assert first_line(AnalysisException(text)) == wanted


def test_first_line_of_a_parse_error_is_its_message() -> None:
    text = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1, pos 7)\n\n"
        "== SQL ==\nEXPLAIN x\n-------^^^\n"
    )

    assert reason(ParseException(text)) == text.partition("\n\n")[0].strip()
    assert first_line(ParseException(text)).endswith("(line 1, pos 7)")


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("[DELTA_CONCURRENT_APPEND] Files were added.", "Fix: run the consumer again; somebody"),
        ("[CAST_INVALID_INPUT] 'x' is no INT.", "Fix: correct the statement or its data"),
    ],
)
def test_advice_on_a_failed_statement_fits_its_cause(message: str, fix: str) -> None:
    planned = PlannedStatement(1, StatementKind.INSERT, "f", "t", "/t", 0, created=False)
    consumption = Consumption("c1", "d.t", (), (planned,), NOON)

    assert fix in str(statement_failed(consumption, planned, Failure(message, has_ended=True)))
