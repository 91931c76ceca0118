"""Who may read, consume and change a stream."""

from __future__ import annotations

import pytest
from streams import new_stream

from airflow_provider_cdc.engine.core.arguments.validation import KEPT
from airflow_provider_cdc.engine.core.errors import InvalidRequest, StreamAccessDenied
from airflow_provider_cdc.engine.core.model.access import Right, check_access, principals
from airflow_provider_cdc.engine.core.model.stream import Stream

NOBODY: tuple[str, ...] = ()


def stream(readers: tuple[str, ...] | None, consumers: tuple[str, ...] | None) -> Stream:
    return new_stream(owner="olga", readers=readers, consumers=consumers)


def may(given: Stream, principal: str) -> str:
    """The first letters of the rights that ``principal`` has."""
    found = ""
    for right in Right:
        try:
            check_access(given, principal, right)
            found += right.name[0]
        except StreamAccessDenied:
            found += "-"
    return found


@pytest.mark.parametrize(
    ("readers", "consumers", "ralf", "carla", "else_"),
    [
        (None, None, "RCAO", "RCAO", "RCAO"),
        (("ralf",), None, "RCA-", "----", "----"),
        (None, ("carla",), "R---", "RCA-", "R---"),
        (("ralf",), ("carla",), "R---", "RCA-", "----"),
        (("ralf",), NOBODY, "R---", "----", "----"),
        (NOBODY, NOBODY, "----", "----", "----"),
    ],
)
def test_principals_have_the_rights_that_the_stream_grants_them(
    readers: tuple[str, ...] | None,
    consumers: tuple[str, ...] | None,
    ralf: str,
    carla: str,
    else_: str,
) -> None:
    given = stream(readers, consumers)
    assert [may(given, name) for name in ("ralf", "carla", "emil")] == [ralf, carla, else_]
    assert may(given, "olga") == "RCAO"


def test_refusal_names_the_principal_the_right_and_whom_to_ask() -> None:
    with pytest.raises(StreamAccessDenied, match=r"emil may not consume it.*ask olga"):
        check_access(stream(NOBODY, None), "emil", Right.CONSUME)


def test_principals_are_kept_once_each_in_order() -> None:
    assert principals(["b", "a", "b"]) == ("a", "b")
    assert principals(None) is None
    assert principals(KEPT) is KEPT


def test_principals_given_as_one_text_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="one text"):
        principals("olga")
