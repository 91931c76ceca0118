"""The format of a driver's log, from which the submitter reads each record's level."""

from __future__ import annotations

import logging
import re

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
RECORD = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
    r" (?P<text>.*)"
)
"""The first line of a record of this process, or of the JVM with this package's log4j file."""


class DriverFormatter(logging.Formatter):
    """Time, level and message; further lines of a record are indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", DATE_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """The lines of ``record``."""
        return super().format(record).replace("\n", "\n  ")
