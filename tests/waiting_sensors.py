"""Runs a sensor to its end, in a worker or through all its deferrals, without a triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

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
            event = asyncio.run(_first_event(pause))
        except TimeoutError:
            resumption = "__fail__", {"error": "Trigger timeout"}
        else:
            if isinstance(event, TaskSuccessEvent):
                return (event.xcoms or {}).get("return_value")
            resumption = pause.method_name, {"event": event.payload}
        try:
            return sensor().resume_execution(*resumption, context)
        except TaskDeferred as deferred:
            pause = deferred


async def _first_event(pause: TaskDeferred) -> TriggerEvent:
    events = pause.trigger.run()
    try:
        async with asyncio.timeout(pause.timeout.total_seconds()):
            return await anext(events)
    finally:
        await events.aclose()
