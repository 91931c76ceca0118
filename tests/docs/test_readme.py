"""The README's promises on the engine in a notebook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spark_settings import FIRST_COMPILER

pytestmark = pytest.mark.spark

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
    script = tmp_path / "notebook.py"
    script.write_text(
        "\n".join([tables, *notebook, shown]).replace("/lake/", f"{tmp_path}/lake/"),
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
