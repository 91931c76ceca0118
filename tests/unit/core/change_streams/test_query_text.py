"""The one SQL query of a change stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.change_streams.query_text import ReadCall, read_call
from airflow_provider_cdc.engine.core.errors import InvalidStatement

DOCUMENTED = """SELECT ChangeRecord FROM READ_SingersNameStream(
  start_timestamp => "2022-05-01 09:00:00-00",
  end_timestamp => NULL,
  partition_token => NULL,
  heartbeat_milliseconds => 10000
);"""
BOUND = (
    "SELECT ChangeRecord FROM READ_SingersNameStream(   start_timestamp => @startTimestamp,"
    "   end_timestamp => @endTimestamp,   partition_token => @partitionToken,"
    "   heartbeat_milliseconds => @heartbeatMillis)"
)
NOON = datetime(2022, 5, 1, 12, tzinfo=UTC)


def test_documented_query_is_read() -> None:
    found = read_call(DOCUMENTED, {})

    assert found == ReadCall("SingersNameStream", "2022-05-01 09:00:00-00", None, None, 10_000)


def test_parameters_of_the_documented_template_are_bound() -> None:
    given = {
        "startTimestamp": NOON,
        "endTimestamp": None,
        "partitionToken": "child_token_2",
        "heartbeatMillis": 10_000,
    }

    found = read_call(BOUND, given)

    assert found == ReadCall("SingersNameStream", NOON, None, "child_token_2", 10_000)


@pytest.mark.parametrize(
    "query",
    [
        "select changerecord from read_cs('2022-05-01T09:00:00Z', NULL, NULL, 1000)",
        "SELECT ChangeRecord FROM READ_cs(heartbeat_milliseconds => 1000,"
        " start_timestamp => TIMESTAMP '2022-05-01T09:00:00Z')",
    ],
)
def test_arguments_are_read_by_place_and_by_name(query: str) -> None:
    assert read_call(query, {}) == ReadCall("cs", "2022-05-01T09:00:00Z", None, None, 1_000)


START = "start_timestamp => '2022-05-01T09:00:00Z'"
BEAT = "heartbeat_milliseconds => 1000"


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        (f"SELECT * FROM READ_cs({START}, {BEAT})", "something else than ChangeRecord"),
        (f"SELECT ChangeRecord, 1 FROM READ_cs({START}, {BEAT})", "something else"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}) WHERE true", "it has WHERE"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}) JOIN t", "it has JOINS"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}) LIMIT 1", "it has LIMIT"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}) AS x", "not one function"),
        (f"SELECT DISTINCT ChangeRecord FROM READ_cs({START}, {BEAT})", "it has DISTINCT"),
        ("SELECT ChangeRecord FROM READ_cs", "not one function"),
        ("SELECT ChangeRecord FROM t", "not one function"),
        ("SELECT ChangeRecord", "no FROM"),
        (f"SELECT ChangeRecord FROM other({START}, {BEAT})", "its function is other"),
        (f"SELECT ChangeRecord FROM READ_({START}, {BEAT})", "its function is READ_"),
        (f"SELECT ChangeRecord FROM READ_cs({BEAT})", "start_timestamp is not given"),
        (f"SELECT ChangeRecord FROM READ_cs({START})", "heartbeat_milliseconds is not given"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}, x => 1)", "an argument x"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {START}, {BEAT})", "twice"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, {BEAT}, end_timestamp => 5)", "a time"),
        (f"SELECT ChangeRecord FROM READ_cs({BEAT}, start_timestamp => now())", "expression"),
        (f"SELECT ChangeRecord FROM READ_cs({BEAT}, start_timestamp => @s)", "has no value"),
        (f"SELECT ChangeRecord FROM READ_cs({START}, heartbeat_milliseconds => 1.5)", "is 1.5"),
        ("DELETE FROM t", "no SELECT but DELETE"),
        ("SELECT ((", "cannot be parsed"),
        ("", "parse"),
    ],
)
def test_query_of_another_shape_is_refused_by_name(query: str, cause: str) -> None:
    with pytest.raises(InvalidStatement, match=f"has another shape. Cause: .*{cause}"):
        read_call(query, {})


@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text()))
def test_any_text_is_read_or_refused(query: str, parameters: dict[str, Any]) -> None:
    for text in (query, DOCUMENTED.replace("NULL", query, 1)):
        try:
            read_call(text, parameters)
        except InvalidStatement as error:
            str(error).encode()
