"""What operators return: the engine's dataclasses as plain JSON, for XCom."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_provider_cdc.engine.core.model import Outcome, Stream
from airflow_provider_cdc.hooks.failures import CdcJobFailed


def stream_result(stream: Stream | None) -> dict[str, Any]:
    """Name, id, source, mode and offset of a stream.

    :raises CdcJobFailed: the job answered without a stream
    """
    if stream is None:
        raise CdcJobFailed("stream job: answered without a stream. Fix: run the task again.")
    return {
        "stream": stream.name,
        "stream_id": stream.stream_id,
        "source": stream.source.name,
        "mode": stream.mode.value,
        "offset_version": stream.offset.version,
    }


def outcome_result(outcome: Outcome | None) -> dict[str, Any]:
    """Every field of a consumption's outcome.

    :raises CdcJobFailed: the job answered without an outcome
    """
    if outcome is None:
        raise CdcJobFailed("consume job: answered without an outcome. Fix: run the task again.")
    result: dict[str, Any] = msgspec.to_builtins(outcome)
    return result
