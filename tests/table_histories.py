"""Histories of a table's files, as Hypothesis draws them, and their commits."""

from __future__ import annotations

from hypothesis import strategies as st
from streams import new_commit

from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector

Table = dict[str, DataFile]


def data_file(path: str, born: int = 0, vector: int | None = None, change: bool = True) -> DataFile:
    deleted = None if vector is None else DeletionVector("i", str(vector), 1, vector)
    return DataFile(path, {}, 10, change, None, born * 100, born, deleted)


def commit(
    version: int,
    adds: tuple[DataFile, ...] = (),
    removes: tuple[DataFile, ...] = (),
    operation: str = "",
) -> Commit:
    return new_commit(version, operation, adds=adds, removes=removes)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Table, list[Commit], list[Table]]:
    """A table, later commits, and the table after each of them."""
    table = {path: data_file(path) for path in draw(st.sets(st.sampled_from("abcd")))}
    start, commits, after = dict(table), [], []
    seen: list[Table] = [dict(table)]
    for version in range(1, draw(st.integers(0, 8)) + 1):
        kind = draw(st.sampled_from(["write", "vector", "list again", "restore", "optimise"]))
        adds: list[DataFile] = []
        removes: list[DataFile] = []
        change = kind != "optimise"
        if kind in ("write", "optimise"):
            removed = draw(st.sets(st.sampled_from(sorted(table)))) if table else set()
            removes = [table[path] for path in sorted(removed)]
            if draw(st.booleans()):
                adds = [data_file(f"new{version}", version, None, change)]
        elif kind == "vector" and table:
            path = draw(st.sampled_from(sorted(table)))
            old = table[path]
            removes, adds = [old], [data_file(path, old.default_row_commit_version or 0, version)]
        elif kind == "list again" and table:
            path = draw(st.sampled_from(sorted(table)))
            old = table[path]
            cardinality = old.deletion_vector.cardinality if old.deletion_vector else None
            born = old.default_row_commit_version or 0
            adds = [data_file(path, born, cardinality, change=False)] if born < version else []
        elif kind == "restore":
            wanted = draw(st.sampled_from(seen))
            removes = [file for path, file in table.items() if not same(wanted.get(path), file)]
            adds = [
                data_file(path, file.default_row_commit_version or 0, cardinality_of(file))
                for path, file in wanted.items()
                if not same(table.get(path), file)
            ]
        for file in removes:
            del table[file.path]
        for file in adds:
            table[file.path] = file
        operation = "RESTORE" if kind == "restore" else "WRITE"
        commits.append(commit(version, tuple(adds), tuple(removes), operation))
        after.append(dict(table))
        seen.append(dict(table))
    return start, commits, after


def cardinality_of(file: DataFile) -> int | None:
    return file.deletion_vector.cardinality if file.deletion_vector else None


def same(one: DataFile | None, other: DataFile | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.deletion_vector == other.deletion_vector
