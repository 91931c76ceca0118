from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in requirements}


def rows(section: str) -> dict[str, list[str]]:
    lines = (line for line in section.splitlines() if line.startswith("| `"))
    cells = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return {row[0].strip("| `"): row[1:] for row in cells}


def page_sections() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    _, base, extra = page.split("\n## ")
    return rows(base), rows(extra)


def test_dependencies_page_lists_the_base_exactly() -> None:
    base, _ = page_sections()

    assert set(base) == names(PROJECT["dependencies"])


def test_dependencies_page_lists_the_airflow_extra_exactly() -> None:
    _, extra = page_sections()

    assert set(extra) == names(PROJECT["optional-dependencies"]["airflow"])


def test_dependencies_page_gives_reason_and_saving_for_each_dependency() -> None:
    base, extra = page_sections()

    for name, reasons in (base | extra).items():
        assert len(reasons) == 2, name
        assert all(len(reason.split()) >= 3 for reason in reasons), name


def test_lock_files_hold_every_runtime_dependency_and_no_address() -> None:
    base = names(PROJECT["dependencies"])
    extra = names(PROJECT["optional-dependencies"]["airflow"])

    for lock, expected in (("all", base | extra), ("engine", base)):
        text = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8")
        locked = set(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", text, re.MULTILINE))
        assert expected <= locked
        assert "://" not in text
        assert "--index" not in text


def test_engine_lock_does_not_hold_airflow() -> None:
    text = (ROOT / "requirements/engine.lock").read_text(encoding="utf-8")

    assert "apache-airflow" not in text
