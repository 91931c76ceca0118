"""How the retention of a table is extended and restored, in its properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.retention.staleness import stale_after
from airflow_provider_cdc.engine.core.retention.table_retention import (
    FILES,
    LOG,
    duration,
    extended,
    extension_of,
    needed_extension,
    own_retention,
    retention,
    without_extensions,
)

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DEFAULTS = {FILES: timedelta(days=7), LOG: timedelta(days=30)}


def days(number: float) -> timedelta:
    return timedelta(days=number)


class Table:
    """The properties of a table, which its owner and those who extend its retention change."""

    def __init__(self, **own: str) -> None:
        self.properties: dict[str, str] = {}
        self.set(own)

    def set(self, changes: dict[str, str] | dict[str, str | None]) -> None:
        for name, text in changes.items():
            if text is None:
                self.properties.pop(name, None)
            else:
                self.properties[name] = text

    def extend(self, holder: str, length: timedelta | None) -> dict[str, str | None]:
        changes = extended(self.properties, holder, length)
        self.set(changes)
        assert extended(self.properties, holder, length) == {}
        return changes


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 7 days 12 hours", days(7.5)),
        ("interval 1 week", days(7)),
        ("168 HOURS", days(7)),
        ("interval 90 minutes 5 seconds", timedelta(seconds=5405)),
        ("interval 1500 milliseconds", timedelta(seconds=1.5)),
    ],
)
def test_duration_is_read_as_delta_reads_it(text: str, length: timedelta) -> None:
    assert duration(text) == length


def test_retention_is_the_shorter_of_files_and_commits() -> None:
    assert retention({}) == days(7)
    assert retention({FILES: "interval 40 days"}) == days(30)
    assert retention({LOG: "interval 2 days", FILES: "interval 1 days"}) == days(1)


def test_extension_raises_both_properties_if_both_are_shorter() -> None:
    table = Table()
    table.extend("a", days(60))
    assert duration(table.properties[FILES]) == duration(table.properties[LOG]) == days(60)
    assert retention(table.properties) == days(60)
    assert own_retention(table.properties) == days(7)
    assert extension_of(table.properties, "a") == days(60)
    assert extension_of(table.properties, "b") is None


def test_extension_leaves_a_property_that_is_long_enough() -> None:
    table = Table()
    table.extend("a", days(14))
    assert duration(table.properties[FILES]) == days(14)
    assert LOG not in table.properties


def test_extension_that_is_taken_back_leaves_the_table_as_it_was() -> None:
    for own in ({}, {FILES: "interval 2 days"}, {FILES: "3 days", LOG: "interval 5 days"}):
        table = Table(**own)
        table.extend("a", days(14))
        table.extend("a", None)
        assert table.properties == own


def test_extension_within_the_owners_retention_changes_nothing() -> None:
    table = Table(**{FILES: "interval 20 days"})
    assert table.extend("a", days(14)) == {}


@pytest.mark.parametrize(
    "own",
    [
        {LOG: "interval 60 days"},
        {FILES: "interval 40 days", LOG: "interval 60 days"},
        {FILES: "interval 2 days", LOG: "interval 3 days"},
    ],
)
def test_statement_names_both_properties_if_the_table_has_both(own: dict[str, str]) -> None:
    """Delta compares both properties of one statement, and uses the default for a missing one."""
    table = Table(**own)
    for length in (days(45), None):
        changes = table.extend("a", length)
        given = {name: text for name in (FILES, LOG) if (text := changes.get(name))}
        if given:
            assert given.keys() == table.properties.keys() & {FILES, LOG}
            lengths = DEFAULTS | {name: duration(text) for name, text in given.items()}
            assert lengths[FILES] <= lengths[LOG]
    assert table.properties == own


def test_retention_that_is_set_during_an_extension_applies_after_it() -> None:
    table = Table(**{FILES: "interval 2 days"})
    table.extend("a", days(14))
    table.set({FILES: "interval 1 days"})
    assert duration(str(table.extend("a", days(14))[FILES])) == days(14)
    table.extend("a", None)
    assert table.properties == {FILES: "interval 1 days"}


def test_copy_of_an_extended_table_keeps_the_owners_retention() -> None:
    table = Table(**{FILES: "interval 2 days", "other": "x"})
    own = dict(table.properties)
    table.extend("a", days(60))
    assert without_extensions(table.properties) == own


def test_removal_of_an_extension_that_was_interrupted_is_finished() -> None:
    table = Table(**{FILES: "interval 2 days"})
    table.extend("a", days(14))
    first_half = {
        name: text
        for name, text in extended(table.properties, "a", None).items()
        if text is not None
    }
    assert first_half
    table.set(first_half)
    table.extend("a", None)
    assert table.properties == {FILES: "interval 2 days"}


OWN_TEXTS = st.none() | st.integers(1, 40).map(lambda number: f"interval {number} days")
STEPS = st.lists(
    st.tuples(st.just("own"), st.sampled_from([FILES, LOG]), OWN_TEXTS)
    | st.tuples(st.just("extend"), st.sampled_from("ab"), st.integers(1, 60).map(days))
    | st.tuples(st.just("back"), st.sampled_from("ab"), st.none()),
    max_size=20,
)


@given(STEPS)
def test_owner_and_extensions_in_any_order_each_get_their_retention(
    steps: list[tuple[str, str, str | timedelta | None]],
) -> None:
    table, own, held = Table(), dict[str, str](), dict[str, timedelta]()
    for step, subject, value in steps:
        if step == "own":
            assert value is None or isinstance(value, str)
            table.set({subject: value})
            if value is None:
                own.pop(subject, None)
            else:
                own[subject] = value
            continue
        assert value is None or isinstance(value, timedelta)
        shortest = min(duration(own[name]) if name in own else DEFAULTS[name] for name in DEFAULTS)
        held.pop(subject, None)
        if value is not None and value > shortest:
            held[subject] = value
        table.extend(subject, value)

        longest = max(held.values(), default=timedelta(0))
        for name, default in DEFAULTS.items():
            wanted = duration(own[name]) if name in own else default
            found = table.properties.get(name)
            assert (default if found is None else duration(found)) == max(wanted, longest)
        assert own_retention(table.properties) == shortest
        assert {name: extension_of(table.properties, name) for name in held} == held
        if not held:
            assert table.properties == own


@pytest.mark.parametrize(
    ("age", "limit", "needed"),
    [
        (5, 14, None),  # six days old at the next check
        (6.5, 14, 14),
        (13, 14, 14),
        (6.5, 7, None),
        (6.5, 0, None),
    ],
)
def test_extension_is_needed_before_the_oldest_commit_expires(
    age: float, limit: float, needed: float | None
) -> None:
    found = needed_extension(NOW - days(age), NOW, own=days(7), limit=days(limit), ahead=days(1))
    assert found == (None if needed is None else days(needed))


@pytest.mark.parametrize(("own", "needed"), [(7, None), (1.1, None), (1, 14), (0, 14)])
def test_extension_stays_after_a_consumption_only_if_retention_is_short(
    own: float, needed: float | None
) -> None:
    found = needed_extension(None, NOW, own=days(own), limit=days(14), ahead=days(1))
    assert found == (None if needed is None else days(needed))
    assert needed_extension(None, NOW, own=days(own), limit=days(0), ahead=days(1)) is None


@pytest.mark.parametrize(("kept", "extension", "wanted"), [(14, 0, 14), (1, 14, 14), (0, 90, 90)])
def test_stale_after_follows_the_longer_of_retention_and_extension(
    kept: int, extension: int, wanted: int
) -> None:
    properties = {FILES: f"interval {kept} days"}
    assert stale_after(NOW, properties, days(extension)) == NOW + days(wanted)


def test_stale_after_does_not_move_when_the_retention_is_extended() -> None:
    table = Table()
    before = stale_after(NOW, table.properties, days(10))
    table.extend("another", days(60))
    assert stale_after(NOW, table.properties, days(10)) == before == NOW + days(10)
