"""Which alerts were told, so that each is told once though several monitors look.

Each change of a promise's standing is a file ``alerts/<stream id>/<promise>-<number>`` that holds
the standing and that only one process can create; the same name with ``.told`` says that whoever
was to know it knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..core.alerts import Promise, Standing
from .files import Files, join

_TOLD = ".told"
_DIGITS = 8
# A monitor that has not told what it claimed for so long has died on the way.
_TELLING_TAKES = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Claim:
    """A change of standing that this process is to tell of; ``before`` is what was told last."""

    stream_id: str
    promise: Promise
    number: int
    before: Standing
    standing: Standing


class ToldAlerts:
    """The alerts of one state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "alerts")
        self._files = files
        self._clock = clock

    def claim(self, stream_id: str, promise: Promise, standing: Standing) -> Claim | None:
        """The right to tell how ``promise`` stands now; ``None`` where that was told, or another
        process is telling it. What was claimed and not told for ten minutes is claimed again.
        """
        names = self._names(stream_id, promise)
        last = max(map(_number, names), default=0)
        before = self._standing(stream_id, promise, last)
        if last and _name(promise, last) + _TOLD not in names:
            if not self._is_old(stream_id, promise, last):
                return None
            if before is standing:
                earlier = self._standing(stream_id, promise, last - 1)
                return Claim(stream_id, promise, last, earlier, standing)
            self._files.create(self._path(stream_id, promise, last) + _TOLD, b"")
        if before is standing:
            return None
        claim = Claim(stream_id, promise, last + 1, before, standing)
        path = self._path(stream_id, promise, claim.number)
        return claim if self._files.create(path, standing.value.encode()) else None

    def told(self, claim: Claim) -> None:
        """Note that it was told, and forget what was told before."""
        self._files.create(self._path(claim.stream_id, claim.promise, claim.number) + _TOLD, b"")
        for name in self._names(claim.stream_id, claim.promise):
            if _number(name) < claim.number:
                self._files.remove(join(self._folder, claim.stream_id, name))

    def forget_all_but(self, stream_ids: set[str]) -> None:
        """Forget what was told of streams that are no more."""
        for name in self._listed(self._folder):
            if name not in stream_ids:
                self._files.remove(join(self._folder, name))

    def _standing(self, stream_id: str, promise: Promise, number: int) -> Standing:
        if number == 0:
            return Standing.KEPT
        try:
            return Standing(self._files.read(self._path(stream_id, promise, number)).decode())
        except FileNotFoundError:
            # What is older than the last one that was told is forgotten.
            return Standing.KEPT

    def _is_old(self, stream_id: str, promise: Promise, number: int) -> bool:
        claimed = self._files.modified(self._path(stream_id, promise, number))
        return self._clock() - claimed > _TELLING_TAKES

    def _names(self, stream_id: str, promise: Promise) -> list[str]:
        names = self._listed(join(self._folder, stream_id))
        return [name for name in names if name.startswith(f"{promise.value}-")]

    def _listed(self, folder: str) -> list[str]:
        try:
            return self._files.names(folder)
        except FileNotFoundError:
            return []

    def _path(self, stream_id: str, promise: Promise, number: int) -> str:
        return join(self._folder, stream_id, _name(promise, number))


def _name(promise: Promise, number: int) -> str:
    return f"{promise.value}-{number:0{_DIGITS}d}"


def _number(name: str) -> int:
    return int(name.removesuffix(_TOLD).rpartition("-")[2])
