"""Which versions of its sources a target holds, by its commits."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.consumption.provenance import provenance_of, with_commits
from airflow_provider_cdc.engine.core.consumption.source_notes import (
    TakenVersions,
    noted,
    taken_by,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, parse_commit
from airflow_provider_cdc.engine.core.model.provenance import VersionSpan, with_span

OVERWRITE = {"mode": "Overwrite", "partitionBy": "[]"}
APPEND = {"mode": "Append", "partitionBy": "[]"}


def taken(after: int, through: int, source: str = "orders") -> TakenVersions:
    return TakenVersions(f"{source}_stream", source, f"id of {source}", after, through)


@dataclass
class Target:
    """A table with the files of each of its versions, whose commits a test makes."""

    commits: list[Commit] = field(default_factory=list)
    files: list[frozenset[str]] = field(default_factory=list)

    @property
    def version(self) -> int:
        return len(self.commits) - 1

    def commit(
        self,
        operation: str = "WRITE",
        parameters: dict[str, Any] | None = None,
        *,
        now: frozenset[str] | None = None,
        note: str | None = None,
        is_own: bool = False,
        changes_data: bool = True,
    ) -> None:
        """Commit the files ``now``; by default one more than before."""
        before = self.files[-1] if self.files else frozenset()
        after = before | {f"f{len(self.commits)}"} if now is None else now
        info = {
            "operation": operation,
            "operationParameters": parameters or APPEND,
            "userMetadata": note,
        }
        lines: list[dict[str, Any]] = [{"commitInfo": info}]
        lines += [
            {"add": {"path": path, "size": 1, "dataChange": changes_data}}
            for path in sorted(after - before)
        ]
        lines += [
            {"remove": {"path": path, "dataChange": changes_data}}
            for path in sorted(before - after)
        ]
        if is_own:
            lines.append({"txn": {"appId": f"cdc/c{len(self.commits)}/0/0", "version": 1}})
        text = "\n".join(map(json.dumps, lines)).encode()
        self.commits.append(parse_commit(len(self.commits), text))
        self.files.append(after)

    def consume(self, *takes: TakenVersions, **fields: Any) -> None:
        self.commit(note=noted(None, takes), is_own=True, **fields)

    def restore(self, version: int, *, by_time: bool = False) -> None:
        place = {"version": None, "timestamp": "2026-01-01"} if by_time else {"version": version}
        self.commit("RESTORE", place, now=self.files[version])

    def spans(self) -> list[tuple[int, int]]:
        found = provenance_of("t", self.commits).sources
        assert len(found) <= 1
        return [(span.after_version, span.through_version) for each in found for span in each.spans]


@pytest.fixture
def target() -> Target:
    found = Target()
    found.commit("CREATE TABLE", now=frozenset())
    return found


def test_provenance_of_adjoining_ranges_is_one_range(target: Target) -> None:
    target.consume(taken(3, 5))
    target.consume(taken(5, 9))

    found = provenance_of("copy", target.commits)

    assert repr(found) == "<Provenance of copy version 2: orders 4 to 9>"
    assert found.sources[0].stream == "orders_stream"


def test_provenance_after_a_skipped_range_has_a_gap(target: Target) -> None:
    target.consume(taken(-1, 5))
    target.consume(taken(7, 9))

    assert target.spans() == [(-1, 5), (7, 9)]


def test_provenance_of_an_empty_range_adds_nothing(target: Target) -> None:
    target.consume(taken(5, 5))
    assert target.spans() == []
    assert provenance_of("t", target.commits).unknown_versions == ()


def test_provenance_of_several_sources_has_each_of_them(target: Target) -> None:
    target.consume(taken(0, 1), taken(4, 6, "lines"))

    found = provenance_of("copy", target.commits)

    assert repr(found) == "<Provenance of copy version 1: orders 1; lines 5 to 6>"


def test_provenance_after_a_foreign_write_names_its_version(target: Target) -> None:
    target.consume(taken(0, 1))
    target.commit()
    target.commit("OPTIMIZE", now=frozenset({"compact"}), changes_data=False)

    found = provenance_of("copy", target.commits)

    assert found.unknown_versions == (2,)
    assert "and 1 commit without a source" in repr(found)


def test_note_of_another_writer_does_not_count(target: Target) -> None:
    # Spark's setting may be left in a session of somebody who copied it.
    target.commit(note=noted(None, [taken(0, 1)]))

    assert provenance_of("t", target.commits).unknown_versions == (1,)


@pytest.mark.parametrize("by_time", [False, True])
def test_provenance_after_a_restore_ends_where_it_went_back_to(
    target: Target, by_time: bool
) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(1, 2))
    target.restore(1, by_time=by_time)
    target.consume(taken(4, 5))

    assert target.spans() == [(0, 1), (4, 5)]


def test_provenance_of_a_taken_back_undo_is_whole(target: Target) -> None:
    target.consume(taken(0, 1))
    target.restore(0)
    target.restore(1)

    assert target.spans() == [(0, 1)]


@pytest.mark.parametrize(
    ("operation", "parameters", "is_kept"),
    [
        ("WRITE", OVERWRITE, False),
        ("WRITE", OVERWRITE | {"predicate": "(p = 1)"}, True),
        ("WRITE", OVERWRITE | {"isDynamicPartitionOverwrite": True}, True),
        ("WRITE", APPEND, True),
        ("MERGE", {}, True),
        ("DELETE", {"predicate": '["(a#1 = 7)"]'}, True),
        ("DELETE", {"predicate": '["true"]'}, False),
        ("TRUNCATE", {}, False),
        ("STREAMING UPDATE", {"outputMode": "Complete"}, False),
        ("STREAMING UPDATE", {"outputMode": "Append"}, True),
        ("CREATE OR REPLACE TABLE AS SELECT", {}, False),
    ],
)
def test_provenance_after_a_replacing_commit_begins_anew(
    target: Target, operation: str, parameters: dict[str, Any], is_kept: bool
) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(5, 6), operation=operation, parameters=parameters)

    assert target.spans() == ([(0, 1), (5, 6)] if is_kept else [(5, 6)])


def test_provenance_after_all_rows_were_deleted_is_empty(target: Target) -> None:
    target.consume(taken(0, 1))
    target.commit("TRUNCATE", now=frozenset())

    assert repr(provenance_of("t", target.commits)) == "<Provenance of t version 2: nothing>"


def test_provenance_of_a_shortened_log_says_where_it_begins(target: Target) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(1, 2))

    found = provenance_of("t", target.commits[2:])

    assert found.since_version == 2
    assert [each.spans for each in found.sources] == [(VersionSpan(1, 2),)]


def test_restore_to_before_a_shortened_log_leaves_nothing_known(target: Target) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(1, 2))
    target.restore(1)

    assert provenance_of("t", target.commits[2:]).sources == ()


@pytest.mark.parametrize(
    ("own", "result"),
    [
        ("from the nightly load", "from the nightly load"),
        ("[1]", "[1]"),
        ('{"cdc": 1}', '{"cdc": 1}'),
        ('{"run": 7}', '{"run":7,"cdc":'),
        ("", '{"cdc":'),
        (None, '{"cdc":'),
    ],
)
def test_note_keeps_the_metadata_of_the_user(own: str | None, result: str) -> None:
    assert str(noted(own, [taken(0, 1)])).startswith(result)


def test_statement_that_reads_no_stream_is_no_unknown_writer(target: Target) -> None:
    target.consume(taken(0, 1))
    target.consume()

    found = provenance_of("t", target.commits)

    assert taken_by(target.commits[-1]) == ()
    assert (target.spans(), found.unknown_versions) == ([(0, 1)], ())


def test_restore_to_a_time_is_found_after_files_were_added_again(target: Target) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(1, 2))
    again = target.commits[-1].adds
    target.commit("COMPUTE STATS", now=target.files[-1], changes_data=False)
    target.commits[-1] = replace(target.commits[-1], adds=again)
    target.consume(taken(2, 3))
    target.restore(1, by_time=True)

    assert target.spans() == [(0, 1)]


def test_restore_to_an_unknown_time_is_named(target: Target) -> None:
    target.consume(taken(0, 1))
    target.consume(taken(1, 2))
    target.consume(taken(2, 3))
    target.restore(0, by_time=True)

    found = provenance_of("t", target.commits[2:])

    assert (found.sources, found.unknown_versions) == ((), (4,))


@pytest.mark.parametrize("text", ["{", "7", '{"cdc": 1}', '{"cdc": {"sources": [{}]}}', "\ud800"])
def test_note_that_cannot_be_read_is_no_note(target: Target, text: str) -> None:
    target.commit(note=text, is_own=True)

    assert taken_by(target.commits[-1]) is None
    assert provenance_of("t", target.commits).unknown_versions == (1,)


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(_NAMES, _NAMES, _NAMES, st.integers(-1, 9), st.integers(0, 9))
def test_note_is_read_back_as_it_was_written(
    stream: str, source: str, table_id: str, after: int, through: int
) -> None:
    found, target = TakenVersions(stream, source, table_id, after, through), Target()
    target.consume(found)

    assert taken_by(target.commits[0]) == (found,)


@given(st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 4)), max_size=6))
def test_merged_spans_hold_the_same_versions(pairs: list[tuple[int, int]]) -> None:
    spans: tuple[VersionSpan, ...] = ()
    for after, length in pairs:
        spans = with_span(spans, VersionSpan(after, after + length))

    versions = {after + n for after, length in pairs for n in range(1, length + 1)}
    assert versions == {
        version
        for span in spans
        for version in range(span.after_version + 1, span.through_version + 1)
    }
    assert all(one.through_version < two.after_version for one, two in itertools.pairwise(spans))


_ACTS = st.one_of(
    st.tuples(st.just("consume"), st.integers(0, 20)),
    st.tuples(st.just("replace"), st.integers(0, 20)),
    st.tuples(st.sampled_from(["restore", "restore by time"]), st.integers(0, 30)),
    st.tuples(st.sampled_from(["foreign", "truncate", "optimize"]), st.just(0)),
)


@settings(max_examples=200)
@given(st.lists(_ACTS, max_size=14), st.integers(0, 14))
def test_provenance_equals_that_of_a_plain_model(acts: list[tuple[str, int]], split: int) -> None:
    """The model holds, for each version, the set of versions of the source, and foreign commits."""
    target = Target()
    target.commit("CREATE TABLE", now=frozenset())
    held: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset(), frozenset())]
    for act, number in acts:
        model, foreign = held[-1]
        if act == "consume":
            target.consume(taken(number, number + 2))
            model |= {number + 1, number + 2}
        elif act == "replace":
            only = frozenset({f"only{len(held)}"})
            target.consume(taken(number, number + 1), now=only, parameters=OVERWRITE)
            model, foreign = frozenset({number + 1}), frozenset()
        elif act.startswith("restore"):
            back = number % len(held)
            if act == "restore by time":
                # Two versions with the same files hold the same rows.
                target.restore(back, by_time=True)
            else:
                target.restore(back)
            model, foreign = held[back]
        elif act == "foreign":
            target.commit()
            foreign |= {target.version}
        elif act == "truncate":
            target.commit("TRUNCATE", now=frozenset())
            model, foreign = frozenset(), frozenset()
        else:
            target.commit("OPTIMIZE", now=frozenset({f"o{len(held)}"}), changes_data=False)
        held.append((model, foreign))

    found = provenance_of("t", target.commits)
    first = max(1, min(split, len(target.commits)))
    in_steps = with_commits(provenance_of("t", target.commits[:first]), target.commits[first:])

    versions = {
        version
        for each in found.sources
        for span in each.spans
        for version in range(span.after_version + 1, span.through_version + 1)
    }
    assert (frozenset(versions), frozenset(found.unknown_versions)) == held[-1]
    has_restore = any(each.operation == "RESTORE" for each in target.commits[first:])
    assert in_steps == (None if has_restore else found)
