"""Parse the arguments of operators, as values or as the text that a template returned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, overload

from airflow_provider_cdc.engine.core.arguments.intervals import interval_of
from airflow_provider_cdc.engine.core.arguments.points import (
    LONGEST_NUMBER,
)
from airflow_provider_cdc.engine.core.arguments.validation import Kept

_NOTHING = ("", "None")
_TRUTH: Mapping[str, bool] = {"True": True, "true": True, "False": False, "false": False}


def parse_int(given: Any) -> Any:
    """Return a number, also from text of digits. ``None``: a template returned nothing.

    Any other value is returned unchanged, and a later check refuses it.
    """
    if not isinstance(given, str):
        return given
    text = given.strip()
    if text in _NOTHING:
        return None
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else given


@overload
def parse_duration(given: timedelta | str | None, name: str) -> timedelta | None: ...
@overload
def parse_duration(given: timedelta | str | Kept | None, name: str) -> timedelta | Kept | None: ...
def parse_duration(given: timedelta | str | Kept | None, name: str) -> timedelta | Kept | None:
    """Return a duration, also from text such as ``P14D`` or ``INTERVAL 2 HOUR``.

    ``None``: a template returned nothing. ``KEPT``: the user gave nothing.

    :param name: the name of the argument, for the error
    :raises InvalidRequest: the text is not a duration
    """
    if isinstance(given, Kept):
        return given
    is_nothing = given is None or (isinstance(given, str) and given.strip() in _NOTHING)
    return None if is_nothing else interval_of(given, name)


def parse_text(given: Any) -> Any:
    """Return text. ``None``: a template returned nothing."""
    return None if isinstance(given, str) and given.strip() in _NOTHING else given


def parse_bool(given: Any) -> Any:
    """Return a boolean, also from the text ``True`` or ``False``.

    Any other value is returned unchanged.
    """
    return _TRUTH.get(given.strip(), given) if isinstance(given, str) else given
