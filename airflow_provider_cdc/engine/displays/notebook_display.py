"""Shows progress as a bar below the cell of a notebook."""

from __future__ import annotations

import sys
from html import escape
from importlib import import_module
from typing import Any

from ..core.work_progress import WorkProgress


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    # A process that has not imported IPython is not a kernel.
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def progress_html(progress: WorkProgress) -> str:
    """A line, a bar and the figures, as HTML. Every text is escaped."""
    share = progress.share
    value = "" if share is None else f' value="{share:.3f}"'
    return (
        f"<div>{escape(progress.headline)}<br>"
        f'<progress max="1"{value} style="width: 20em"></progress> {escape(progress.details)}</div>'
    )


class NotebookDisplay:
    """One output of the cell, which each call replaces and the end empties.

    IPython shows it, so it needs no widgets.
    """

    delay_seconds = 2.0
    every_seconds = 1.0

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, progress: WorkProgress) -> None:
        """Show how far the work is."""
        self._put(progress_html(progress))

    def close(self) -> None:
        """Empty the output."""
        if self._output is not None:
            self._put("")

    def _put(self, html: str) -> None:
        module = import_module("IPython.display")
        if self._output is None:
            self._output = module.display(module.HTML(html), display_id=True)
        else:
            self._output.update(module.HTML(html))
