"""What may be left undone when it goes wrong: the log tells of it, and somebody does it later."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def put_off(what: str, level: int = logging.INFO) -> Iterator[None]:
    """Log whatever goes wrong in something that may be left undone, or made up for later."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of delta-rs is no Exception
        logger.log(level, "Left undone: %s: %s", what, error)
