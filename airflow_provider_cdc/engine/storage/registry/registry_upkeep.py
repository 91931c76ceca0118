"""The upkeep that keeps the registry's table quick to read."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
)
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import PyFileSystem

from ...core.model.lifecycle import Transition
from ..files.best_effort import log_failures
from .registry_table import FILE_SCHEMA, NO_HOOKS, PARTITION, Store

_UPKEEP = "upkeep of the registry"
_PARTITIONS = 2
# Two rewrites of the same files would double their rows. Delta refuses the second because of this
# id.
_REWRITE = "upkeep"


@dataclass(frozen=True, slots=True)
class Upkeep:
    """When and how the registry is tidied up. The history of every stream stays complete.

    Upkeep never disturbs a transition. It may be killed at any point, and may run in several
    processes at once. The function ``optimize.compact`` of delta-rs may not: if two run at once,
    each adds all rows again.

    :param commits: tidy up when there are this many small files (about one for each commit)
    :param file_bytes: archived rows are merged until a file has about a quarter of this many bytes
    :param retention_hours: how long files that the table no longer lists stay readable
    :param unlisted_hours: how long files stay that no commit has listed; a writer can wait this
        long between its file and its commit without harm
    :param vacuum_every: delete such files once in this many rounds of upkeep
    """

    commits: int = 20
    file_bytes: int = 4 * 1024 * 1024
    retention_hours: int = 6
    unlisted_hours: int = 30 * 24
    vacuum_every: int = 10

    def run_when_due(self, table: DeltaTable, store: Store) -> None:
        """Tidy up if ``table`` has enough small files. It never raises, like :meth:`run`."""
        with log_failures(_UPKEEP):
            if sum(self._is_small(file) for file in _files(table)) >= self.commits:
                self.run(store)

    def run(self, store: Store) -> None:
        """Rewrite, vacuum and checkpoint. A failed step is logged, and a later run repeats it."""
        with log_failures(_UPKEEP):
            self._rewrite(store.open(), store)
        # Vacuum first: a checkpoint forgets the files that were removed so long ago that they may
        # be deleted.
        for step in (self._vacuum, self._checkpoint, self._vacuum_unlisted):
            with log_failures(_UPKEEP):
                step(store.open())

    def _rewrite(self, table: DeltaTable, store: Store) -> None:
        """Merge small files, and archive the rows that no snapshot needs, in one commit."""
        files = [file for file in _files(table) if not file["archived"] or self._is_small(file)]
        if len(files) <= _PARTITIONS:
            return
        filesystem = store.filesystem(table)
        recent = _read([file for file in files if not file["archived"]], filesystem)
        mask = pa.array(superseded(recent.select(["stream_id", "sequence", "transition"])))
        parts = {
            False: recent.filter(pc.invert(mask)),
            True: pa.concat_tables(
                [
                    _read([file for file in files if file["archived"]], filesystem),
                    recent.filter(mask),
                ]
            ),
        }
        now = int(time.time() * 1000)
        adds = [_write(rows, archived, now, filesystem) for archived, rows in parts.items() if rows]
        removes = [
            RemoveAction(file["path"], False, now, file["size"], _partition(file["archived"]))
            for file in files
        ]
        table.create_write_transaction(
            [*adds, *removes],
            "append",
            table.schema(),
            [PARTITION],
            commit_properties=CommitProperties(
                app_transactions=[Transaction(_REWRITE, table.version())]
            ),
            post_commithook_properties=NO_HOOKS,
        )

    def _checkpoint(self, table: DeltaTable) -> None:
        table.create_checkpoint()
        table.cleanup_metadata()

    def _vacuum(self, table: DeltaTable) -> None:
        """Delete the files that commits removed, if there are any, without listing a folder."""
        vacuum = partial(
            table.vacuum,
            retention_hours=self.retention_hours,
            enforce_retention_duration=False,
            post_commithook_properties=NO_HOOKS,
        )
        if vacuum(dry_run=True):
            vacuum(dry_run=False)

    def _vacuum_unlisted(self, table: DeltaTable) -> None:
        """In some rounds, delete the files that killed or refused writers left."""
        # Each round increases the version by a little more than ``commits``, so no counter is
        # needed.
        if (table.version() // self.commits) % self.vacuum_every == 0:
            table.vacuum(
                retention_hours=self.unlisted_hours,
                enforce_retention_duration=False,
                dry_run=False,
                full=True,
                post_commithook_properties=NO_HOOKS,
            )

    def _is_small(self, file: Mapping[str, Any]) -> bool:
        return bool(file["size"] < self.file_bytes // 4)


DEFAULT = Upkeep()


def superseded(rows: pa.Table) -> list[bool]:
    """Which of ``rows`` no snapshot needs: all rows except the newest of each stream. If the stream
    was dropped, its newest row is not needed either.

    :param rows: the columns ``stream_id``, ``sequence`` and ``transition``
    """
    newest: dict[str, tuple[int, str]] = {}
    listed = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    for stream_id, sequence, transition in listed:
        newest[stream_id] = max((sequence, transition), newest.get(stream_id, (0, "")))
    return [
        sequence < newest[stream_id][0] or newest[stream_id][1] == Transition.DROPPED
        for stream_id, sequence, _ in listed
    ]


def _files(table: DeltaTable) -> list[dict[str, Any]]:
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = (
        actions[name].to_pylist() for name in ("path", "size_bytes", f"partition.{PARTITION}")
    )
    return [
        {"path": path, "size": size, PARTITION: archived}
        for path, size, archived in zip(*columns, strict=True)
    ]


def _read(files: Sequence[Mapping[str, Any]], filesystem: PyFileSystem) -> pa.Table:
    import pyarrow.dataset  # noqa: PLC0415 - it brings pandas, which a DAG file waits for

    paths = [file["path"] for file in files]
    return pyarrow.dataset.dataset(
        paths, schema=FILE_SCHEMA, filesystem=filesystem, format="parquet"
    ).to_table()


def _write(rows: pa.Table, archived: bool, now: int, filesystem: PyFileSystem) -> AddAction:
    """Write ``rows`` to a new file, which no commit lists yet."""
    values = _partition(archived)
    path = f"{PARTITION}={values[PARTITION]}/part-{uuid.uuid4()}.zstd.parquet"
    described = [name for name in FILE_SCHEMA.names if name != "state"]
    with filesystem.open_output_stream(path) as sink:
        pyarrow.parquet.write_table(
            rows.sort_by([("stream_id", "ascending"), ("sequence", "ascending")]),
            sink,
            compression="zstd",
            use_dictionary=described,
            write_statistics=described,
        )
    size = filesystem.get_file_info(path).size
    return AddAction(path, size, values, now, False, json.dumps({"numRecords": len(rows)}))


def _partition(archived: bool) -> dict[str, str | None]:
    return {PARTITION: str(archived).lower()}
