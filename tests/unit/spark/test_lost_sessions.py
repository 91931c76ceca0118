"""Calls of the engine whose Spark session is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from airflow_provider_cdc.engine import Engine, OutcomeUnknown, Version


class Lost:
    """A part of an engine whose server no longer answers."""

    def __getattr__(self, name: str) -> Any:
        raise SparkConnectGrpcException("the channel was closed")


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.create_stream("s", on_table="t"),
        lambda engine: engine.rewind_stream("s", to=Version(1)),
        lambda engine: engine.consume(["INSERT INTO t SELECT * FROM s"], consumer="c"),
    ],
    ids=["create_stream", "rewind_stream", "consume"],
)
def test_call_whose_session_is_lost_names_what_to_do(call: Callable[[Engine], object]) -> None:
    engine = Engine.__new__(Engine)
    engine._parts = engine._services = Lost()  # type: ignore[assignment]

    with pytest.raises(OutcomeUnknown, match="make the same call with a new session"):
        call(engine)
