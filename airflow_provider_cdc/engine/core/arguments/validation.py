"""Arguments of public methods, checked against their annotations before anything else happens.

The annotation is the only list of what a method takes. Any other value is an ``InvalidRequest``
that names the argument, and not an error from deep inside.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, wraps
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..errors import InvalidRequest
from ..shown_values import shown
from .points import OffsetOf, Timestamp, Version

Checked = TypeVar("Checked", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])


class Kept(Enum):
    """The value that leaves something as it is, in calls in which ``None`` has another meaning."""

    KEPT = "kept"


KEPT = Kept.KEPT

# They are not checked here. The code that takes a point reports what is wrong and how to write it.
_POINTS = (Version, Timestamp, OffsetOf)
_LISTS = (Collection, Sequence)
_WORDS: Mapping[Any, str] = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    timedelta: "a timedelta",
    datetime: "a datetime",
    type(None): "None",
}


def validated(kind: Checked) -> Checked:
    """``kind`` with public methods that refuse arguments which their annotations do not allow.

    :raises InvalidRequest: each of these methods raises it, before it does anything
    """
    for name, member in list(vars(kind).items()):
        if isinstance(member, types.FunctionType) and not name.startswith("_"):
            setattr(kind, name, validated_call(member))
    return kind


def validated_call(method: Method, *, without: Collection[str] = ()) -> Method:
    """``method`` as a function that refuses arguments which its annotations do not allow.

    :param without: the arguments that ``method`` checks itself
    :raises InvalidRequest: the returned function raises it, before it does anything
    """
    signature = inspect.signature(method)
    owner, _, name = method.__qualname__.rpartition(".")
    called = owner if name == "__init__" else name

    @wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        hints = _hints(method)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in hints and name not in without:
                check_argument(f"argument {name} of {called}", value, hints[name])
        return method(*args, **kwargs)

    return cast(Method, checked)


def check_argument(subject: str, value: object, hint: Any) -> None:
    """Refuse a ``value`` that the annotation ``hint`` does not allow.

    A text is not a list of texts, True and False are not numbers, and a text has to be Unicode.

    :param subject: the argument, for the message
    :raises InvalidRequest: ``value`` is not allowed; the message names what is expected and what
        was found
    """
    if not _allows(hint, value):
        raise InvalidRequest(
            subject,
            "has the wrong type",
            cause=f"expected {_words(hint)}, found {shown(value)}",
            fix="pass a value of the expected type",
        )
    if fault := _fault_of_text(value):
        raise InvalidRequest(
            subject,
            "holds text that is not Unicode",
            cause=fault,
            fix="pass text whose characters can be encoded as UTF-8",
        )


@cache
def _hints(method: Callable[..., Any]) -> Mapping[str, Any]:
    return {name: hint for name, hint in get_type_hints(method).items() if name != "return"}


def _allows(hint: Any, value: object) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_allows(each, value) for each in get_args(hint))
    if origin is Callable:
        return callable(value)
    if origin is Mapping:
        return _allows_mapping(get_args(hint), value)
    if origin in _LISTS:
        return _allows_list(get_args(hint), value)
    if hint is Any or not isinstance(hint, type) or hint in _POINTS:
        return True
    if hint is int:
        return type(value) is int
    if hint is float:
        return type(value) in (int, float)
    return isinstance(value, hint)


def _allows_mapping(kinds: tuple[Any, ...], value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    of_keys, of_values = kinds
    return all(_allows(of_keys, each) for each in value) and all(
        _allows(of_values, each) for each in value.values()
    )


def _allows_list(kinds: tuple[Any, ...], value: object) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        return False
    return all(_allows(kinds[0], each) for each in value)


def _fault_of_text(value: object) -> str | None:
    """What UTF-8 cannot encode in a text, or in the texts of a list or a mapping."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                return (
                    f"character {error.start + 1} is {value[error.start]!r},"
                    " half of a surrogate pair"
                )
            return None
        case Mapping():
            parts: Iterable[object] = (*value.keys(), *value.values())
        case list() | tuple() | set() | frozenset():
            parts = value
        case _:
            return None
    return next(filter(None, map(_fault_of_text, parts)), None)


def _words(hint: Any) -> str:
    origin, kinds = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        words = [_words(each) for each in kinds if each is not Kept]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is Mapping:
        return "a mapping"
    if origin in _LISTS:
        return "a list of texts" if kinds and kinds[0] is str else "a list"
    if hint in _WORDS:
        return _WORDS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if isinstance(hint, type):
        return f"a {hint.__name__}"
    return "a function"
