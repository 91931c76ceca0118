"""Glances at the logs of the registry and of the sources of streams, between two checks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core.model.stream import Stream
from ..storage.files.stores import Files
from ..storage.registry.registry_table import registry_location
from ..storage.sources.newest_versions import NewestVersions

_NO_LOG = -1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Glance:
    """The newest versions of the registry and of the tables of streams, by the ids of the streams.

    Two equal glances do not prove that nothing has changed: see :class:`NewestVersions`.
    """

    registry: int
    sources: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class LogGlances:
    """Glances at the logs of one state folder and of the sources of its streams.

    One glance is one small request for each log. It is not safe for several threads at once.

    :param state: the state folder, a URI or an absolute path
    :param storage_options: how to reach the store
    :raises InvalidRequest: ``state`` is not a folder that the registry can use
    """

    def __init__(self, state: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        files = Files(storage_options)
        self.is_local = files.is_local(state)
        """Whether the state folder is on a disk, where a request costs microseconds."""
        self._registry = registry_location(state)
        self._versions = NewestVersions(files)

    def registry(self) -> int:
        """The newest version of the registry, or -1 if no registry exists.

        :raises OSError: the store cannot be reached
        """
        return self._versions.of_log(self._registry, _NO_LOG)

    def sources(self, streams: Iterable[Stream]) -> dict[str, tuple[int, ...]]:
        """The newest versions of the tables of ``streams``, by the ids of the streams. A table that
        cannot be reached has no version, because it must not hide what other streams have.
        """
        return {each.stream_id: self._of_stream(each) for each in streams}

    def _of_stream(self, stream: Stream) -> tuple[int, ...]:
        try:
            return self._versions.of_stream(stream)
        except Exception:
            _log.debug("could not glance at the logs of %s", stream.name, exc_info=True)
            return ()

    def glance(self, streams: Iterable[Stream]) -> Glance:
        """Both of them.

        :raises OSError: the store of the registry cannot be reached
        """
        return Glance(self.registry(), self.sources(streams))
