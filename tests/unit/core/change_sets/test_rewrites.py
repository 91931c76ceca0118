"""Leaving out rows that were only rewritten, against a model that knows every file's rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from streams import new_commit

from airflow_provider_cdc.engine.core.change_sets.net_files import NetFiles, fold
from airflow_provider_cdc.engine.core.change_sets.rewrites import net_difference, without_rewrites
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector
from airflow_provider_cdc.engine.core.delta.table_schema import Layout

Rows = frozenset[int]
# The rows of a file under one of its deletion vectors.
Contents = dict[tuple[str, DeletionVector | None], Rows]


def data_file(
    path: str, version: int, *, change: bool = True, part: str = "p", vector: int | None = None
) -> DataFile:
    deleted = None if vector is None else DeletionVector("i", str(vector), 1, vector)
    return DataFile(path, {"part": part}, 10, change, None, 0, version, deleted)


def commit(version: int, removes: list[DataFile], adds: list[DataFile]) -> Commit:
    return new_commit(version, adds=tuple(adds), removes=tuple(removes))


def optimised(version: int, removes: list[DataFile], adds: list[DataFile]) -> Commit:
    def unchanged(file: DataFile) -> DataFile:
        vector = file.deletion_vector and file.deletion_vector.cardinality
        part = str(file.partition_values["part"])
        born = file.default_row_commit_version or 0
        return data_file(file.path, born, change=False, part=part, vector=vector)

    return commit(version, [unchanged(file) for file in removes], list(map(unchanged, adds)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Commit], Contents]:
    """Commits, and the rows of each file under each deletion vector."""
    contents: Contents = {}
    table: dict[str, DataFile] = {}
    number = 0

    def write(rows: Rows, part: str, version: int) -> DataFile:
        nonlocal number
        number += 1
        file = data_file(f"f{number}", version, part=part)
        contents[file.path, None] = rows
        return file

    def held(file: DataFile) -> Rows:
        return contents[file.path, file.deletion_vector]

    for row in range(6):
        file = write(frozenset({2 * row, 2 * row + 1}), draw(st.sampled_from("pq")), 0)
        table[file.path] = file
    commits = []
    for version in range(1, draw(st.integers(1, 8)) + 1):
        chosen = [table[path] for path in draw(st.sets(st.sampled_from(sorted(table)), min_size=1))]
        kind = draw(st.sampled_from(["optimise", "optimise", "optimise", "rewrite", "vector"]))
        adds: list[DataFile] = []
        if kind == "vector":
            chosen = chosen[:1]
            rows = held(chosen[0])
            if not rows:
                continue
            old = chosen[0]
            part, born = str(old.partition_values["part"]), old.default_row_commit_version or 0
            new = data_file(old.path, born, part=part, vector=version)
            contents[new.path, new.deletion_vector] = rows - {min(rows)}
            adds = [new]
            made = commit(version, chosen, adds)
        elif kind == "rewrite":
            rows = frozenset().union(*map(held, chosen)) | {100 + version}
            adds = [write(rows, "p", version)]
            made = commit(version, chosen, adds)
        else:
            for part in "pq":
                own = [file for file in chosen if file.partition_values["part"] == part]
                rows = frozenset().union(*map(held, own))
                half = frozenset(sorted(rows)[: len(rows) // 2])
                parts = [half, rows - half] if draw(st.booleans()) else [rows]
                adds += [write(item, part, version) for item in parts if own]
            made = optimised(version, chosen, adds)
        for file in chosen:
            table.pop(file.path)
        table.update({file.path: file for file in adds})
        commits.append(made)
        if not table:
            break
    return commits, contents


def rows_of(net: NetFiles, contents: Contents) -> Counter[int]:
    """The rows of the new side minus those of the old side."""
    found: Counter[int] = Counter()
    new = [*net.added, *(pair.new for pair in net.revectored)]
    old = [*net.removed, *(pair.old for pair in net.revectored)]
    for file in new:
        found.update(contents[file.path, file.deletion_vector])
    for file in old:
        found.subtract(contents[file.path, file.deletion_vector])
    return Counter({row: count for row, count in found.items() if count})


def read(net: NetFiles, contents: Contents) -> int:
    """The number of rows in the files of both sides."""
    files = (*net.removed, *net.added, *(pair.new for pair in net.revectored))
    return sum(len(contents[file.path, None]) for file in files)


@given(histories(), st.integers(0, 8))
def test_net_difference_has_the_same_rows_as_the_whole_fold(
    history: tuple[list[Commit], Contents], altered_at: int
) -> None:
    commits, contents = history
    commits = [
        replace(each, metadata={"id": "x"} if each.version == altered_at else None)
        for each in commits
    ]
    whole, net = fold(commits), net_difference(commits)
    assert rows_of(net, contents) == rows_of(whole, contents)
    assert read(net, contents) <= read(without_rewrites(whole, commits), contents)


@given(histories())
def test_difference_without_rewrites_has_the_same_rows_as_the_whole(
    history: tuple[list[Commit], Contents],
) -> None:
    commits, contents = history
    whole = fold(commits)
    net = without_rewrites(whole, commits)
    assert rows_of(net, contents) == rows_of(whole, contents)
    assert all(file in whole.removed for file in net.removed)
    assert all(file in whole.added for file in net.added)
    assert net.revectored == whole.revectored


def test_files_made_only_by_optimize_are_left_out_of_the_changes() -> None:
    small = [data_file(name, 0) for name in "ab"]
    merged, again = data_file("m", 2), data_file("n", 3)
    born = data_file("new", 1)
    commits = [
        commit(1, [], [born]),
        optimised(2, small, [merged]),
        optimised(3, [merged, data_file("c", 0)], [again]),
    ]
    assert without_rewrites(fold(commits), commits).files == (born,)


def test_files_that_optimize_made_from_changed_files_are_read() -> None:
    born, old, merged = data_file("new", 1), data_file("a", 0), data_file("m", 2)
    commits = [commit(1, [], [born]), optimised(2, [old, born], [merged])]
    net = without_rewrites(fold(commits), commits)
    assert {file.path for file in net.files} == {"a", "m"}


def test_rewritten_files_of_an_unchanged_partition_are_left_out() -> None:
    born, merged = data_file("new", 1, part="p"), data_file("m", 2, part="p")
    other, rewritten = data_file("o", 0, part="q"), data_file("r", 2, part="q")
    commits = [commit(1, [], [born]), optimised(2, [born, other], [merged, rewritten])]
    net = without_rewrites(fold(commits), commits)
    assert {file.path for file in net.files} == {"m"}


def test_rewritten_file_that_changed_later_is_read_with_its_originals() -> None:
    old, merged = [data_file("a", 0), data_file("b", 0)], data_file("m", 1)
    last = data_file("z", 2)
    commits = [optimised(1, old, [merged]), commit(2, [merged], [last])]
    net = without_rewrites(fold(commits), commits)
    assert {file.path for file in net.files} == {"a", "b", "z"}


def test_rewritten_file_with_a_new_vector_is_read_without_its_originals() -> None:
    old, merged = [data_file("a", 0), data_file("b", 0)], data_file("m", 1)
    again, other = data_file("n", 2), data_file("o", 0)
    marked = data_file("n", 2, vector=3)
    commits = [
        optimised(1, old, [merged]),
        optimised(2, [merged, other], [again]),
        commit(3, [again], [marked]),
    ]
    net = net_difference(commits)
    assert [(pair.old, pair.new) for pair in net.revectored] == [(again, marked)]
    assert (net.removed, net.added) == ((), ())


def test_file_that_another_writer_brings_back_was_not_at_the_offset() -> None:
    old, merged, again = data_file("a", 0), data_file("m", 1), data_file("n", 3)
    listed_again = optimised(2, [], [merged])
    commits = [
        optimised(1, [old], [merged]),
        listed_again,
        optimised(3, [merged], [again]),
        commit(4, [again], [merged]),
    ]
    net = net_difference(commits)
    assert [file.path for file in net.removed] == ["a"]
    assert [file.path for file in net.added] == ["m"]


def test_files_rewritten_after_a_column_change_are_read_with_originals() -> None:
    old, merged, last = [data_file("a", 0)], data_file("m", 2), data_file("z", 3)
    altered = replace(commit(1, [], []), metadata={"id": "x"})
    commits = [altered, optimised(2, old, [merged]), commit(3, [merged], [last])]
    assert {file.path for file in net_difference(commits).files} == {"a", "z"}
    # Files that were rewritten before that change are read alone.
    commits = [optimised(1, old, [merged]), altered, commit(3, [merged], [last])]
    assert {file.path for file in net_difference(commits).files} == {"m", "z"}


def test_files_rewritten_after_an_irrelevant_change_need_no_originals() -> None:
    def metadata(*columns: str, **properties: str) -> dict[str, Any]:
        fields = [{"name": n, "type": "string", "nullable": True} for n in columns]
        schema = json.dumps({"type": "struct", "fields": fields})
        return {"id": "x", "schemaString": schema, "configuration": properties}

    def read(altered: dict[str, Any], protocol: dict[str, Any] | None = None) -> set[str]:
        old, merged, last = [data_file("a", 0)], data_file("m", 2), data_file("z", 3)
        alter = replace(commit(1, [], []), metadata=altered, protocol=protocol)
        commits = [alter, optimised(2, old, [merged]), commit(3, [merged], [last])]
        net = net_difference(commits, Layout.of(metadata("n")))
        return {file.path for file in net.files}

    assert read(metadata("n", comment="new")) == {"m", "z"}
    assert read(metadata("n", "o")) == {"a", "z"}
    assert read(metadata("n", **{"delta.columnMapping.mode": "name"})) == {"a", "z"}
    assert read(metadata("n"), protocol={"minReaderVersion": 3}) == {"a", "z"}


def test_files_that_are_listed_again_for_their_statistics_are_not_touched() -> None:
    old, merged = [data_file("a", 0), data_file("b", 0)], data_file("m", 2)
    changed, born = data_file("z", 4), data_file("new", 5)
    listed = [commit(1, [], [data_file(name, 0, change=False)]) for name in "ab"]
    again = commit(3, [], [data_file("m", 2, change=False)])
    history = [*listed, optimised(2, old, [merged]), again]
    net = net_difference([*history, commit(4, [merged], [changed])])
    assert [file.path for file in net.files] == ["m", "z"]
    # The same holds after a change of the table's metadata, where rewritten files stay out by the
    # older rule.
    altered = replace(commit(0, [], []), metadata={"id": "x"})
    assert net_difference([altered, *history, commit(5, [], [born])]).files == (born,)


def test_files_that_a_restore_brings_back_after_a_rewrite_are_not_read() -> None:
    old, merged = data_file("a", 0), data_file("m", 1)
    back = replace(commit(2, [merged], [old]), operation="RESTORE")
    assert net_difference([optimised(1, [old], [merged]), back]).files == ()


def test_rewrite_that_spells_a_partition_differently_is_read() -> None:
    old, spelt = data_file("a", 0, part="p"), data_file("m", 1, part="P")
    commits = [
        optimised(1, [old], [spelt]),
        optimised(2, [spelt], [data_file("n", 2, part="P")]),
        commit(3, [], [data_file("new", 3)]),
    ]
    net = without_rewrites(fold(commits), commits)
    assert {file.path for file in net.files} == {"a", "n", "new"}
