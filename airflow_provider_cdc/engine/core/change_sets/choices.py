"""Choices that a user makes by a word, checked where they come in."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from ..errors import InvalidRequest
from ..model.stream import StreamMode
from .read_plan import READING_DIFFERENCES, Strategy

Choice = TypeVar("Choice", bound=StrEnum)


class Information(StrEnum):
    """Which changes a query asks for (Snowflake: the CHANGES clause)."""

    DEFAULT = "default"
    APPEND_ONLY = "append_only"

    @property
    def mode(self) -> StreamMode:
        """The mode of a stream that returns these changes."""
        return StreamMode.STANDARD if self is Information.DEFAULT else StreamMode.APPEND_ONLY


def strategy_of(name: str | None) -> Strategy | None:
    """The strategy called ``name``, if it reads differences. ``None``: the cheapest.

    :raises InvalidRequest: no such strategy has this name
    """
    if name is None:
        return None
    if name in READING_DIFFERENCES:
        return Strategy(name)
    raise InvalidRequest(
        "engine",
        "cannot read change sets as asked",
        cause=f"{name!r} is no strategy",
        fix=f"strategy is one of {', '.join(READING_DIFFERENCES)}, or None for the cheapest",
    )


def mode_of(subject: str, mode: str | None, on_files: str | None) -> StreamMode:
    """The mode called ``mode``. ``None``: the mode that records the most changes of the source.

    :raises InvalidRequest: no mode has this name
    """
    if mode is None:
        return StreamMode.STANDARD if on_files is None else StreamMode.INSERT_ONLY
    return parse_enum(subject, "mode", StreamMode, mode)


def parse_enum(subject: str, argument: str, kind: type[Choice], value: str) -> Choice:
    """``value`` as a member of ``kind``.

    :raises InvalidRequest: ``value`` is not a member; the message lists the members
    """
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidRequest(
            subject,
            "cannot be as asked",
            cause=str(error),
            fix=f"{argument} is one of {', '.join(parse_enum.value for parse_enum in kind)}",
        ) from None
