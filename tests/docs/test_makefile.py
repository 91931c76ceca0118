from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        name
        for line in re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
        for name in line.split()
    }

    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert {line.split()[0] for line in listed.splitlines()} == targets


def test_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for target in re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def folders_of(target: str, makefile: str) -> set[str]:
    """The folders of tests that a target runs, itself or through other targets."""
    rule = re.search(rf"^{target}: ?(.*?)(?: ##.*)?\n((?:\t.*\n)*)", makefile, re.MULTILINE)
    assert rule is not None, target
    prerequisites, recipe = rule.groups()
    called = re.findall(r"(?:\$\(MAKE\)|side-by-side) (test[a-z -]+)", recipe, re.MULTILINE)
    found = set(re.findall(r"tests/\w+", recipe))
    for name in " ".join([prerequisites, *called]).split():
        if name.startswith("test-"):
            found |= folders_of(name, makefile)
    return found


def test_every_folder_of_tests_is_run_by_make_test() -> None:
    folders = {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}"
        for path in ROOT.glob("tests/*/**/test_*.py")
    }
    run = folders_of("test", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert run == folders
    assert not list((ROOT / "tests").glob("test_*.py"))
