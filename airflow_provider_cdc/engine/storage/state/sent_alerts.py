"""Records which alerts were sent, so that each alert is sent once although several monitors run.

Each change of an objective's status is a file ``alerts/<stream id>/<objective>-<number>``. It holds
the status, and only one process can create it. A file with ``.sent`` appended records that all
receivers have the alert. Until then, a file with ``.sent.<digest>`` records this for one receiver.
A file with ``.again.<number>`` gives one process the right to try again: only one process can
create it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from ...core.model.alerts import Objective, ObjectiveStatus
from ..files.stores import Files
from ..files.uris import join

_SENT = ".sent"
_AGAIN = ".again"
_DIGITS = 8
# Only whole names match, because a killed monitor may leave drafts of its files.
_NAME = re.compile(
    rf"(?P<objective>[a-z]+)-(?P<number>\d{{{_DIGITS}}})"
    rf"(?P<mark>|{_SENT}|{_SENT}\.[0-9a-f]{{16}}|{_AGAIN}\.\d{{{_DIGITS}}})"
)
# If a monitor has not sent an alert this long after claiming it, the monitor counts as dead.
_LONGEST_SENDING = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Claim:
    """A change of status that this process has to report. ``before`` is the status that was
    reported last. ``marks`` shows who received an earlier attempt (:meth:`SentAlerts.knows`).
    """

    stream_id: str
    objective: Objective
    number: int
    before: ObjectiveStatus
    status: ObjectiveStatus
    marks: frozenset[str] = field(default_factory=frozenset)


class SentAlerts:
    """The sent alerts of one state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "alerts")
        self._files = files
        self._clock = clock

    def claim(self, stream_id: str, objective: Objective, status: ObjectiveStatus) -> Claim | None:
        """Claim the right to report the status of ``objective``. ``None``: it was reported already,
        or another process is reporting it. A claim that is not reported within ten minutes can be
        claimed again, any number of times.
        """
        found = self._found(stream_id, objective)
        last = max(found, default=0)
        marks = frozenset(found.get(last, ()))
        before = self._status(stream_id, objective, last)
        if last and _SENT not in marks:
            attempts = sorted(mark for mark in marks if mark.startswith(_AGAIN))
            path = self._path(stream_id, objective, last)
            if not self._is_old(path + "".join(attempts[-1:])):
                return None
            if before is status:
                again = f"{path}{_AGAIN}.{len(attempts) + 1:0{_DIGITS}d}"
                earlier = self._status(stream_id, objective, last - 1)
                claim = Claim(stream_id, objective, last, earlier, status, marks)
                return claim if self._files.create(again, b"") else None
            self._files.create(path + _SENT, b"")
        if before is status:
            return None
        claim = Claim(stream_id, objective, last + 1, before, status)
        path = self._path(stream_id, objective, claim.number)
        return claim if self._files.create(path, status.value.encode()) else None

    def knows(self, claim: Claim, name: str) -> bool:
        """Whether an earlier attempt reached ``name``."""
        return _mark_of(name) in claim.marks

    def mark_sent_to(self, claim: Claim, name: str) -> None:
        """Record that ``name`` received the alert, whether or not others did."""
        path = self._path(claim.stream_id, claim.objective, claim.number)
        self._files.create(path + _mark_of(name), b"")

    def mark_sent(self, claim: Claim) -> None:
        """Record that all receivers have the alert, and remove the files of earlier alerts."""
        path = self._path(claim.stream_id, claim.objective, claim.number)
        self._files.create(path + _SENT, b"")
        for number, marks in self._found(claim.stream_id, claim.objective).items():
            for mark in marks if number < claim.number else ():
                self._files.remove(self._path(claim.stream_id, claim.objective, number) + mark)

    def forget_all_but(self, stream_ids: set[str]) -> None:
        """Forget the alerts of streams that no longer exist.

        :param stream_ids: the ids of the streams that exist
        """
        for name in self._listed(self._folder):
            if name not in stream_ids:
                self._files.remove(join(self._folder, name))

    def _status(self, stream_id: str, objective: Objective, number: int) -> ObjectiveStatus:
        if number == 0:
            return ObjectiveStatus.MET
        try:
            return ObjectiveStatus(
                self._files.read(self._path(stream_id, objective, number)).decode()
            )
        except (FileNotFoundError, ValueError):
            # Alerts older than the last one that was sent are removed. If a file is damaged, the
            # objective counts as met. Then an alert may come twice, but no alert is lost.
            return ObjectiveStatus.MET

    def _is_old(self, path: str) -> bool:
        try:
            return self._clock() - self._files.modified(path) > _LONGEST_SENDING
        except FileNotFoundError:
            # A later alert was sent in the meantime, and its monitor removed the file.
            return False

    def _found(self, stream_id: str, objective: Objective) -> dict[int, list[str]]:
        """The marks of each number. The mark of the claim itself is empty."""
        found: dict[int, list[str]] = {}
        for name in self._listed(join(self._folder, stream_id)):
            match = _NAME.fullmatch(name)
            if match and match["objective"] == objective.value:
                found.setdefault(int(match["number"]), []).append(match["mark"])
        return found

    def _listed(self, folder: str) -> list[str]:
        try:
            return self._files.names(folder)
        except FileNotFoundError:
            return []

    def _path(self, stream_id: str, objective: Objective, number: int) -> str:
        return join(self._folder, stream_id, f"{objective.value}-{number:0{_DIGITS}d}")


def _mark_of(name: str) -> str:
    return f"{_SENT}.{sha256(name.encode()).hexdigest()[:16]}"
