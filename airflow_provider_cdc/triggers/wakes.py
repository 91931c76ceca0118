"""Why a watcher wakes a DAG, and the memory of its last wake."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessor

_KEY = "cdc.fired"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wake:
    """The reason to wake a DAG: a stream has data, or it cannot or may not be read.

    The data is after ``offset_version`` (exclusive) up to ``data_version`` (inclusive). ``problem``
    explains why the stream cannot or may not be read.
    """

    stream: str
    stream_id: str
    offset_version: int
    data_version: int | None
    # The text may change with every commit. A changed text is not a new reason.
    problem: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fired:
    """The last wake of a watcher, and its time."""

    wake: Wake
    at: datetime

    def covers(self, wake: Wake, now: datetime, repeat_after: timedelta) -> bool:
        """Whether ``wake`` is the same as before, and is not yet due to be repeated."""
        return self.wake == wake and now - self.at < repeat_after


class Memory:
    """The last wake that a watcher fired, kept in the state store of its asset.

    If the store fails, the wake is forgotten and fires again.

    :param store: the store of the asset. ``None``: the wake is forgotten when the triggerer ends
    """

    def __init__(self, store: AssetStateStoreAccessor | None) -> None:
        self._store = store

    async def recall(self) -> Fired | None:
        """Return the kept wake, if it has the form of this version of the provider."""
        if self._store is None:
            return None
        try:
            found: Any = await self._store.aget(_KEY, {})
            return _fired_of(found)
        except Exception:
            _log.warning("could not load the last wake", exc_info=True)
            return None

    async def keep(self, fired: Fired) -> None:
        """Keep ``fired`` instead of the previous wake."""
        if self._store is None:
            return
        value: dict[str, Any] = {"wake": asdict(fired.wake), "at": fired.at.isoformat()}
        try:
            await self._store.aset(_KEY, value)
        except Exception:
            _log.warning("could not save %s", fired, exc_info=True)


def _fired_of(kept: Mapping[str, Any]) -> Fired | None:
    try:
        return Fired(Wake(**kept["wake"]), datetime.fromisoformat(kept["at"]))
    except (TypeError, KeyError, ValueError):
        return None
