"""What the README promises of its first DAG."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stream_lab import StreamLab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def merge_of_the_readme() -> str:
    found = re.search(r'^MERGE = """\n(.*?)"""', README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_merge_of_the_readme_keeps_a_copy_equal_also_where_keys_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("customers", "id INT, name STRING")
    lab.make("customers_copy", "id INT, name STRING")
    lab.sql("INSERT INTO {customers} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)")
    lab.engine.create_stream(
        "customer_changes", on_table=lab.path("customers"), show_initial_rows=True
    )
    merge = merge_of_the_readme().replace("/lake/", f"{tmp_path}/")

    for statements in (
        (),
        ("UPDATE {customers} SET id = 9 WHERE id = 1",),
        ("UPDATE {customers} SET id = 5 - id WHERE id IN (2, 3)",),
        ("UPDATE {customers} SET id = 10, name = 'moved' WHERE id = 9",),
        ("UPDATE {customers} SET name = 'd' WHERE id = 4", "DELETE FROM {customers} WHERE id = 2"),
        ("DELETE FROM {customers} WHERE id = 3", "INSERT INTO {customers} VALUES (3, 'new')"),
    ):
        lab.sql(*statements)
        lab.consume(merge)

        assert lab.rows("customers_copy") == lab.rows("customers"), statements
    assert lab.rows("customers") == [(10, "moved"), (3, "new"), (4, "d")]
