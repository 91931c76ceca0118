"""Stamps of commits are unique, never go back, and follow the versions of each table."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit, Tick, sealable, tick

TIMES = st.integers(0, 40)


@st.composite
def histories(draw: st.DrawFn) -> list[SourceCommit]:
    """Commits of three tables, with clocks that go back, and transactions that interleave."""
    tables = draw(st.lists(st.sampled_from("abc"), max_size=14))
    versions: defaultdict[str, int] = defaultdict(int)
    found = []
    for table in tables:
        transaction = draw(st.sampled_from([None, None, "x", "y", "z"]))
        found.append(SourceCommit(table, versions[table], draw(TIMES), transaction))
        versions[table] += 1
    return draw(st.permutations(found))


@given(histories(), TIMES, TIMES)
def test_each_commit_is_sealed_once_after_the_last_promise(
    commits: list[SourceCommit], after: int, now: int
) -> None:
    found = tick(commits, after, now)

    assert sorted(item.commit for item in found.commits) == sorted(commits)
    assert all(after < item.stamp <= found.through for item in found.commits)
    assert found.through >= max(now, after)
    # A stamp is the time of its commit, or later.
    assert all(item.stamp >= item.commit.time for item in found.commits)


@given(histories(), TIMES, TIMES)
def test_stamps_are_unique_except_within_a_transaction(
    commits: list[SourceCommit], after: int, now: int
) -> None:
    by_stamp: defaultdict[int, list[SourceCommit]] = defaultdict(list)
    found = tick(commits, after, now)
    for item in found.commits:
        by_stamp[item.stamp].append(item.commit)
    for group in by_stamp.values():
        assert len(group) == 1 or len({commit.transaction for commit in group}) == 1
    stamps = [item.stamp for item in found.commits]
    assert stamps == sorted(stamps)


@given(histories(), TIMES, TIMES)
def test_stamps_of_a_table_follow_its_versions(
    commits: list[SourceCommit], after: int, now: int
) -> None:
    stamps: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for item in tick(commits, after, now).commits:
        stamps[item.commit.table][item.commit.version] = item.stamp
    for table in stamps.values():
        in_order = [table[version] for version in sorted(table)]
        assert in_order == sorted(in_order)


@given(histories(), st.integers(0, 14))
def test_two_ticks_seal_later_commits_later(commits: list[SourceCommit], count: int) -> None:
    # A tick seals the commits of each table that are there.
    first = [commit for commit in commits if commit.version < count]
    rest = [commit for commit in commits if commit.version >= count]
    one = tick(first, 0, 10)
    two = tick(rest, one.through, 20)
    assert all(item.stamp > one.through for item in two.commits)


def stamps(found: Tick) -> dict[tuple[str, int], int]:
    return {(item.commit.table, item.commit.version): item.stamp for item in found.commits}


def test_commit_keeps_its_own_time_if_no_stamp_is_in_the_way() -> None:
    commits = [SourceCommit("a", 0, 50), SourceCommit("b", 0, 30), SourceCommit("a", 1, 70)]
    found = tick(commits, 10, 60)
    assert stamps(found) == {("b", 0): 30, ("a", 0): 50, ("a", 1): 70}
    assert found.through == 70


def test_equal_and_backward_times_move_forward() -> None:
    commits = [
        SourceCommit("a", 0, 50),
        SourceCommit("b", 0, 50),
        SourceCommit("a", 1, 20),
        SourceCommit("a", 2, 50),
    ]
    assert stamps(tick(commits, 60, 0)) == {("a", 0): 61, ("a", 1): 62, ("a", 2): 63, ("b", 0): 64}


def test_tick_without_commits_promises_the_time_of_the_tick_and_never_less() -> None:
    assert tick([], 10, 20) == Tick(20, ())
    assert tick([], 30, 20) == Tick(30, ())


def test_commits_of_a_transaction_share_a_stamp() -> None:
    commits = [
        SourceCommit("a", 0, 10, "x"),
        SourceCommit("b", 0, 12),
        SourceCommit("b", 1, 15, "x"),
        SourceCommit("a", 1, 11),
    ]
    assert stamps(tick(commits, 0, 0)) == {("b", 0): 12, ("a", 0): 15, ("b", 1): 15, ("a", 1): 16}


@pytest.mark.parametrize("times", [(10, 20), (20, 10)])
def test_transactions_that_interleave_are_taken_apart_as_little_as_possible(
    times: tuple[int, int],
) -> None:
    one, other = times
    commits = [
        SourceCommit("a", 0, one, "x"),
        SourceCommit("a", 1, other, "y"),
        SourceCommit("b", 0, other, "y"),
        SourceCommit("b", 1, one, "x"),
        SourceCommit("c", 0, 5, "z"),
        SourceCommit("a", 2, 30, "z"),
    ]
    found = stamps(tick(commits, 0, 0))
    assert found["a", 1] == found["b", 0]
    assert found["a", 0] < found["a", 1] < found["b", 1]
    assert found["c", 0] == found["a", 2]


COMMITS_OF_TRANSACTIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from("TUVW")), max_size=14
)


@given(COMMITS_OF_TRANSACTIONS, st.sets(st.sampled_from("TUVW")))
def test_transactions_are_sealed_whole_or_not_at_all(
    made: list[tuple[str, str | None]], ended: set[str]
) -> None:
    commits = [
        SourceCommit(table, number, 0, transaction)
        for number, (table, transaction) in enumerate(made)
    ]
    taken = sealable(commits, ended)

    left = [commit for commit in commits if commit not in taken]
    sealed = {commit.transaction for commit in taken} - {None}
    assert sealed <= ended
    assert sealed.isdisjoint({commit.transaction for commit in left})
    for table in "abc":
        versions = [commit.version for commit in commits if commit.table == table]
        kept = [commit.version for commit in taken if commit.table == table]
        assert sorted(kept) == versions[: len(kept)]
    # It waits for nothing but what has not ended, and for what waits for that.
    if {commit.transaction for commit in commits} - {None} <= ended:
        assert not left


def test_commit_of_a_transaction_that_is_open_holds_its_table_back() -> None:
    first = SourceCommit("a", 1, 0)
    half = SourceCommit("a", 2, 0, "T")
    later = SourceCommit("a", 3, 0)
    other = SourceCommit("b", 1, 0, "U")
    also = SourceCommit("a", 4, 0, "U")

    assert sealable([first, half, later, other], {"U"}) == [first, other]
    # A part of U waits, so all of it does.
    assert sealable([first, half, later, other, also], {"U"}) == [first]
    assert len(sealable([first, half, later, other, also], {"T", "U"})) == 5
