"""The notebook of the tutorial runs, and shows the outputs that it holds."""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "docs/tutorial.ipynb"

pytestmark = pytest.mark.spark


def test_tutorial_shows_the_outputs_that_it_holds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path / "lake"))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}

    shown = [run("".join(cell["source"]), names) for cell in code]

    assert shown == ["".join(map(text_of, cell["outputs"])) for cell in code]
    assert any(shown)


def run(source: str, names: dict[str, Any]) -> str:
    """What a cell prints, and the value of its last expression unless it ends with a semicolon."""
    tree = ast.parse(source)
    *before, last = tree.body
    is_shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    value = None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(before if is_shown else tree.body, []), "cell", "exec"), names)
        if is_shown:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue() + ("" if value is None else repr(value))


def text_of(output: dict[str, Any]) -> str:
    """The text of an output, printed or of the last value."""
    text: list[str] = output["text"] if "text" in output else output["data"]["text/plain"]
    return "".join(text)
