"""The format of a driver's log. The submitter reads the level of each record from it."""

from __future__ import annotations

import logging
import re

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
RECORD = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
    r" (?P<text>.*)"
)
"""Matches the first line of a record, of this process or of the JVM with this package's log4j file.
"""


class DriverFormatter(logging.Formatter):
    """Formats a record as time, level and message, and indents the further lines of a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", DATE_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of ``record``."""
        return super().format(record).replace("\n", "\n  ")
