"""What the log of a target shows about the statements of a consumption."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.consumption.statement_log import (
    APPLY_VERSION,
    FENCE_VERSION,
    application_id,
    creation_mark,
    filled_by,
    foreign_commit,
    is_own_restore,
    is_unused_creation,
    settled,
    settled_batch,
    statement_state,
    undo_mark,
    wiped_out,
    without_undone,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, parse_commit
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def consumption(identity: str = "c1", epoch: int = 0) -> Consumption:
    statements = tuple(
        PlannedStatement(index, StatementKind.INSERT, "", "t", "/t", 4) for index in range(3)
    )
    return Consumption(identity, "me", (), statements, NOW, epoch=epoch)


C1 = consumption()


def commit(version: int, *actions: dict[str, Any], **info: Any) -> Commit:
    lines = [{"commitInfo": {"operation": "WRITE", **info}}, *actions]
    return parse_commit(version, "\n".join(map(json.dumps, lines)).encode())


def add(path: str = "f", *, data_change: bool = True, **fields: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1, "dataChange": data_change, **fields}}


REMOVED = {"remove": {"path": "e", "dataChange": False}}


def txn(index: int, version: int = APPLY_VERSION, of: Consumption = C1) -> dict[str, Any]:
    return {"txn": {"appId": application_id(of, index), "version": version}}


def restore(version: int, to: int, of: Consumption = C1) -> Commit:
    return commit(
        version,
        add(),
        operation="RESTORE",
        operationParameters={"version": to, "timestamp": None},
        userMetadata=undo_mark(of),
    )


def test_application_ids_differ_by_consumption_statement_and_epoch() -> None:
    found = {
        application_id(consumption(identity, epoch), index)
        for identity, epoch, index in itertools.product(("c1", "c2"), (0, 1, 11), (0, 1, 11))
    }
    assert len(found) == 18


def test_fence_version_is_above_the_apply_version() -> None:
    assert FENCE_VERSION > APPLY_VERSION


def test_state_without_commits_is_neither_applied_nor_fenced() -> None:
    state = statement_state(C1, 0, [])
    assert (state.applied_version, state.fenced) == (None, False)


def test_state_of_an_applied_statement_has_its_version_and_metrics() -> None:
    state = statement_state(
        C1, 1, [commit(5, add()), commit(6, add(), txn(1), operationMetrics={"numOutputRows": "3"})]
    )
    assert (state.applied_version, state.fenced) == (6, False)
    assert state.metrics == {"numOutputRows": 3}


def test_state_ignores_other_statements_and_other_consumptions() -> None:
    commits = [commit(5, txn(1)), commit(6, txn(0, of=consumption("c2"))), commit(7, txn(11))]
    assert statement_state(C1, 0, commits).applied_version is None
    assert statement_state(C1, 1, commits).applied_version == 5


def test_state_of_a_fenced_statement_is_fenced_and_not_applied() -> None:
    state = statement_state(C1, 0, [commit(5, txn(0, FENCE_VERSION))])
    assert (state.applied_version, state.fenced) == (None, True)


def test_fence_of_an_earlier_epoch_does_not_fence_the_later_one() -> None:
    commits = [commit(5, txn(0, FENCE_VERSION))]
    assert statement_state(consumption(epoch=1), 0, commits).fenced is False


def test_statement_of_an_earlier_epoch_counts_as_applied() -> None:
    assert statement_state(consumption(epoch=1), 0, [commit(5, txn(0))]).applied_version == 5


def test_state_after_its_undo_is_not_applied() -> None:
    state = statement_state(C1, 0, [commit(5, txn(0)), restore(6, to=4)])
    assert state.applied_version is None


def test_state_after_an_undo_that_was_taken_back_is_applied() -> None:
    commits = [commit(5, txn(0)), commit(6, add()), restore(7, to=4), restore(8, to=6)]
    assert statement_state(C1, 0, commits).applied_version == 5


def test_state_of_two_statements_undone_in_part_keeps_the_first() -> None:
    commits = [commit(5, txn(0)), commit(6, txn(1)), restore(7, to=5)]
    assert statement_state(C1, 0, commits).applied_version == 5
    assert statement_state(C1, 1, commits).applied_version is None


def test_statement_applied_again_after_its_undo_is_at_the_new_version() -> None:
    again = consumption(epoch=1)
    commits = [commit(5, txn(0)), restore(6, to=4), commit(7, txn(0, of=again))]
    assert statement_state(again, 0, commits).applied_version == 7


def test_state_of_a_replacement_reports_the_commit_that_took_the_table() -> None:
    planned = PlannedStatement(0, StatementKind.CREATE_TABLE, "", "t", "/t", 4)
    replacing = replace(C1, statements=(replace(planned, replaces_leftover=True),))
    taken, applied = commit(5, add("a")), commit(6, add("b"), txn(0))
    neutral = commit(5, txn(0, FENCE_VERSION, of=consumption("c2")))

    def taken_at(*commits: Commit, of: Consumption = replacing) -> int | None:
        return statement_state(of, 0, commits).taken_at

    assert taken_at(taken) == 5
    assert taken_at(taken, applied) == 5
    assert taken_at(neutral, applied) is None
    # A commit after the statement is not lost.
    assert taken_at(applied, commit(7, add("a"))) is None
    assert taken_at(taken, applied, of=replace(C1, statements=(planned,))) is None


def test_restore_by_another_consumption_is_not_an_undo() -> None:
    other = restore(6, to=4, of=consumption("c2"))
    assert statement_state(C1, 0, [commit(5, txn(0)), other]).applied_version == 5
    assert not is_own_restore(C1, other)


def added_at(commits: list[Commit]) -> list[int]:
    return [commit.version for commit in without_undone(commits) if commit.adds]


def applied(version: int, of: Consumption = C1) -> Commit:
    return commit(version, add(), txn(0, of=of))


def test_files_of_undone_commits_are_left_out_and_others_are_kept() -> None:
    written = [commit(4, add()), applied(5), applied(6)]
    assert added_at(written) == [4, 5, 6]
    assert added_at([*written, restore(7, to=4), commit(8, add())]) == [4, 7, 8]


def test_files_of_commits_whose_undo_was_taken_back_are_kept() -> None:
    written = [applied(4), applied(5), restore(6, to=3), restore(7, to=5)]
    assert added_at(written) == [4, 5, 7]


def test_files_of_other_writers_within_an_undo_are_kept() -> None:
    written = [applied(4), commit(5, add()), applied(6, of=consumption("c2"))]
    assert added_at([*written, restore(7, to=3)]) == [5, 6, 7]
    assert added_at([*written, restore(7, to=3), restore(8, to=6)]) == [4, 5, 6, 8]


def settled_at(*commits: Commit) -> list[int]:
    return [commit.version for commit in settled(commits)]


def test_commits_that_an_undo_may_have_to_give_back_are_not_settled() -> None:
    met = [commit(3, add()), applied(4), commit(5, add()), restore(6, to=3)]
    assert settled_at(*met) == [3]
    assert settled_at(*met, commit(7, add(data_change=False), operation="OPTIMIZE")) == [3]
    assert settled_at(*met[2:]) == []
    assert settled_at(*met, restore(7, to=5)) == [3, 4, 5, 6, 7]
    # After a commit of new data the undo can no longer be taken back.
    assert settled_at(*met, commit(7, add())) == [3, 4, 5, 6, 7]


def test_undo_of_a_foreign_schema_change_is_not_settled() -> None:
    altered = commit(5, {"metaData": {"id": "x"}})
    assert settled_at(commit(3, add()), applied(4), altered, restore(6, to=3)) == [3]


def test_undo_without_foreign_commits_is_settled() -> None:
    assert settled_at(applied(4), commit(5), restore(6, to=3), commit(7, add())) == [4, 5, 6, 7]


def user_restore(version: int, to: int) -> Commit:
    return commit(version, add(), operation="RESTORE", operationParameters={"version": to})


def restore_to_a_moment(version: int, *actions: dict[str, Any]) -> Commit:
    parameters = {"version": None, "timestamp": "2026-01-01 12:00:00"}
    return commit(version, *actions, operation="RESTORE", operationParameters=parameters)


LATE = commit(4, add())
MET = (applied(1), commit(2, add()), restore(3, to=0))
HISTORIES = {
    "undone": [applied(1), restore(2, to=0), commit(3, add())],
    "undone with others between": [commit(1, add()), applied(2), applied(3), restore(4, to=1)],
    "taken back": [*MET, restore(4, to=2), commit(5, add())],
    "never taken back": [*MET, commit(4, add())],
    "two consumptions": [
        applied(1),
        restore(2, to=0),
        applied(3, of=consumption("c2")),
        applied(4, of=consumption("c2")),
        restore(5, to=2, of=consumption("c2")),
        commit(6, add()),
    ],
    "may be taken back": [commit(1, add()), applied(2), commit(3, add()), restore(4, to=1)],
    "taken back, and restored away by a user": [*MET, restore(4, to=2), user_restore(5, to=0)],
    "restored by a user": [applied(1), restore(2, to=0), user_restore(3, to=1), commit(4, add())],
    "restored away before its undo": [applied(1), user_restore(2, to=0), restore(3, to=0), LATE],
    "restored by a user to a moment": [
        commit(1, add("a"), txn(0)),
        restore(2, to=0),
        restore_to_a_moment(3, add("a")),
        commit(4, add()),
    ],
    "undone after a user's restore": [applied(1), user_restore(2, to=1), restore(3, to=0), LATE],
}


@pytest.mark.parametrize("most", range(1, 7))
@pytest.mark.parametrize("name", HISTORIES)
def test_batches_of_any_size_return_the_same_commits_as_one_batch(name: str, most: int) -> None:
    history = HISTORIES[name]
    found, left = [], history
    while left:
        batch = settled_batch(left[:most], iter(left[most:]))
        if not batch:
            break
        found.extend(added_at(list(batch)))
        left = left[len(batch) :]
    assert found == added_at(list(settled(history)))


def test_batch_reads_later_commits_only_if_a_consumption_wrote_in_it() -> None:
    def untouched() -> Iterator[Commit]:
        raise AssertionError("the rest was asked for")
        yield

    plain = [commit(1, add()), commit(2, add())]
    assert list(settled_batch(plain, untouched())) == plain
    with pytest.raises(AssertionError):
        settled_batch([*plain, applied(3)], untouched())


def test_rows_that_a_user_restored_from_an_undone_commit_are_inserted() -> None:
    undone = [commit(4, add()), applied(5), restore(6, to=4)]
    again = user_restore(7, to=5)
    assert added_at(undone) == [4, 6]
    assert added_at([*undone, again]) == [4, 5, 6, 7]


def test_rows_restored_by_timestamp_from_an_undone_commit_are_inserted() -> None:
    """The log does not record the restored version, so the files that are back must show it."""
    vector = {"storageType": "u", "pathOrInlineDv": "v", "sizeInBytes": 1, "cardinality": 1}
    undone = [
        commit(4, add("old")),
        commit(5, add("first"), txn(0)),
        commit(6, add("rewritten"), add("old", deletionVector=vector), txn(1)),
        commit(7, add("last"), txn(2)),
        restore(8, to=4),
    ]
    # The file that the second statement made of the first one's file is back, so both commits
    # count.
    assert added_at([*undone, restore_to_a_moment(9, add("rewritten"))]) == [4, 5, 6, 8, 9]
    assert added_at([*undone, restore_to_a_moment(9, add("first"))]) == [4, 5, 8, 9]
    assert added_at([*undone, restore_to_a_moment(9, add("older"))]) == [4, 8, 9]
    # The deletion vectors show which state of a file is back.
    assert added_at([*undone, restore_to_a_moment(9, add("old"))]) == [4, 8, 9]


def test_batch_may_end_at_a_restore_by_timestamp_of_an_undone_commit() -> None:
    again = restore_to_a_moment(3, add("a"))
    undone = [commit(1, add("a"), txn(0)), restore(2, to=0), again]
    later = [commit(version, add()) for version in range(4, 60)]
    assert len(settled_batch(undone[:2], iter([*undone[2:], *later]))) == 3


def test_undo_counts_despite_the_restores_of_a_user_around_it() -> None:
    met = [applied(1), commit(2, {"metaData": {"id": "t"}}), restore(3, to=0), restore(4, to=2)]
    assert added_at([*met, user_restore(5, to=0)]) == [1, 4, 5]
    before = [applied(1), user_restore(2, to=0), restore(3, to=0)]
    assert added_at([*before, commit(4, add())]) == [2, 3, 4]


def test_rows_that_an_undo_removes_after_a_users_restore_are_undone() -> None:
    restored = [applied(1), commit(2, add()), user_restore(3, to=1)]
    assert added_at([*restored, restore(4, to=0)]) == [2, 3, 4]


def test_batch_may_end_at_a_users_restore_of_an_undone_commit() -> None:
    undone = [applied(1), restore(2, to=0), user_restore(3, to=1)]
    later = [commit(version, add()) for version in range(4, 60)]
    assert len(settled_batch(undone[:2], iter([*undone[2:], *later]))) == 3


def test_undo_to_before_the_range_drops_the_undone_files() -> None:
    assert added_at([applied(5), restore(6, to=3), commit(7, add())]) == [6, 7]


def test_memory_of_the_replay_does_not_grow_quadratically() -> None:
    commits = [commit(version) for version in range(4000)]
    tracemalloc.start()
    try:
        without_undone(commits)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 20_000_000


def test_files_that_a_users_restore_removes_are_kept() -> None:
    by_hand = commit(6, add(), operation="RESTORE", operationParameters={"version": 4})
    assert added_at([commit(5, add()), by_hand]) == [5, 6]


@pytest.mark.parametrize(
    ("late", "is_foreign"),
    [
        (commit(6, add()), True),
        (commit(6, {"remove": {"path": "f", "dataChange": True}}), True),
        (commit(6, {"metaData": {"id": "x"}}), True),
        (commit(6, {"protocol": {"minReaderVersion": 3}}), True),
        (commit(6, add(), txn(0, of=consumption("c2"))), True),
        (restore(6, to=4, of=consumption("c2")), True),
        (commit(6, add(data_change=False), operation="OPTIMIZE"), False),
        (commit(6, add(data_change=False), REMOVED), False),
        (commit(6, add(data_change=False)), True),
        (commit(6, add(data_change=False), operation="STREAMING UPDATE"), True),
        (commit(6, REMOVED), True),
        (commit(6), False),
        (commit(6, add(), txn(1)), False),
        (commit(6, txn(1, FENCE_VERSION)), False),
        (commit(6, add(), txn(0, of=consumption(epoch=1))), True),
        (commit(6, {"metaData": {"id": "x"}}, userMetadata=creation_mark("me")), False),
        (restore(6, to=4), False),
    ],
)
def test_foreign_commit_is_what_others_changed(late: Commit, is_foreign: bool) -> None:
    found = foreign_commit(C1, [commit(4, add()), commit(5, add(), txn(0)), late], first_version=5)
    assert found is (late if is_foreign else None)


def test_commit_of_an_earlier_epoch_is_not_foreign() -> None:
    earlier = commit(6, add(), txn(0))
    assert foreign_commit(consumption(epoch=1), [earlier], first_version=5) is None


def test_commit_of_a_consumption_with_a_similar_id_is_foreign() -> None:
    late = commit(6, add(), txn(0, of=consumption("c11")))
    assert foreign_commit(C1, [late], first_version=5) is late


def created_by(consumer: str, version: int = 0) -> Commit:
    return commit(version, {"metaData": {"id": "x"}}, userMetadata=creation_mark(consumer))


FENCE = commit(1, txn(0, FENCE_VERSION))
APPLY = commit(1, add(), txn(0))


@pytest.mark.parametrize(
    ("commits", "by_its_creator", "by_another"),
    [
        ([created_by("me")], True, False),
        ([created_by("me"), FENCE], True, True),
        ([created_by("me"), APPLY], False, False),
        ([created_by("me"), APPLY, restore(2, to=0)], True, True),
        ([created_by("me"), APPLY, restore(2, to=0), commit(3, add(), txn(0))], False, False),
        # A late undo met a later apply, and was taken back.
        (
            [created_by("me"), FENCE, commit(2, add(), txn(0)), restore(3, to=0), restore(4, to=2)],
            False,
            False,
        ),
        ([created_by("me"), FENCE, commit(2, operation="VACUUM START")], True, True),
        ([created_by("me"), FENCE, commit(2, add())], False, False),
        ([created_by("me"), commit(1, {"metaData": {"id": "x"}})], False, False),
        ([created_by("another"), FENCE, created_by("me", 2)], True, False),
        ([commit(0, {"metaData": {"id": "x"}})], False, False),
        ([commit(0, {"metaData": {"id": "x"}}), FENCE], False, False),
    ],
)
def test_unused_creation_is_empty_and_nobody_is_about_to_fill_it(
    commits: list[Commit], by_its_creator: bool, by_another: bool
) -> None:
    assert is_unused_creation("me", commits) is by_its_creator
    assert is_unused_creation("another", commits) is by_another


def test_wiped_out_names_the_undo_and_the_foreign_commit_inside_it() -> None:
    late = commit(6, add())
    assert wiped_out(C1, [commit(5, txn(0)), late, restore(7, to=4)]) == (7, late)
    assert wiped_out(C1, [commit(5, txn(0)), late, restore(7, to=4), commit(8)]) == (7, late)


@pytest.mark.parametrize(
    "commits",
    [
        [commit(5, txn(0)), commit(6, add())],
        [commit(5, txn(0)), restore(6, to=4)],
        [commit(5, add()), commit(6, txn(0)), restore(7, to=5)],
        [
            commit(5, txn(0)),
            commit(6, add(data_change=False), operation="OPTIMIZE"),
            restore(7, to=4),
        ],
        [commit(5, txn(0)), commit(6, add()), restore(7, to=4), restore(8, to=6)],
        [commit(5, txn(0)), commit(6, add()), restore(7, to=4, of=consumption("c2"))],
    ],
    ids=["no undo", "clean", "foreign before", "neutral", "taken back", "undo of another"],
)
def test_wiped_out_is_nothing_if_no_foreign_commit_is_lost(commits: list[Commit]) -> None:
    assert wiped_out(C1, commits) is None


def test_wiped_out_sees_a_second_undo_after_a_foreign_commit() -> None:
    late = commit(7, add())
    done = [commit(5, txn(0)), restore(6, to=4), late]
    assert wiped_out(C1, done) is None
    assert wiped_out(C1, [*done, restore(8, to=4)]) == (8, late)
    assert wiped_out(C1, [*done, restore(8, to=4), restore(9, to=7)]) is None


def test_wiped_out_sees_what_the_same_consumption_applied_in_a_later_epoch() -> None:
    again = commit(7, add(), txn(0, of=consumption(epoch=1)))
    done = [commit(5, txn(0)), restore(6, to=4), again, restore(8, to=4)]
    assert wiped_out(C1, done) == (8, again)
    assert wiped_out(consumption(epoch=1), done) is None


def test_wiped_out_names_the_first_of_two_undos_of_foreign_commits() -> None:
    first, second = commit(6, add()), commit(8, add())
    done = [commit(5, txn(0)), first, restore(7, to=4), second, restore(9, to=4)]
    assert wiped_out(C1, done) == (7, first)
    assert wiped_out(C1, [*done, restore(10, to=8)]) == (7, first)


STEPS = st.lists(st.sampled_from(["apply", "fence", "undo", "redo", "foreign"]), max_size=12)


@given(STEPS)
def test_state_follows_any_history_of_applying_and_undoing(steps: list[str]) -> None:
    """A plain model: an undo goes back to the content before the first apply, a redo to the latest
    version before the undo.
    """
    commits: list[Commit] = []
    holds = {4: False}
    fenced = False
    for version, step in enumerate(steps, start=5):
        before = holds[version - 1]
        if step == "apply":
            commits.append(commit(version, add(), txn(0)))
            holds[version] = True
        elif step == "fence":
            commits.append(commit(version, txn(0, FENCE_VERSION)))
            holds[version], fenced = before, True
        elif step == "foreign":
            commits.append(commit(version, add()))
            holds[version] = before
        else:
            to = 4 if step == "undo" else max(version - 2, 4)
            commits.append(restore(version, to=to))
            holds[version] = holds[to]
    state = statement_state(C1, 0, commits)
    assert (state.applied_version is not None) is holds[4 + len(steps)]
    assert state.fenced is fenced


def test_table_is_filled_by_the_consumption_that_is_applied_and_not_undone() -> None:
    created = commit(0, userMetadata=creation_mark("me"))
    other = consumption("c2")

    assert filled_by([created]) is None
    assert filled_by([created, commit(1, txn(0))]) == "c1"
    assert filled_by([created, commit(1, txn(0)), commit(2, txn(1, FENCE_VERSION))]) == "c1"
    assert filled_by([created, commit(1, txn(0)), restore(2, 0)]) is None
    assert filled_by([created, commit(1, txn(0)), restore(2, 0), commit(3, txn(0, of=other))]) == (
        "c2"
    )
    taken_back = [created, commit(1, txn(0, of=other)), restore(2, 0), restore(3, 1)]
    assert filled_by(taken_back) == "c2"


@given(st.lists(st.sampled_from(["apply", "undo", "back", "foreign"]), max_size=12), st.data())
def test_wiped_out_is_found_exactly_if_a_foreign_commit_is_lost(
    steps: list[str], data: st.DataObject
) -> None:
    """A plain model: the foreign commits that the table contains at each version."""
    commits: list[Commit] = []
    holds: dict[int, frozenset[int]] = {4: frozenset()}
    for version, step in enumerate(steps, start=5):
        held = holds[version - 1]
        if step == "apply":
            commits.append(commit(version, add(), txn(0)))
        elif step == "foreign":
            commits.append(commit(version, add()))
            held = held | {version}
        else:
            to = 4 if step == "undo" else data.draw(st.integers(4, version - 1))
            commits.append(restore(version, to=to))
            held = holds[to]
        holds[version] = held
    lost = {c.version for c in commits if foreign_commit(C1, [c], first_version=0)} - holds[
        4 + len(steps)
    ]

    found = wiped_out(C1, commits)

    assert (found is not None) is bool(lost)
    if found is not None:
        undo_version, wiped = found
        assert wiped.version in lost
        assert wiped.version in holds[undo_version - 1] - holds[undo_version]


@pytest.mark.parametrize(
    ("domain", "is_foreign"), [("delta.clustering", True), ("delta.rowTracking", False)]
)
def test_change_of_the_clustering_columns_is_foreign(domain: str, is_foreign: bool) -> None:
    configuration = json.dumps({"rowIdHighWaterMark": 1})
    action = {"domainMetadata": {"domain": domain, "configuration": configuration}}
    found = foreign_commit(C1, [commit(5, action)], first_version=5)
    assert (found is not None) is is_foreign
