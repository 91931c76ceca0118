"""The stream on the changes of an upsert table, which its applies consume."""

from __future__ import annotations

from ...core.model.stream import StreamMode
from ...core.model.stream_spec import StreamSpec
from ...core.upserts.definition import UpsertTable
from ..streams.creation import Creation


def create_changes_stream(creation: Creation, table: UpsertTable) -> None:
    """Create the stream on the changes of an upsert table, from the first change on."""
    spec = StreamSpec(
        name=table.stream,
        on_table=table.changes,
        mode=StreamMode.APPEND_ONLY,
        at={"version": 0},
        comment=f"changes of {table.name} that are not applied",
        # The monitor reports a missed ``max_staleness`` like any other lag.
        max_lag=table.max_staleness,
        if_not_exists=True,
    )
    creation.create(spec, upsert_table=table.name)
