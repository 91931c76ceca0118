from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_cdc"

IMPORT_ALL_BUT = """
import importlib, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(f"{name} is blocked")

blocked = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Refuse())
for module in sys.argv[2:]:
    importlib.import_module(module)
print(len(sys.argv) - 2)
"""


def modules(folder: Path) -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
    ]


def import_with_blocked(blocked: str, names: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IMPORT_ALL_BUT, blocked, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("folder", "blocked"),
    [
        ("engine", "airflow"),
        ("jobs", "airflow"),
        ("engine/core", "airflow,pyspark,delta"),
    ],
)
def test_layer_imports_without_the_packages_of_higher_layers(folder: str, blocked: str) -> None:
    names = modules(PACKAGE / folder)
    assert names

    result = import_with_blocked(blocked, names)

    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == len(names)


def test_block_refuses_an_import_that_would_succeed() -> None:
    result = import_with_blocked("json", ["json.tool"])

    assert result.returncode == 1
    assert "json is blocked" in result.stderr or "json.tool is blocked" in result.stderr
