"""Statements that consume, and helpers for tests of consumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from stream_lab import Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    Progress,
    ProtocolPoint,
)
from airflow_provider_cdc.engine.core.model.stream import Phase

TRACKED = "'delta.enableRowTracking' = 'true'"
LOG = "INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM s"
OTHER = "INSERT INTO {other} SELECT id, v, METADATA$ACTION FROM s"
NUMBERS = "INSERT INTO {numbers} SELECT CAST(v AS INT) FROM s"
SUMS = """
    MERGE INTO {sums} t USING (
        SELECT id % 2 AS k, sum(IF(METADATA$ACTION = 'INSERT', 1, -1) * try_cast(v AS INT)) AS d
        FROM s GROUP BY id % 2
    ) c ON t.k = c.k
    WHEN MATCHED THEN UPDATE SET total = t.total + c.d
    WHEN NOT MATCHED THEN INSERT (k, total) VALUES (c.k, c.d)
"""
FIRST = [(1, "10", "INSERT"), (2, "20", "INSERT")]
DIM = "INSERT INTO {other} SELECT id, CAST(n AS STRING), METADATA$ACTION FROM d"
DIM_ROWS = [(1, "100", "INSERT")]


def before(point: ProtocolPoint, act: Callable[[], Any], index: int | None = None) -> Any:
    """A listener that calls ``act`` once, at ``point`` of statement ``index``."""
    pending = [act]

    def listener(progress: Progress) -> None:
        if progress.point is point and progress.statement_index == index and pending:
            pending.pop()()

    return listener


def crash(lab: StreamLab, point: ProtocolPoint, index: int | None, *statements: str) -> None:
    """Crash a consumption of consumer ``first`` at ``point``."""
    with pytest.raises(Crash):
        lab.consume(*statements, consumer="first", engine=lab.new_engine(CrashAt(point, index)))


def foreign(lab: StreamLab) -> Callable[[], None]:
    """A commit of somebody else to the table ``log``."""
    return lambda: lab.sql("INSERT INTO {log} VALUES (99, 'foreign', 'y')")


def crash_after_an_undo_that_met_another(
    lab: StreamLab, writer: type, patch: pytest.MonkeyPatch
) -> None:
    """Crash right after the undo of a failed consumption, which removed a foreign commit too."""
    restore = writer.restore

    def late(found: Any, *arguments: Any) -> None:
        foreign(lab)()
        restore(found, *arguments)
        raise Crash("right after the RESTORE")

    patch.setattr(writer, "restore", late)
    with pytest.raises(Crash):
        lab.consume(LOG, NUMBERS, consumer="me")
    patch.undo()


def transitions(lab: StreamLab, stream: str = "s") -> list[str]:
    return [record.transition.value for record in lab.engine._parts.catalog.stream_history(stream)]


def offset(lab: StreamLab, stream: str = "s") -> int:
    return lab.engine.describe_stream(stream).offset_version


def phase(lab: StreamLab, stream: str = "s") -> Phase:
    return lab.engine._parts.catalog.get_stream(stream).phase


def contents(lab: StreamLab, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    return {table: lab.rows(table) for table in tables}


@contextmanager
def begun(lab: StreamLab, consumer: str = "me", engine: Engine | None = None) -> Iterator[Any]:
    with (engine or lab.engine).transaction(consumer=consumer) as transaction:
        yield transaction


def is_untouched(lab: StreamLab, *streams: str) -> bool:
    """Nothing is open, no offset has moved, and the targets have not changed."""
    names = streams or ("s", "d")
    return all(offset(lab, name) == 0 and phase(lab, name) is Phase.IDLE for name in names) and (
        contents(lab, "log", "other") == {"log": [], "other": []}
    )
