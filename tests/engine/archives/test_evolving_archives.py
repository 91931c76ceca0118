"""The columns of archives follow those of their tables, and replay returns them as they were."""

from __future__ import annotations

import pytest
from archive_lab import ArchiveLab

STEPS = {
    "added": (
        "ALTER TABLE {src} ADD COLUMN w INT",
        "UPDATE {src} SET w = 7 WHERE id = 1",
    ),
    "renamed": (
        "ALTER TABLE {src} RENAME COLUMN v TO name",
        "UPDATE {src} SET name = 'x' WHERE id = 1",
    ),
    "dropped": (
        "DELETE FROM {src} WHERE id = 2",
        "ALTER TABLE {src} DROP COLUMN v",
        "INSERT INTO {src} VALUES (4)",
    ),
    "dropped_and_added_again": (
        "ALTER TABLE {src} DROP COLUMN v",
        "ALTER TABLE {src} ADD COLUMN v STRING",
        "UPDATE {src} SET v = 'new' WHERE id = 1",
    ),
    "names_swapped": (
        "ALTER TABLE {src} ADD COLUMN w STRING",
        "UPDATE {src} SET w = 'w' WHERE id < 3",
        "ALTER TABLE {src} RENAME COLUMN v TO other",
        "ALTER TABLE {src} RENAME COLUMN w TO v",
        "ALTER TABLE {src} RENAME COLUMN other TO w",
        "UPDATE {src} SET v = 'new' WHERE id = 1",
    ),
    "widened": (
        "ALTER TABLE {src} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {src} VALUES (5000000000, 'long')",
    ),
    "dropped_and_restored": (
        "ALTER TABLE {src} DROP COLUMN v",
        "INSERT INTO {src} VALUES (4)",
        "RESTORE TABLE {src} TO VERSION AS OF 1",
        "UPDATE {src} SET v = 'x' WHERE id = 1",
    ),
    "nested": (
        "ALTER TABLE {src} ADD COLUMN s STRUCT<a: INT>",
        "UPDATE {src} SET s = named_struct('a', 1) WHERE id = 1",
        "ALTER TABLE {src} ADD COLUMN s.b ARRAY<STRUCT<c: INT>>",
        "UPDATE {src} SET s = named_struct('a', 2, 'b', array(named_struct('c', 3))) WHERE id = 2",
        "ALTER TABLE {src} ADD COLUMN s.b.element.d STRING",
        "ALTER TABLE {src} RENAME COLUMN s.a TO z",
        "UPDATE {src} SET s = named_struct('z', 9, 'b', array(named_struct('c', 3, 'd', 'd')))"
        " WHERE id = 3",
        "ALTER TABLE {src} DROP COLUMN s.b",
        "UPDATE {src} SET s = named_struct('z', 10) WHERE id = 3",
    ),
    "overwritten": (
        "ALTER TABLE {src} ADD COLUMN w INT",
        "INSERT OVERWRITE {src} VALUES (1, 'n', 1), (9, 'm', 2)",
    ),
}


@pytest.mark.in_ci("each_commit-dropped_and_restored", "at_once-widened", "each_commit-added")
@pytest.mark.parametrize("changes", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("each", [True, False], ids=["each_commit", "at_once"])
def test_replay_returns_each_version_with_its_columns(
    mapped: ArchiveLab, changes: tuple[str, ...], each: bool
) -> None:
    mapped.archive()
    for statement in changes:
        mapped.sql(statement)
        if each:
            mapped.archive()
    mapped.archive()

    mapped.check_replays(*range(1, mapped.version("src") + 1))
    assert mapped.archived(from_version=2) == mapped.table_feed(2)


def test_renamed_column_is_renamed_in_the_archive_and_a_dropped_one_stays(
    mapped: ArchiveLab,
) -> None:
    mapped.archive()
    mapped.sql(*STEPS["renamed"])
    mapped.archive()
    assert mapped.spark.table(mapped.name("log")).columns[6:] == ["id", "name"]
    mapped.sql("ALTER TABLE {src} DROP COLUMN name", "ALTER TABLE {src} ADD COLUMN name BINARY")
    mapped.archive()

    rows = mapped.spark.table(mapped.name("log"))
    assert rows.columns[6:] == ["id", "name_until_5", "name"]
    assert rows.where("id = 1 AND name_until_5 = 'x'").count() == 1


@pytest.mark.thorough
def test_archive_of_unmapped_columns_needs_no_column_mapping(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql("ALTER TABLE {src} ADD COLUMN w INT", "UPDATE {src} SET w = 1")
    lab.archive()

    detail = lab.spark.sql(f"DESCRIBE DETAIL {lab.name('log')}").first()
    assert "columnMapping" not in detail["tableFeatures"]
    lab.check_replays(1, 2, 3)


def test_dropped_columns_are_returned_with_schema_commit(mapped: ArchiveLab) -> None:
    mapped.archive()
    mapped.sql(*STEPS["dropped"])
    mapped.archive(max_commits=2)

    found = mapped.archived(from_version=2, schema="commit")
    assert found == mapped.table_feed(2, schema="commit")
