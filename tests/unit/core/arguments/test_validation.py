"""Arguments are checked against the annotations of the method that takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from absurd_values import absurd_values
from hypothesis import given

from airflow_provider_cdc.engine.core.arguments.validation import KEPT, Kept, validated
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.stream import StreamMode


@validated
class Taker:
    """Public methods with each kind of argument, which return their argument."""

    def text(self, value: str) -> Any:
        return value

    def maybe(self, value: str | None = None) -> Any:
        return value

    def flag(self, value: bool) -> Any:
        return value

    def number(self, value: int | None) -> Any:
        return value

    def length(self, value: timedelta | str | Kept | None) -> Any:
        return value

    def names(self, value: Collection[str] | None) -> Any:
        return value

    def statements(self, value: str | Sequence[str]) -> Any:
        return value

    def options(self, value: Mapping[str, Any]) -> Any:
        return value

    def choice(self, value: StreamMode | str) -> Any:
        return value

    def work(self, value: Callable[[int], int]) -> Any:
        return value

    def anything(self, value: Any, untyped=None) -> Any:  # type: ignore[no-untyped-def]
        return value


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("text", "a"),
        ("maybe", None),
        ("flag", False),
        ("number", 5),
        ("length", KEPT),
        ("length", timedelta(1)),
        ("names", ["a", "b"]),
        ("names", {"a"}),
        ("statements", "a"),
        ("statements", ("a",)),
        ("options", {"a": 1}),
        ("choice", StreamMode.STANDARD),
        ("work", len),
        ("anything", object()),
    ],
)
def test_value_that_the_annotation_allows_is_passed_on(method: str, value: object) -> None:
    assert getattr(Taker(), method)(value) is value


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("text", 5, "argument value of text: .* expected text, found 5 of type int"),
        ("text", None, "expected text, found None"),
        ("maybe", b"a", "expected text or None, found b'a' of type bytes"),
        ("flag", "yes", "expected True or False, found 'yes' of type str"),
        ("number", True, "expected a whole number or None, found True of type bool"),
        ("number", 1.0, "found 1.0 of type float"),
        ("length", 14, "expected a timedelta, text or None, found 14"),
        ("names", "ab", "expected a list of texts or None, found 'ab'"),
        ("names", [1, 2], r"found \[1, 2\] of type list"),
        ("names", {"a": "b"}, "of type dict"),
        ("statements", ["a", 1], "expected text or a list of texts"),
        ("options", {1: 2}, "expected a mapping"),
        ("choice", 5, "expected one of standard, append_only, insert_only, feed or text"),
        ("work", 5, "expected a function"),
        ("text", "\ud800", r"character 1 is '\\ud800', half of a surrogate pair"),
        ("names", ["a", "\ud800"], "half of a surrogate pair"),
        ("options", {"a": ["\ud800"]}, "half of a surrogate pair"),
        ("text", ["x" * 1000], "found .{80}[.]{3} of type list"),
    ],
)
def test_value_that_the_annotation_forbids_is_refused(
    method: str, value: object, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        getattr(Taker(), method)(value)


@given(value=absurd_values())
def test_absurd_value_is_passed_on_or_refused(value: object) -> None:
    methods = [name for name in vars(Taker) if not name.startswith("_")]
    for name in methods:
        try:
            found = getattr(Taker(), name)(value)
        except InvalidRequest as error:
            str(error).encode()
        else:
            assert found is value


def test_checked_method_keeps_its_signature_and_documentation() -> None:
    import inspect

    assert str(inspect.signature(Taker.maybe)) == "(self, value: 'str | None' = None) -> 'Any'"
    assert Taker.text.__name__ == "text"
