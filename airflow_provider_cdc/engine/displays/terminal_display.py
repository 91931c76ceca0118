"""Shows progress as a bar in the last lines of a terminal."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.work_progress import WorkProgress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_BAR_CHARACTERS = 30
_PACKAGE = __name__.partition(".")[0]
# A terminal has room for the bar of one piece of work.
_terminal = threading.Lock()


class TerminalDisplay:
    """A bar on standard error while the work runs. Lines of the log appear above it.

    If other work of this process shows its bar already, this one shows nothing.

    :param console: where the bar appears; by default on standard error
    """

    delay_seconds = 2.0
    every_seconds = 0.5

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._live: Live | None = None
        self._is_open = False
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def show(self, progress: WorkProgress) -> None:
        """Show how far the work is."""
        if self._live is None:
            self._live = self._new_live()
        if self._is_open or self._open(self._live):
            self._live.update(_shown(progress), refresh=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._live is None or not self._is_open:
            return
        self._is_open = False
        try:
            for handler, stream in self._moved:
                handler.setStream(stream)
            self._moved.clear()
            self._live.stop()
        finally:
            _terminal.release()

    def _new_live(self) -> Live:
        # Processes that show no bar need not load this.
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        console = self._console or Console(stderr=True, markup=False, highlight=False)
        # Output that goes to a file or a pipe stays there.
        is_shown = sys.stdout is not None and sys.stdout.isatty()
        return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=is_shown)

    def _open(self, live: Live) -> bool:
        """Start ``live``, unless another bar has the terminal."""
        if not _terminal.acquire(blocking=False):
            return False
        self._is_open = True
        stream = sys.stderr
        live.start()
        # A handler writes to the stream that it got, and would write into the bar.
        for handler in _handlers():
            if handler.stream is stream:
                handler.setStream(sys.stderr)
                self._moved.append((handler, stream))
        return True


def _handlers() -> Iterator[logging.StreamHandler[Any]]:
    """The handlers that write lines of the engine to a stream."""
    logger: logging.Logger | None = logging.getLogger(_PACKAGE)
    while logger is not None:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler):
                yield handler
        logger = logger.parent if logger.propagate else None


def _shown(progress: WorkProgress) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    share = progress.share
    bar = ProgressBar(
        total=None if share is None else 1,
        completed=share or 0,
        width=_BAR_CHARACTERS,
        animation_time=progress.seconds,
    )
    line = Table.grid(padding=(0, 1))
    line.add_row(bar, Text(progress.details))
    return Group(Text(progress.headline, no_wrap=True, overflow="ellipsis"), line)
