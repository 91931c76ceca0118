"""Records which alerts were sent, so that each is sent once although several monitors run.

Each change of a promise's standing is a file ``alerts/<stream id>/<promise>-<number>``. It holds
the standing, and only one process can create it. A file with ``.told`` appended records that all
receivers have the alert. Until then a file with ``.told.<digest>`` records this for one of them. A
file with ``.again.<number>``, which only one process can create, is the right to try once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from ...core.model.alerts import Promise, Standing
from ..files.stores import Files, join

_TOLD = ".told"
_AGAIN = ".again"
_DIGITS = 8
# Whole names alone: a monitor that is killed may leave drafts of its files.
_NAME = re.compile(
    rf"(?P<promise>[a-z]+)-(?P<number>\d{{{_DIGITS}}})"
    rf"(?P<mark>|{_TOLD}|{_TOLD}\.[0-9a-f]{{16}}|{_AGAIN}\.\d{{{_DIGITS}}})"
)
# A monitor that has not sent an alert this long after claiming it has died.
_TELLING_TAKES = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Claim:
    """A change of standing that this process has to report. ``before`` is the standing that was
    reported last. ``marks`` show who received an earlier attempt (:meth:`ToldAlerts.knows`).
    """

    stream_id: str
    promise: Promise
    number: int
    before: Standing
    standing: Standing
    marks: frozenset[str] = field(default_factory=frozenset)


class ToldAlerts:
    """The sent alerts of one state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "alerts")
        self._files = files
        self._clock = clock

    def claim(self, stream_id: str, promise: Promise, standing: Standing) -> Claim | None:
        """The right to report the standing of ``promise``; ``None`` if it was reported already, or
        another process is reporting it. A claim that is not reported within ten minutes can be
        claimed again, any number of times.
        """
        found = self._found(stream_id, promise)
        last = max(found, default=0)
        marks = frozenset(found.get(last, ()))
        before = self._standing(stream_id, promise, last)
        if last and _TOLD not in marks:
            attempts = sorted(mark for mark in marks if mark.startswith(_AGAIN))
            path = self._path(stream_id, promise, last)
            if not self._is_old(path + "".join(attempts[-1:])):
                return None
            if before is standing:
                again = f"{path}{_AGAIN}.{len(attempts) + 1:0{_DIGITS}d}"
                earlier = self._standing(stream_id, promise, last - 1)
                claim = Claim(stream_id, promise, last, earlier, standing, marks)
                return claim if self._files.create(again, b"") else None
            self._files.create(path + _TOLD, b"")
        if before is standing:
            return None
        claim = Claim(stream_id, promise, last + 1, before, standing)
        path = self._path(stream_id, promise, claim.number)
        return claim if self._files.create(path, standing.value.encode()) else None

    def knows(self, claim: Claim, name: str) -> bool:
        """Whether an earlier attempt reached ``name``."""
        return _mark_of(name) in claim.marks

    def told_to(self, claim: Claim, name: str) -> None:
        """Record that ``name`` received the alert, whether or not others did."""
        path = self._path(claim.stream_id, claim.promise, claim.number)
        self._files.create(path + _mark_of(name), b"")

    def told(self, claim: Claim) -> None:
        """Record that all received the alert, and remove the files of earlier alerts."""
        path = self._path(claim.stream_id, claim.promise, claim.number)
        self._files.create(path + _TOLD, b"")
        for number, marks in self._found(claim.stream_id, claim.promise).items():
            for mark in marks if number < claim.number else ():
                self._files.remove(self._path(claim.stream_id, claim.promise, number) + mark)

    def forget_all_but(self, stream_ids: set[str]) -> None:
        """Forget the alerts of streams that no longer exist.

        :param stream_ids: the ids of the streams that exist
        """
        for name in self._listed(self._folder):
            if name not in stream_ids:
                self._files.remove(join(self._folder, name))

    def _standing(self, stream_id: str, promise: Promise, number: int) -> Standing:
        if number == 0:
            return Standing.KEPT
        try:
            return Standing(self._files.read(self._path(stream_id, promise, number)).decode())
        except (FileNotFoundError, ValueError):
            # Alerts older than the last one that was sent are removed. If a file is damaged, the
            # promise counts as kept: an alert may come twice, and no alert is lost.
            return Standing.KEPT

    def _is_old(self, path: str) -> bool:
        try:
            return self._clock() - self._files.modified(path) > _TELLING_TAKES
        except FileNotFoundError:
            # A later alert was sent meanwhile, and removed it.
            return False

    def _found(self, stream_id: str, promise: Promise) -> dict[int, list[str]]:
        """The marks of each number; the mark of the claim itself is empty."""
        found: dict[int, list[str]] = {}
        for name in self._listed(join(self._folder, stream_id)):
            match = _NAME.fullmatch(name)
            if match and match["promise"] == promise.value:
                found.setdefault(int(match["number"]), []).append(match["mark"])
        return found

    def _listed(self, folder: str) -> list[str]:
        try:
            return self._files.names(folder)
        except FileNotFoundError:
            return []

    def _path(self, stream_id: str, promise: Promise, number: int) -> str:
        return join(self._folder, stream_id, f"{promise.value}-{number:0{_DIGITS}d}")


def _mark_of(name: str) -> str:
    return f"{_TOLD}.{sha256(name.encode()).hexdigest()[:16]}"
