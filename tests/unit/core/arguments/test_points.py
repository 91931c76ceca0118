"""Points in the history of a table, as callers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.arguments.points import (
    Bound,
    OffsetOf,
    Point,
    Timestamp,
    Version,
    as_mapping,
    bound_of,
    point_of,
)
from airflow_provider_cdc.engine.core.errors import InvalidName, InvalidRange, InvalidRequest

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z",
        " 2026-01-01 00:00Z ",
        "2026-01-01T09:00:00.000+09:00",
        "20260101T000000Z",
        datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_timestamp_means_the_same_moment_however_it_is_written(text: str | datetime) -> None:
    assert Timestamp(text).moment == MIDNIGHT


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00", "2026-01-01", "now", "", "P1D", datetime(2026, 1, 1), 7, None]
)
def test_timestamp_without_an_offset_from_utc_is_refused(text: Any) -> None:
    with pytest.raises(InvalidRange, match="offset from UTC"):
        Timestamp(text)


@pytest.mark.parametrize("number", [-1, 1.0, "3", True, None])
def test_version_that_is_not_a_whole_number_from_zero_is_refused(number: Any) -> None:
    with pytest.raises(InvalidRange, match="whole number, 0 or more"):
        Version(number)


@pytest.mark.parametrize(("kind", "name"), [(Version, "version"), (Timestamp, "timestamp")])
def test_point_of_an_unrendered_value_is_refused_with_the_mapping_form(
    kind: Any, name: str
) -> None:
    for given in ("{{ params.p }}", object()):
        with pytest.raises(InvalidRange, match=f"'{name}': ...}} to the operator instead"):
            kind(given)
    with pytest.raises(InvalidName, match=r"'offset_of': \.\.\.\} to the operator instead"):
        OffsetOf("{{ params.p }}")


@pytest.mark.parametrize("given", ["abc", 5, ["version", 3]])
def test_point_of_a_value_that_is_not_a_mapping_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="is not a point"):
        point_of(given)


def test_points_with_an_invalid_value_are_refused() -> None:
    with pytest.raises(InvalidName):
        point_of({"offset_of": 5})
    with pytest.raises(InvalidRange, match="outside the calendar"):
        Timestamp("0001-01-01T00:00:00+09:00")


def test_offset_of_an_invalid_stream_name_is_refused() -> None:
    with pytest.raises(InvalidName):
        OffsetOf("x`; DROP TABLE y")


@pytest.mark.parametrize(
    "point", [Version(0), Version(3), Timestamp("2026-01-01T00:00:00.5Z"), OffsetOf("étoile")]
)
def test_points_come_back_from_their_mapping(point: Point) -> None:
    found = point_of(as_mapping(point))
    assert found is not None
    assert as_mapping(found) == as_mapping(point)
    assert type(found) is type(point)


def test_version_in_a_mapping_may_be_text_as_templates_render_it() -> None:
    assert point_of({"version": " 12 "}) == Version(12)


@pytest.mark.parametrize(
    "given", [{}, {"versions": 3}, {"version": 3, "offset_of": "s"}, {"Version": 3}]
)
def test_mapping_that_names_no_point_or_two_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="expected one of the keys"):
        point_of(given)


def test_bound_is_at_or_before_a_point_or_nothing() -> None:
    assert bound_of("s", None, None) is None
    assert bound_of("s", Version(3), None) == Bound(Version(3), is_inclusive=True)
    assert bound_of("s", None, OffsetOf("o")) == Bound(OffsetOf("o"), is_inclusive=False)
    assert str(bound_of("s", None, OffsetOf("o"))) == "before offset of o"


def test_bound_at_and_before_at_once_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="either at or before"):
        bound_of("stream s", Version(3), Version(4))


def test_bound_that_is_not_a_point_is_refused() -> None:
    number: Any = 3
    with pytest.raises(InvalidRequest, match=r"Version\(3\)"):
        bound_of("stream s", number, None)
