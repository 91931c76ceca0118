"""How error messages are composed."""

from __future__ import annotations

import pickle

import pytest

from airflow_provider_cdc.engine.core.errors import CdcError, StreamStale, TableNotFound

MISSING = TableNotFound("table t", "does not exist", cause="found nothing", fix="check the path")


@pytest.mark.parametrize(
    ("cause", "shown"),
    [
        (str(MISSING), "table t: does not exist: found nothing"),
        (str(TableNotFound("table t", "is missing", fix="bring it back")), "table t: is missing"),
        (str(TableNotFound("table t", "is missing")), "table t: is missing"),
        ("Cause: is a word, and so is Fix: here", "Cause: is a word, and so is Fix: here"),
    ],
)
def test_error_because_of_another_one_has_one_cause_and_one_fix(cause: str, shown: str) -> None:
    error = StreamStale("stream s", "is stale", cause=cause, fix="create it again")

    assert error.cause == shown
    assert str(error) == f"stream s: is stale. Cause: {shown}. Fix: create it again."


def test_error_keeps_its_parts_through_a_pickle() -> None:
    error = StreamStale("stream s", "is stale", cause=str(MISSING), fix="create it again")
    again: CdcError = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.cause) == (StreamStale, str(error), error.cause)
