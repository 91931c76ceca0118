"""What operators return: the engine's dataclasses as plain JSON, for XCom."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_cdc.engine.core.model import Stream, to_json
from airflow_provider_cdc.engine.core.outcomes import Outcome
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
        "source": stream.table_on,
        "mode": stream.mode.value,
        "offset_version": stream.offset.version,
    }


def outcome_result(outcome: Outcome | None) -> dict[str, Any]:
    """Every field of a consumption's outcome.

    :raises CdcJobFailed: the job answered without an outcome
    """
    if outcome is None:
        raise CdcJobFailed("consume job: answered without an outcome. Fix: run the task again.")
    # Through JSON, because XCom would keep a tuple as a class of its own.
    result: dict[str, Any] = json.loads(to_json(outcome))
    return result
