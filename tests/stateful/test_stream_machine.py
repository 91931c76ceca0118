"""Streams against a plain model: random writes, reads, consumptions and crashes of drivers.

``HYPOTHESIS_PROFILE=thorough`` runs thousands of steps, and shrinks failures; ``MACHINE_EXAMPLES``
is the number of examples, each of fifty steps.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from profiles import THOROUGH, examples
from pyspark.sql import SparkSession
from stream_machine import APPENDED, STANDARD, StreamMachine
from table_writes import Delete, Insert, Merge, Update, Where

from airflow_provider_cdc.engine import AppendSemantics, ProtocolPoint

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(0)]

PROFILE = settings(examples(1), stateful_step_count=50 if THOROUGH else 20)

EVERY, EVEN = Where(1, 0), Where(2, 0)
BOTH = (STANDARD, APPENDED)


def row(value: int) -> dict[str, object]:
    return {"p": value % 2, "v": value, "s": "ä"}


def test_streams_under_random_writes_and_crashes_agree_with_the_model(
    spark: SparkSession, tmp_path: Path
) -> None:
    run_state_machine_as_test(lambda: StreamMachine(spark, tmp_path), settings=PROFILE)
    print(f"{StreamMachine.steps} steps")


# Sequences of failures that the machine has found.


@pytest.mark.thorough
@pytest.mark.parametrize("semantics", AppendSemantics)
def test_sequence_of_crashes_and_takeovers_agrees_with_the_model(
    spark: SparkSession, tmp_path: Path, semantics: AppendSemantics
) -> None:
    machine = StreamMachine(spark, tmp_path)
    machine.create(
        has_vectors=semantics is AppendSemantics.INSERTED,
        is_partitioned=True,
        checkpoint_interval=3,
        has_feed=False,
        semantics=semantics,
        rows=(row(0), row(1), row(2)),
    )
    # Another consumer begins to undo it and crashes; a third one undoes the rest.
    machine.consume((STANDARD,), "first", (ProtocolPoint.AFTER_STATEMENT, 0))
    machine.write([Update(EVEN, "p", 1), Insert((row(3),))])
    machine.consume(BOTH, "second", (ProtocolPoint.AFTER_UNDO, None))
    machine.consume((APPENDED,), "first", (ProtocolPoint.AFTER_STATEMENT, 0))
    machine.read(STANDARD)
    # Two open consumptions: one is undone, the other rolled forward, then both streams move.
    machine.consume(BOTH, "second", (ProtocolPoint.AFTER_STATEMENT, 1))
    machine.add_column()
    machine.write([Merge(EVERY, Where(3, 0), 5, (row(4),)), Delete(EVEN)])
    # The consumption resumes over its own range, after the source has moved on.
    machine.consume(BOTH, "second", None)
    machine.read(STANDARD)
    machine.restore(3)
    machine.read(STANDARD)
    machine.read(APPENDED)
    # The consumption is committed, but its driver did not learn it.
    machine.consume((STANDARD,), "first", (ProtocolPoint.AFTER_COMMIT, None))
    machine.rearrange("OPTIMIZE {t}")
    machine.ask_for_data(STANDARD)
    machine.consume(BOTH, "first", (ProtocolPoint.BEFORE_COMMIT, None))
    machine.consume(BOTH, "second", (ProtocolPoint.BEFORE_FENCE, None))
    machine.teardown()
