"""Runs a sensor to its end, in a worker or through all its deferrals, without a triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_cdc.sensors.waiting import WaitingSensor


def ended(sensor: Callable[[], WaitingSensor], context: Mapping[str, Any]) -> Any:
    """The result or the error of a sensor, after any number of deferrals.

    :param sensor: makes the sensor, because each resumption runs in a process of its own
    """
    try:
        waited = sensor().execute(context)
    except TaskDeferred as deferred:
        pause = deferred
    else:
        return waited
    while True:
        try:
            return sensor().resume_execution(*_resumption(pause), context)
        except TaskDeferred as deferred:
            pause = deferred


def _resumption(pause: TaskDeferred) -> tuple[str, dict[str, Any]]:
    async def first() -> Any:
        events = pause.trigger.run()
        try:
            async with asyncio.timeout(pause.timeout.total_seconds()):
                return (await anext(events)).payload
        finally:
            await events.aclose()

    try:
        return pause.method_name, {"event": asyncio.run(first())}
    except TimeoutError:
        return "__fail__", {"error": "Trigger timeout"}
