"""Change sets of files in any place: odd folders, absolute paths, shallow clones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle import MakeTable, SourceTable, delete, update

ROWS = ("1, 'a'", "2, 'b'", "3, 'c'", "4, 'd'")
COLUMNS = "id INT, v STRING"


def append_commit(table: SourceTable, *actions: dict[str, object]) -> None:
    """Commit ``actions`` as another writer of Delta would."""
    log = Path(table.location) / "_delta_log"
    commit_info = {"commitInfo": {"timestamp": 1, "operation": "COMPUTE STATISTICS"}}
    lines = [json.dumps(action) for action in (commit_info, *actions)]
    (log / f"{table.version + 1:020d}.json").write_text("\n".join(lines))


def actions(table: SourceTable, name: str, version: int | None = None) -> list[dict[str, object]]:
    """The actions called ``name`` of a commit, by default the newest."""
    last = table.version if version is None else version
    content = (Path(table.location) / "_delta_log" / f"{last:020d}.json").read_text()
    found = [json.loads(line) for line in content.splitlines()]
    return [action[name] for action in found if name in action]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "folder", ["日本 ordner", "100% & more+#;=,", "it's {here} [x]", "a%20b", "new\\slash"]
)
def test_change_set_of_a_table_in_an_odd_folder_is_exact(
    make_table: MakeTable, folder: str
) -> None:
    table = make_table(COLUMNS, *ROWS, folder=folder)
    table.sql("DELETE FROM {t} WHERE id = 4")
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 2")
    assert table.check(stream) == [delete(1, 2, "b")]


@pytest.mark.thorough
def test_change_set_of_a_table_named_by_a_uri_is_exact(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    forms = (f"file:{table.location}", f"file://{table.location}", f"{table.location}/")
    for number, table.location in enumerate(forms, start=1):
        stream = table.stream()
        table.sql(f"DELETE FROM {{t}} WHERE id = {number}")
        assert [change.values[0] for change in table.check(stream)] == [number]


@pytest.mark.thorough
def test_change_set_with_randomised_file_prefixes_is_exact(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS, properties="'delta.randomizeFilePrefixes' = 'true'")
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    assert len(table.check(stream)) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_of_a_shallow_clone_reads_the_files_of_its_origin(
    make_table: MakeTable, vectors: bool
) -> None:
    origin = make_table(COLUMNS, *ROWS, vectors=vectors, folder="origin ü %20")
    origin.sql("DELETE FROM {t} WHERE id = 4")
    folder = Path(origin.location).parent / "clone ß"
    clone = SourceTable(origin.spark, str(folder), origin.scratch)
    clone.sql(f"CREATE TABLE {{t}} SHALLOW CLONE {origin.name}")
    assert str(actions(clone, "add")[0]["path"]).startswith("file:/")
    first = clone.version
    stream, inserted = clone.stream(), clone.inserted()
    clone.sql("DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET v = 'x' WHERE id = 3")
    changes = clone.check(stream)
    assert sorted(change.values for change in changes) == [(2, "b"), (3, "c"), (3, "x")]
    assert list(clone.changes(inserted)) == []
    moved = clone.stream()
    clone.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {first}")
    assert clone.check(stream) == []
    assert len(clone.check(moved)) == 3


@pytest.mark.thorough
def test_change_set_across_computed_statistics_treats_no_file_as_new(
    make_table: MakeTable,
) -> None:
    table = make_table(COLUMNS, *ROWS)
    add = actions(table, "add")[0]
    stream = table.stream()
    append_commit(table, {"add": {**add, "dataChange": False}})
    assert not table.may_have_data(stream)
    assert table.check(stream) == []
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    assert sorted(table.check(stream)) == sorted(update(0, (1, "a"), (1, "x")))
    assert list(table.changes(table.inserted())) == []
    # Files are listed again after they were added in the range and after their deletion vector
    # changed.
    table.sql("INSERT INTO {t} VALUES (9, 'z')")
    born = actions(table, "add")[0]
    append_commit(table, {"add": {**born, "dataChange": False}})
    table.sql("DELETE FROM {t} WHERE id = 2")
    revectored = actions(table, "add")[0]
    append_commit(table, {"add": {**revectored, "dataChange": False}})
    assert len(table.check(stream)) == 4


@pytest.mark.thorough
def test_change_set_of_absolute_and_encoded_paths_opens_them(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    add = actions(table, "add")[0]
    stream = table.stream()
    outside = Path(table.location).parent / "outside ü 100%"
    outside.mkdir()
    listed = []
    for number, name in enumerate(("plain.parquet", "ü b%20c.parquet", "100%.parquet")):
        copy = outside / name
        copy.write_bytes((Path(table.location) / str(add["path"])).read_bytes())
        uri = copy.as_uri() if number else copy.as_uri().replace("file://", "file:")
        base = {"baseRowId": 100 * (number + 1), "defaultRowCommitVersion": table.version + 1}
        listed.append({"add": {**add, "path": uri, **base}})
    mark = {"domain": "delta.rowTracking", "removed": False}
    mark["configuration"] = json.dumps({"rowIdHighWaterMark": 500})
    append_commit(table, *listed, {"domainMetadata": mark})
    assert len(table.check(stream)) == 12
    later, inserted = table.stream(), table.inserted()
    table.sql("TRUNCATE TABLE {t}")
    assert len(table.check(later)) == 16
    assert len(table.check(stream)) == 4
    assert list(table.changes(inserted)) == []
