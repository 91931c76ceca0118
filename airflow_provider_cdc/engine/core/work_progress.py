"""How far a long piece of work is, and how long the rest of it will take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from .change_sets.read_plan import ReadPlan
from .figures import counted, extent_text, length_text

_MINUTE = 60
_ROUNDED_ABOVE_SECONDS = 2 * _MINUTE


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How many tasks of Spark have finished, and how many there are so far: those of all stages
    that have begun.
    """

    done: int = 0
    known: int = 0

    def __add__(self, other: TaskCount) -> TaskCount:
        return TaskCount(self.done + other.done, self.known + other.known)


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """What a piece of work reads: the sums over all tables of its streams."""

    commit_count: int = 0
    file_count: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, plans: Iterable[Sequence[ReadPlan]]) -> WorkPlan:
        """The sums of ``plans``: those of each stream, for each of its tables."""
        each = [plan for of_stream in plans for plan in of_stream]
        return cls(
            sum(plan.commit_count for plan in each),
            sum(plan.file_count for plan in each),
            sum(plan.size_bytes for plan in each),
        )


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """How far the work of ``consumer`` is.

    ``step`` is what it does now. ``plan`` is ``None`` until it is known what is read, and
    ``statement_count`` is ``None`` until it is known how many statements follow. In a transaction
    that is never known. ``is_statement``: the step is one of the statements. ``statement_seconds``
    is how long the finished statements took, ``step_seconds`` how long the step has run, and
    ``seconds`` how long all has run. ``tasks`` are the tasks of the step.
    """

    consumer: str
    step: str
    plan: WorkPlan | None = None
    statement_count: int | None = None
    statements_done: int = 0
    statement_seconds: float = 0.0
    is_statement: bool = False
    seconds: float = 0.0
    step_seconds: float = 0.0
    tasks: TaskCount = TaskCount()

    @property
    def remaining_seconds(self) -> float | None:
        """How long the rest will take, or ``None`` if nothing shows it.

        The step takes as long as its tasks show: the time so far, divided by the share of its tasks
        that have finished. If none of them or all of them have finished, they show nothing. Then a
        statement takes as long as the mean of the finished ones, unless it has run longer already.
        Each statement that follows takes as long as the mean of the statements so far; before the
        first one, as long as the step.
        """
        step = self._estimated_step_seconds
        if self.statement_count is None or step is None:
            return None
        left = self.statement_count - self.statements_done
        if not self.is_statement:
            return step - self.step_seconds + left * self._mean(step)
        mean = (self.statement_seconds + step) / (self.statements_done + 1)
        return step - self.step_seconds + (left - 1) * mean

    @property
    def share(self) -> float | None:
        """The share of the time that has passed, from 0 to 1, or ``None`` if it is unknown. It
        falls if Spark begins a stage that was not known before.
        """
        rest = self.remaining_seconds
        if rest is None or self.seconds + rest <= 0:
            return None
        return self.seconds / (self.seconds + rest)

    @property
    def _estimated_step_seconds(self) -> float | None:
        if 0 < self.tasks.done < self.tasks.known:
            return self.step_seconds * self.tasks.known / self.tasks.done
        mean = self._mean(0)
        return mean if self.is_statement and mean > self.step_seconds else None

    def _mean(self, without_any: float) -> float:
        """The mean time of the finished statements; ``without_any``: if there is not one yet."""
        if not self.statements_done:
            return without_any
        return self.statement_seconds / self.statements_done

    @property
    def headline(self) -> str:
        """Who does what: ``nightly: statement 1 of 2 on lake.copy``."""
        return f"{self.consumer}: {self.step}"

    @property
    def details(self) -> str:
        """The figures: ``30 seconds, 12 of 200 tasks done, ..., about 2 minutes left``."""
        parts = [_seconds_text(self.seconds)]
        if self.statement_count:
            done = f"{self.statements_done} of {counted(self.statement_count, 'statement')}"
            parts.append(f"{done} done")
        if self.tasks.known:
            known = counted(self.tasks.known, "task")
            parts.append(f"{self.tasks.done:,} of {known} of this step done")
        if self.plan is not None:
            extent = extent_text(self.plan.size_bytes, self.plan.file_count)
            parts.append(f"{counted(self.plan.commit_count, 'commit')} with {extent} planned")
        rest = self.remaining_seconds
        if rest is not None:
            parts.append(f"about {_seconds_text(rest)} left")
        return ", ".join(parts)


def _seconds_text(seconds: float) -> str:
    """A length of time in words, in whole minutes if it is a long one."""
    whole = round(seconds)
    if whole >= _ROUNDED_ABOVE_SECONDS:
        whole = round(whole / _MINUTE) * _MINUTE
    return length_text(timedelta(seconds=whole))
