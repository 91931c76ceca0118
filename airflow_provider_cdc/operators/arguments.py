"""Arguments of operators, as they are or as the text that a template made of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, overload

from airflow_provider_cdc.engine.core.arguments import Kept
from airflow_provider_cdc.engine.core.intervals import interval_of
from airflow_provider_cdc.engine.core.points import LONGEST_NUMBER, Point, as_mapping, point_of

_NOTHING = ("", "None")
_TRUTH: Mapping[str, bool] = {"True": True, "true": True, "False": False, "false": False}


def written(given: Point | Mapping[str, Any] | None) -> dict[str, int | str] | None:
    """The point that an argument names, as a job's JSON has it.

    :raises InvalidRequest: it names none
    """
    point = point_of(given)
    return None if point is None else as_mapping(point)


def number(given: Any) -> Any:
    """A number, of digits too; ``None`` where a template gave nothing. What is neither is returned
    as it is, for whoever checks it to name.
    """
    if not isinstance(given, str):
        return given
    text = given.strip()
    if text in _NOTHING:
        return None
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else given


@overload
def length(given: timedelta | str | None, name: str) -> timedelta | None: ...
@overload
def length(given: timedelta | str | Kept | None, name: str) -> timedelta | Kept | None: ...
def length(given: timedelta | str | Kept | None, name: str) -> timedelta | Kept | None:
    """A length of time, as a duration or as text such as ``P14D`` or ``INTERVAL 2 HOUR``; ``None``
    where a template gave nothing, ``KEPT`` where the user gave nothing.

    :raises InvalidRequest: the text names no length of time
    """
    if isinstance(given, Kept):
        return given
    is_nothing = given is None or (isinstance(given, str) and given.strip() in _NOTHING)
    return None if is_nothing else interval_of(given, name)


def truth(given: Any) -> Any:
    """Whether it is so, told by ``True`` or ``False`` as text too; what is neither is returned as
    it is.
    """
    return _TRUTH.get(given.strip(), given) if isinstance(given, str) else given
