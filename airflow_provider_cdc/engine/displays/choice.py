"""Chooses the display that fits where the process runs."""

from __future__ import annotations

import sys

from .log_display import LogDisplay
from .notebook_display import NotebookDisplay, is_notebook
from .terminal_display import TerminalDisplay


def new_display() -> NotebookDisplay | TerminalDisplay | LogDisplay:
    """A display for one piece of work: of the notebook, of the terminal, or else of the log."""
    if is_notebook():
        return NotebookDisplay()
    if sys.stderr is not None and sys.stderr.isatty():
        return TerminalDisplay()
    return LogDisplay()
