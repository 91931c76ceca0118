"""Folding commits into the net difference of a table's files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from table_histories import Table, commit, data_file, histories, same

from airflow_provider_cdc.engine.core.change_sets.net_files import (
    NetFiles,
    fold,
    inserted_files,
    newborn_files,
)
from airflow_provider_cdc.engine.core.change_sets.read_plan import (
    Strategy,
    plan_inserts,
    plan_survivors,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector


def applied(table: Table, net: NetFiles) -> dict[str, DeletionVector | None]:
    files = {path: file.deletion_vector for path, file in table.items()}
    for file in net.removed:
        assert files.pop(file.path) == file.deletion_vector
    for pair in net.revectored:
        assert files[pair.old.path] == pair.old.deletion_vector
        files[pair.new.path] = pair.new.deletion_vector
    for file in net.added:
        assert file.path not in files
        files[file.path] = file.deletion_vector
    return files


@given(histories())
def test_fold_of_any_history_is_the_difference_of_its_ends(
    history: tuple[Table, list[Commit], list[Table]],
) -> None:
    start, commits, after = history
    end = after[-1] if after else start
    net = fold(commits)
    assert applied(start, net) == {path: file.deletion_vector for path, file in end.items()}
    touched = {file.path for file in (*net.removed, *net.added)}
    touched |= {pair.new.path for pair in net.revectored}
    changed = {p for p in start.keys() | end.keys() if not same(start.get(p), end.get(p))}
    assert touched == changed
    assert net.file_count == len(changed)
    assert net.size_bytes == 10 * len(changed)


@given(histories(), st.data())
def test_fold_of_a_history_in_two_parts_gives_the_same_files(
    history: tuple[Table, list[Commit], list[Table]], data: st.DataObject
) -> None:
    start, commits, after = history
    cut = data.draw(st.integers(0, len(commits)))
    middle = after[cut - 1] if cut else start
    first = applied(start, fold(commits[:cut]))
    assert first == {path: file.deletion_vector for path, file in middle.items()}
    assert applied(middle, fold(commits[cut:])) == applied(start, fold(commits))


def test_fold_of_a_file_that_was_added_and_removed_is_empty() -> None:
    born = data_file("a", 1)
    net = fold([commit(1, (born,)), commit(2, (), (born,))])
    assert (net.removed, net.added, net.revectored) == ((), (), ())
    assert net.is_empty


@pytest.mark.parametrize(
    ("born", "change", "is_new"), [(1, False, False), (5, False, True), (1, True, True)]
)
def test_fold_of_a_lone_add_is_new_if_its_commit_made_it_or_changed_data(
    born: int, change: bool, is_new: bool
) -> None:
    net = fold([commit(5, (data_file("a", born, change=change),))])
    assert bool(net.added) is is_new
    assert not net.removed
    assert not net.revectored


def test_fold_leaves_out_files_of_vectors_that_a_commit_lists_as_removed() -> None:
    def listed(path: str, **fields: Any) -> NetFiles:
        file = DataFile.of({"path": path, "dataChange": False} | fields)
        return fold([commit(5, (data_file("a", 5),), (file,))])

    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    for path in (name, f"ab/{name}", f"s3://b/t%20x/{name}"):
        assert listed(path).files == (data_file("a", 5),)
    # Files with one of these signs are data files, whatever their names, and have rows.
    for path, fields in {
        f"{name}.parquet": {},
        "vectors.bin": {},
        name: {"baseRowId": 0},
        f"ab/{name}": {"dataChange": True},
    }.items():
        assert [file.path for file in listed(path, **fields).removed] == [path]


def test_fold_of_only_rewrites_is_empty() -> None:
    moved = data_file("b", 3, change=False)
    removed = data_file("a", 1, change=False)
    net = fold([commit(3, (moved,), (removed,))])
    assert net.is_empty
    assert not fold([commit(3, (moved,), (removed,)), commit(4, (data_file("c", 4),))]).is_empty


def test_inserted_files_are_those_that_a_commit_wrote_with_new_rows() -> None:
    written, brought_back = data_file("a", 5), data_file("b", 2)
    compacted, revectored = data_file("c", 5, change=False), data_file("d", 1, 3)
    version_five = commit(5, (written, brought_back, compacted, revectored))
    assert inserted_files([version_five, commit(6)]) == [(5, written)]


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_files_that_an_update_or_a_delete_wrote_hold_no_inserts(operation: str) -> None:
    rewritten = commit(5, (data_file("b", 5),), (data_file("a"),), operation)
    assert inserted_files([rewritten]) == []
    assert plan_inserts([rewritten]).strategy is Strategy.NOTHING
    assert plan_survivors([rewritten]).plan.strategy is Strategy.NOTHING
    # A MERGE may insert rows besides those that it updates.
    merged = commit(5, (data_file("b", 5),), (data_file("a"),), "MERGE")
    assert plan_inserts([merged]).file_count == 1
    assert plan_survivors([merged]).plan.file_count == 1


@pytest.mark.parametrize("none", ["[]", []])
def test_files_of_a_merge_that_inserts_nothing_hold_no_inserts(none: object) -> None:
    rewritten = commit(5, (data_file("b", 5),), (data_file("a"),), "MERGE")
    merged = replace(rewritten, operation_parameters={"notMatchedPredicates": none})
    assert plan_inserts([merged]).strategy is Strategy.NOTHING
    assert plan_survivors([merged]).plan.strategy is Strategy.NOTHING
    clauses = '[{"actionType":"insert"}]'
    merged = replace(rewritten, operation_parameters={"notMatchedPredicates": clauses})
    assert plan_inserts([merged]).file_count == 1


def test_inserted_rows_survive_in_rewrites_of_their_files() -> None:
    born, updated = data_file("new", 5), data_file("updated", 6)
    moved = data_file("moved", 7, change=False)
    commits = [
        commit(5, (born,), (), "WRITE"),
        commit(6, (updated, data_file("b", 6)), (born, data_file("a")), "UPDATE"),
        commit(7, (moved,), (updated,), "OPTIMIZE"),
        commit(8, (data_file("d", 8),), (data_file("c"),), "DELETE"),
    ]
    assert newborn_files(commits) == {"new", "updated", "b", "moved"}
    # The rows that the DELETE rewrote existed at the offset.
    assert [file.path for file in plan_survivors(commits).net.added] == ["b", "moved"]


def test_rewritten_rows_are_those_of_the_larger_of_two_sides() -> None:
    def sized(path: str, rows: int) -> DataFile:
        return structs.replace(data_file(path), stats=json.dumps({"numRecords": rows}))

    def rewritten(removed: tuple[DataFile, ...], added: tuple[DataFile, ...]) -> int:
        return NetFiles(removed, added, (), True).rewritten_rows

    small, large, unknown = sized("a", 10), sized("b", 500), data_file("c")
    assert rewritten((large,), (small,)) == rewritten((small,), (large,)) == 500
    assert rewritten((unknown,), (small, large)) == 510
    assert rewritten((large,), ()) == rewritten((), (large,)) == 0
