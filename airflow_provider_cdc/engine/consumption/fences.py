"""Fences: a statement that was not applied can never be applied later."""

from __future__ import annotations

from ..core.consumption.statement_log import FENCE_VERSION, StatementState, application_id
from ..core.errors import OutcomeUnknown, StreamConflict
from ..core.model.consumption import Consumption, PlannedStatement
from ..storage.delta.target_log import TargetLog
from .ports import StatementWriter


class Fences:
    """Fences statements off: writes a later transaction of their application id to the target."""

    def __init__(self, writer: StatementWriter, log: TargetLog) -> None:
        self._writer = writer
        self._log = log

    def fence(self, consumption: Consumption, planned: PlannedStatement) -> StatementState:
        """Make sure that ``planned`` is either applied already or can never be applied.

        :raises OutcomeUnknown: the log does not show the fence
        """
        failure: Exception | None = None
        try:
            self._writer.record(
                planned.location, application_id(consumption, planned.index), FENCE_VERSION
            )
        except Exception as error:
            # The statement itself, or the same fence by another driver, may have committed first.
            failure = error
        state = self._log.state(consumption, planned)
        if state.applied_version is None and not state.fenced:
            raise OutcomeUnknown(
                f"target {planned.target}",
                "does not show the fence that was written",
                cause="expected the transaction of the fence in the log, found neither that nor the"
                f" one of the statement{self._after(failure)}",
                fix="run the consumer again",
            ) from failure
        return state

    def _after(self, failure: Exception | None) -> str:
        if failure is None:
            return ""
        return f", after {type(failure).__name__}: {self._writer.failure(failure).reason}"


def fenced_off(consumption: Consumption) -> StreamConflict:
    """The error of a driver that was fenced off."""
    return StreamConflict(
        f"stream {consumption.stream_names}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} was taken over",
        cause="another consumer fenced its statements off",
        fix="run the consumer again; it starts again from the current offset",
    )
