"""A driver that crashes at any point of the protocol loses and doubles nothing."""

from __future__ import annotations

import pytest
from protocol_lab import ProtocolLab
from scenes import FIRST, LOG, OTHER, SUMS, contents, offset, transitions
from stream_lab import Crash, CrashAt, point_name

from airflow_provider_cdc.engine import ProtocolPoint

STATEMENTS = (LOG, SUMS, OTHER)
CONSUMING = [
    (ProtocolPoint.BEFORE_BEGIN, None),
    (ProtocolPoint.AFTER_BEGIN, None),
    *(
        (point, index)
        for index in range(3)
        for point in (
            ProtocolPoint.BEFORE_STATEMENT,
            ProtocolPoint.AFTER_STATEMENT,
        )
    ),
    (ProtocolPoint.BEFORE_COMMIT, None),
    (ProtocolPoint.AFTER_COMMIT, None),
]
RESOLVING = [
    (ProtocolPoint.BEFORE_FENCE, 2),
    (ProtocolPoint.AFTER_FENCE, 2),
    (ProtocolPoint.BEFORE_UNDO, 0),
    (ProtocolPoint.AFTER_UNDO, 0),
    (ProtocolPoint.BEFORE_UNDO, 1),
    (ProtocolPoint.AFTER_UNDO, 1),
]
Point = tuple[ProtocolPoint, int | None]


def crashed(lab: ProtocolLab, consumer: str, point: Point) -> None:
    with pytest.raises(Crash):
        lab.consume(*STATEMENTS, consumer=consumer, engine=lab.new_engine(CrashAt(*point)))


def check(lab: ProtocolLab) -> None:
    """All changes are applied once, and the offset is after them."""
    assert contents(lab, "log", "sums", "other") == {
        "log": [(0, "kept", "x"), *FIRST, (3, "x", "INSERT")],
        "sums": [(0, 1020), (1, 2010)],
        "other": [*FIRST, (3, "x", "INSERT")],
    }
    assert offset(lab) == 2
    assert transitions(lab)[-1] == "committed"


@pytest.mark.parametrize("consumer", ["first", "second"])
@pytest.mark.parametrize("point", CONSUMING, ids=point_name)
def test_driver_that_crashed_is_finished_by_any_consumer(
    three: ProtocolLab, point: Point, consumer: str
) -> None:
    crashed(three, "first", point)

    three.consume(*STATEMENTS, consumer=consumer)

    check(three)


@pytest.mark.parametrize("consumer", ["first", "second", "third"])
@pytest.mark.parametrize("point", RESOLVING, ids=point_name)
def test_takeover_that_crashed_is_finished_by_any_consumer(
    three: ProtocolLab, point: Point, consumer: str
) -> None:
    crashed(three, "first", (ProtocolPoint.BEFORE_STATEMENT, 2))
    crashed(three, "second", point)

    three.consume(*STATEMENTS, consumer=consumer)

    check(three)


@pytest.mark.in_ci("*-after_statement 1", "*-before_commit")
@pytest.mark.parametrize("second", CONSUMING, ids=point_name)
@pytest.mark.parametrize("first", CONSUMING[1:-1], ids=point_name)
def test_driver_that_crashed_twice_applies_every_change_once(
    three: ProtocolLab, first: Point, second: Point
) -> None:
    crashed(three, "first", first)
    engine = three.new_engine(CrashAt(*second))
    try:
        three.consume(*STATEMENTS, consumer="first", engine=engine)
    except Crash:
        three.consume(*STATEMENTS, consumer="first")

    check(three)
