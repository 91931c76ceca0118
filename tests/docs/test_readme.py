"""The README's promises on its first DAG and on the engine in a notebook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_settings import FIRST_COMPILER
from stream_lab import StreamLab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def merge_of_the_readme() -> str:
    found = re.search(r'^MERGE = """\n(.*?)"""', README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_merge_of_the_readme_keeps_a_copy_equal_even_when_keys_change(
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


def test_python_of_the_readme_runs_from_its_tables_to_its_upsert_table(tmp_path: Path) -> None:
    """Run only the README's code, as a newcomer does: in a JVM of its own, by ``local_session``."""
    tables, *others = PYTHON.findall(README)
    notebook = [block for block in others if "from airflow.sdk" not in block]
    shown = """
copy = spark.table("delta.`/lake/customers_copy`").collect()
seen = spark.table("delta.`/lake/names_seen`").collect()
people = engine.read_upsert_table("people").collect()
names = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
print("FOUND", [[tuple(row) for row in rows] for rows in (copy, seen, people)])
print("SET", [spark.conf.get(name) for name in names])
"""
    merge = f'MERGE = """{merge_of_the_readme()}"""\n'
    script = tmp_path / "notebook.py"
    script.write_text(
        "\n".join([tables, merge, *notebook, shown]).replace("/lake/", f"{tmp_path}/lake/"),
        encoding="utf-8",
    )

    ran = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {FIRST_COMPILER}",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert re.search(r"\| +1\|Ada L\.\| +INSERT\| +true\|1[0-9a-f]{15}\|", ran.stdout)
    assert "FOUND [[(1, 'Ada L.')], [], [(1, 'Ada')]]" in ran.stdout
    assert "SET ['4', '2']" in ran.stdout
    # Spark gets the paths of jars that were fetched before, so Ivy reports nothing.
    assert "resolving dependencies" not in ran.stderr
