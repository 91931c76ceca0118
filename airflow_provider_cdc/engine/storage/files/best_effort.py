"""Work that may fail: the error is logged, and a later run does the work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def log_failures(what: str, level: int = logging.INFO) -> Iterator[None]:
    """Log any error of work that may be skipped or done later."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of delta-rs is not an Exception
        logger.log(level, "Not done: %s: %s", what, error)
