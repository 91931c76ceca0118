"""The named points of the consumption protocol, reported to a listener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class ProtocolPoint(StrEnum):
    """The points at which a driver can be.

    If the driver crashes at one of them, nothing is lost and nothing is applied twice.
    """

    BEFORE_BEGIN = "before_begin"
    AFTER_BEGIN = "after_begin"
    BEFORE_EXTEND = "before_extend"
    AFTER_EXTEND = "after_extend"
    BEFORE_STATEMENT = "before_statement"
    AFTER_STATEMENT = "after_statement"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"
    BEFORE_FENCE = "before_fence"
    AFTER_FENCE = "after_fence"
    BEFORE_UNDO = "before_undo"
    AFTER_UNDO = "after_undo"


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a consumption: the point that it reached, with its consumer and statement.

    ``statement_index`` counts from 0. The text of a step counts statements from 1.
    """

    point: ProtocolPoint
    consumer: str
    consumption_id: str | None = None
    statement_index: int | None = None

    def __str__(self) -> str:
        parts = [self.point.value.replace("_", " ")]
        if self.statement_index is not None:
            parts.append(str(self.statement_index + 1))
        parts.append(f"of {self.consumer}")
        if self.consumption_id is not None:
            parts.append(f"({self.consumption_id})")
        return " ".join(parts)


Listener = Callable[[Progress], None]
