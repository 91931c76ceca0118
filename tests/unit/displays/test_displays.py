"""The displays of progress: a bar in a terminal or a notebook, and lines of the log."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from airflow_provider_cdc.engine.core.work_progress import TaskCount, WorkPlan, WorkProgress
from airflow_provider_cdc.engine.displays.choice import new_display
from airflow_provider_cdc.engine.displays.log_display import LogDisplay
from airflow_provider_cdc.engine.displays.notebook_display import NotebookDisplay, progress_html
from airflow_provider_cdc.engine.displays.terminal_display import TerminalDisplay
from airflow_provider_cdc.jobs.driver_lines import RECORD, DriverFormatter

HOSTILE = "<img src=x onerror=alert(1)> [bold]"
PROGRESS = WorkProgress(
    HOSTILE,
    "runs statement 1 of 1 on t",
    WorkPlan(1, 2, 3_000),
    1,
    is_statement=True,
    seconds=10,
    step_seconds=10,
    tasks=TaskCount(1, 4),
)
LOGGER = logging.getLogger("airflow_provider_cdc")


@dataclass
class Output:
    """An output of a notebook."""

    html: list[str] = field(default_factory=list)

    def update(self, html: str) -> None:
        self.html.append(html)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Output:
    """Makes this process look like the kernel of a notebook."""
    output = Output()

    def display(html: str, *, display_id: bool) -> Output:
        assert display_id
        output.update(html)
        return output

    shell = SimpleNamespace(kernel=object())
    modules: dict[str, Any] = {
        "IPython": SimpleNamespace(get_ipython=lambda: shell),
        "IPython.display": SimpleNamespace(display=display, HTML=str),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return output


@pytest.fixture
def terminal() -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=120, markup=False, highlight=False
    )


@pytest.fixture
def lines() -> Iterator[logging.StreamHandler[Any]]:
    """A handler that writes the lines of the engine to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield handler
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


def written(console: Console) -> str:
    """What a terminal got: each line that was written at its left edge, without colours."""
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue().replace("\r", "\n"))


def test_notebook_gets_one_output_that_the_end_empties(notebook: Output) -> None:
    display = new_display()
    assert isinstance(display, NotebookDisplay)

    display.show(PROGRESS)
    display.show(replace(PROGRESS, tasks=TaskCount(2, 4)))
    display.close()

    assert len(notebook.html) == 3
    assert "2 of 4 tasks" in notebook.html[1]
    assert notebook.html[2] == ""


def test_notebook_gets_nothing_from_work_that_was_not_shown(notebook: Output) -> None:
    NotebookDisplay().close()
    assert notebook.html == []


def test_html_of_progress_escapes_names_and_holds_the_share() -> None:
    found = progress_html(PROGRESS)
    root = ElementTree.fromstring(found.replace("<br>", "<br/>"))
    bar = root.find("progress")
    assert root.text == PROGRESS.headline
    assert bar is not None
    assert bar.attrib["value"] == "0.250"
    assert bar.tail == f" {PROGRESS.details}"
    assert " value=" not in progress_html(replace(PROGRESS, tasks=TaskCount()))


def test_terminal_shows_names_as_they_are_and_the_figures(terminal: Console) -> None:
    display = TerminalDisplay(terminal)
    display.show(PROGRESS)
    shown = written(terminal)
    display.close()
    assert PROGRESS.headline in shown
    assert "1 of 4 tasks of this step done" in shown


def test_terminal_shows_log_lines_above_the_bar(
    terminal: Console, lines: logging.StreamHandler[Any]
) -> None:
    stream = lines.stream
    display = TerminalDisplay(terminal)
    display.show(PROGRESS)
    LOGGER.info("a line")
    display.close()

    assert re.search(r"^a line$", written(terminal), re.MULTILINE)
    assert lines.stream is stream


def test_terminal_shows_the_bar_of_one_work_at_a_time(terminal: Console) -> None:
    first, second = TerminalDisplay(terminal), TerminalDisplay(terminal)
    first.show(PROGRESS)
    second.show(replace(PROGRESS, consumer="other"))
    second.close()
    assert "other" not in written(terminal)
    first.close()

    third = TerminalDisplay(terminal)
    third.show(replace(PROGRESS, consumer="third"))
    third.close()
    assert "third" in written(terminal)


def test_terminal_is_chosen_if_standard_error_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert isinstance(new_display(), TerminalDisplay)
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(new_display(), LogDisplay)


def test_log_line_is_a_record_of_the_log_of_a_job(lines: logging.StreamHandler[Any]) -> None:
    log = io.StringIO()
    lines.setStream(log)
    lines.setFormatter(DriverFormatter())

    LogDisplay().show(PROGRESS)

    record = RECORD.fullmatch(log.getvalue().rstrip("\n"))
    assert record is not None
    assert record["level"] == "INFO"
    assert record["text"] == f"{PROGRESS.headline}: {PROGRESS.details}"


def test_bar_leaves_output_that_goes_to_a_file_alone(
    terminal: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    display = TerminalDisplay(terminal)
    display.show(PROGRESS)
    print("a row")
    display.close()
    assert file.getvalue() == "a row\n"
