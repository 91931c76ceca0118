"""The demo fails where its upsert table was staler than it promises."""

from __future__ import annotations

from typing import Any

import pytest
from flights_demo.demo import Board, DemoFailed


def board(**figures: float) -> Board:
    catalog: Any = None
    return Board(catalog, "/board", **figures)


def test_broken_promise_fails_the_demo() -> None:
    with pytest.raises(
        DemoFailed, match=r"6 minutes 39 seconds stale; .* allows 2 minutes: .*broken"
    ):
        board(staleness=399.2, objective=120).check()


def test_kept_promise_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    board(staleness=119, objective=120).check()

    assert "at most 1 minute 59 seconds stale" in capsys.readouterr().out
