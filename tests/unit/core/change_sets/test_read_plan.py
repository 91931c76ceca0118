"""By which strategy a change set is read, by the log alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from msgspec import structs
from streams import new_commit

from airflow_provider_cdc.engine.core.change_sets.commit_changes import commit_changes
from airflow_provider_cdc.engine.core.change_sets.crafted_log import (
    ListedFile,
    Side,
    batches_by_path,
)
from airflow_provider_cdc.engine.core.change_sets.read_plan import (
    ReadPlan,
    Strategy,
    TablePlan,
    inserted_row_count,
    plan_difference,
    plan_inserts,
    plan_view,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector
from airflow_provider_cdc.engine.core.delta.table_schema import (
    FIELD_ID,
    MAPPING_MODE,
    PHYSICAL_NAME,
    Layout,
)


def layout(kind: str = "integer", name: str = "id", mapping: str | None = None) -> Layout:
    numbers = {FIELD_ID: 1, PHYSICAL_NAME: "id"} if mapping else {}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": numbers}]
    schema = json.dumps({"type": "struct", "fields": fields})
    configuration = {MAPPING_MODE: mapping} if mapping else {}
    return Layout.of(
        {"schemaString": schema, "partitionColumns": [], "configuration": configuration}
    )


def data_file(path: str, size: int, born: int = 0, vector: str | None = None) -> DataFile:
    deleted = None if vector is None else DeletionVector("i", vector, 1, 1)
    return DataFile(path, {}, size, True, None, born * 100, born, deleted)


OLD, NEW = data_file("old", 1000), data_file("new", 1000, born=5)
FEED = data_file("_change_data/feed", 30, born=5)
UPDATE = new_commit(5, "UPDATE", removes=(OLD,), adds=(NEW,), change_files=(FEED,))
ONE_LAYOUT = [layout()]


def test_plan_of_an_update_with_small_change_files_reads_only_these() -> None:
    reading = plan_difference([UPDATE], ONE_LAYOUT)
    assert reading.plan.strategy is Strategy.CHANGE_FILES
    assert (reading.plan.file_count, reading.plan.size_bytes) == (1, 30)
    assert reading.plan.commit_count == 1
    assert reading.plan.reason == "the file difference is 2.0 kB in 2 files"


def test_plan_of_large_change_files_reads_the_file_difference() -> None:
    large = replace(UPDATE, change_files=(data_file("_change_data/feed", 10**6, born=5),))
    assert plan_difference([large], ONE_LAYOUT).plan.strategy is Strategy.FILE_DIFFERENCE


def test_plan_of_many_change_files_counts_the_time_to_open_them() -> None:
    def commits(size: int) -> list[Commit]:
        """Ten commits that rewrite one file; each has a change file of a hundredth of its size."""
        files = [data_file(f"v{number}", size, born=number) for number in range(11)]
        return [
            new_commit(
                number,
                "UPDATE",
                removes=(files[number - 1],),
                adds=(files[number],),
                change_files=(data_file(f"_change_data/{number}", size // 100, born=number),),
            )
            for number in range(1, 11)
        ]

    assert plan_difference(commits(100_000), ONE_LAYOUT).plan.strategy is Strategy.FILE_DIFFERENCE
    assert plan_difference(commits(100_000_000), ONE_LAYOUT).plan.strategy is Strategy.CHANGE_FILES


def test_plan_of_a_merge_counts_the_files_with_its_inserted_row_ids() -> None:
    merge = replace(UPDATE, operation="MERGE")
    plan = plan_difference([merge], ONE_LAYOUT).plan
    assert (plan.strategy, plan.size_bytes) == (Strategy.CHANGE_FILES, 1030)


@pytest.mark.parametrize("wanted", [Strategy.FILE_DIFFERENCE, Strategy.CHANGE_FILES])
def test_plan_takes_the_strategy_that_was_asked_for(wanted: Strategy) -> None:
    plan = plan_difference([UPDATE], ONE_LAYOUT, wanted).plan
    assert plan.strategy is wanted
    assert plan.reason.startswith("it was requested")


def test_plan_without_change_files_says_so_despite_the_asked_strategy() -> None:
    plain = replace(UPDATE, change_files=())
    plan = plan_difference([plain], ONE_LAYOUT, Strategy.CHANGE_FILES).plan
    assert (plan.strategy, plan.reason) == (
        Strategy.FILE_DIFFERENCE,
        "no commit has change files",
    )


def test_plan_over_a_change_of_types_ignores_change_files() -> None:
    plan = plan_difference([UPDATE], [layout("integer"), layout("long")]).plan
    assert plan.strategy is Strategy.FILE_DIFFERENCE
    assert "columns" in plan.reason


def test_plan_ignores_change_files_if_columns_are_found_by_field_id() -> None:
    by_id, by_name = layout(mapping="id"), layout(mapping="name")
    for history in ([by_id], [by_id, by_name], [by_name, by_id, by_name]):
        plan = plan_difference([UPDATE], history, Strategy.CHANGE_FILES).plan
        assert plan.strategy is Strategy.FILE_DIFFERENCE
        assert "field id" in plan.reason
    assert plan_difference([UPDATE], [by_name]).plan.strategy is Strategy.CHANGE_FILES


@pytest.mark.parametrize("name", ["_change_type", "_CHANGE_TYPE"])
def test_plan_ignores_change_files_if_a_column_is_called_change_type(name: str) -> None:
    for today in (layout(name=name), layout(name=name, mapping="name")):
        plan = plan_difference([UPDATE], [today], Strategy.CHANGE_FILES).plan
        assert plan.strategy is Strategy.FILE_DIFFERENCE
        assert "_change_type" in plan.reason


def test_plan_of_a_range_without_a_net_difference_reads_nothing() -> None:
    back = new_commit(6, "RESTORE", removes=(NEW,), adds=(OLD,))
    plan = plan_difference([UPDATE, back], ONE_LAYOUT).plan
    assert (plan.strategy, plan.file_count, plan.commit_count) == (Strategy.NOTHING, 0, 2)


def test_plan_of_inserts_reads_only_the_files_with_new_rows() -> None:
    insert = new_commit(5, "WRITE", adds=(NEW, data_file("carried", 7, born=3)))
    plan = plan_inserts([insert])
    assert (plan.strategy, plan.file_count, plan.size_bytes) == (Strategy.INSERTED_FILES, 1, 1000)
    assert plan_inserts([]).strategy is Strategy.NOTHING


def test_rows_of_appends_are_counted_by_their_statistics() -> None:
    def counted(rows: int | None, born: int = 5, vector: str | None = None) -> DataFile:
        stats = None if rows is None else f'{{"numRecords": {rows}}}'
        return structs.replace(data_file(f"f{rows}{vector}", 10, born, vector), stats=stats)

    def row_count(*files: DataFile, removes: tuple[DataFile, ...] = ()) -> int | None:
        return inserted_row_count([new_commit(5, "WRITE", adds=files, removes=removes)])

    assert row_count(counted(3), counted(4)) == 7
    assert row_count(counted(3), counted(None)) is None
    assert row_count(counted(3, vector="v")) is None
    # Rows may have been carried over from the removed file.
    assert row_count(counted(3), removes=(OLD,)) is None
    delete = new_commit(6, "DELETE", removes=(OLD,))
    assert inserted_row_count([new_commit(5, "WRITE", adds=(counted(3),)), delete]) == 3


def test_inserts_of_a_commit_with_change_files_come_from_its_data_files() -> None:
    (merge,) = commit_changes([replace(UPDATE, operation="MERGE")])
    assert (merge.change_files, merge.inserted) == ((FEED,), (NEW,))
    assert merge.data_files.is_empty
    (update,) = commit_changes([UPDATE])
    assert update.inserted == ()


def test_changes_of_a_commit_without_change_files_are_its_file_difference() -> None:
    optimised = structs.replace(OLD, data_change=False)
    commits = [
        replace(UPDATE, change_files=()),
        new_commit(
            6, "OPTIMIZE", removes=(structs.replace(NEW, data_change=False),), adds=(optimised,)
        ),
    ]
    (found,) = commit_changes(commits)
    assert (found.version, found.change_files, found.inserted) == (5, (), ())
    assert found.files == (OLD, NEW)


def test_batches_by_path_hold_each_file_with_one_vector_once() -> None:
    listed = [
        ListedFile(Side.NEW, data_file("a", 1), 1),
        ListedFile(Side.OLD, data_file("a", 1, vector="x"), 2),
        ListedFile(Side.OLD, data_file("a", 1), 3),
        ListedFile(Side.NEW, data_file("b", 1), 3),
        ListedFile(Side.NEW, data_file("a", 1), 4),
    ]
    assert batches_by_path(listed) == [[listed[0], listed[1], listed[3]], [listed[2]], [listed[4]]]
    assert batches_by_path([]) == []


def test_plan_of_a_view_sums_up_its_tables_and_names_the_largest() -> None:
    small = TablePlan("`a`", ReadPlan(Strategy.NOTHING, 0, 0, 3, "no row differs"))
    large = TablePlan("`b`", ReadPlan(Strategy.CHANGE_FILES, 2, 30, 4, "they are small"))
    plan = plan_view([small, large])
    assert (plan.strategy, plan.file_count, plan.size_bytes, plan.commit_count) == (
        Strategy.CHANGE_FILES,
        2,
        30,
        7,
    )
    assert plan.reason == "a view of 2 tables, most of it from `b`: they are small"
    assert plan.tables == (small, large)
