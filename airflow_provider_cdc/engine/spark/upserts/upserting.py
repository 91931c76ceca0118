"""The part of the engine that writes changes of upsert tables, applies them and reads the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import DataFrame

from ...catalog.stream_catalog import StreamCatalog
from ...core.arguments.choices import parse_enum
from ...core.arguments.validation import validated
from ...core.debezium.envelope import UNAVAILABLE, Payload, payload_options
from ...core.model.outcomes import Outcome
from ...core.upserts.definition import OnBadRows, UpsertTable
from ...core.upserts.job_records import JobClass
from ...core.upserts.write_result import WriteResult
from ...storage.delta.change_writes import result_of_write
from ...storage.files.stores import Files
from ..tables.pruning import BASE_BYTES_READ
from .applying import Applying
from .metering import Metering
from .quarantine import Quarantine
from .reads import Reads, TableRead
from .upkeep import Upkeep
from .upsert_streams import UpsertStreams
from .upsert_tables import UpsertTables
from .writing import change_sink, write_changes

Result = TypeVar("Result")


@validated
class Upserting:
    """Changes that are written first, and are applied later or merged into a read."""

    def __init__(
        self,
        catalog: StreamCatalog,
        tables: UpsertTables,
        streams: UpsertStreams,
        quarantine: Quarantine,
        applying: Applying,
        reads: Reads,
        metering: Metering,
        upkeep: Upkeep,
        files: Files,
    ) -> None:
        self._catalog = catalog
        self._upsert_tables = tables
        self._streams = streams
        self._quarantine = quarantine
        self._applying = applying
        self._reads = reads
        self._metering = metering
        self._upkeep = upkeep
        self._files = files

    def write_changes(
        self,
        name: str,
        rows: DataFrame,
        *,
        write_id: str | None = None,
        on_bad_rows: OnBadRows | str = OnBadRows.FAIL,
        payload: Payload | str | None = None,
        sequence_by: str | None = None,
        unavailable_value: str = UNAVAILABLE,
    ) -> WriteResult:
        """Write changes of an upsert table. They wait until they are applied (BigQuery CDC).

        Each row has the columns of the primary key, ``_CHANGE_TYPE`` (UPSERT or DELETE) and, for an
        UPSERT, all values. A column that is not given is NULL. ``_CHANGE_SEQUENCE_NUMBER`` is 1 to
        4 sections of 1 to 16 hexadecimal digits, such as ``FFF/B``. Of two changes of one key, the
        greater number wins. If the numbers are equal, or both are missing, the change that was
        ingested later wins. A change without a number loses to a change with a number.

        In a table with ``partial_changes`` an UPSERT may name columns in the array
        ``_CHANGE_UNCHANGED``. These columns keep their values, and values given for them are
        ignored. The order in which such changes come does not change the result.

        :param write_id: the id of the write; a second write with the same id writes nothing
        :param on_bad_rows: what happens to a bad row: its type is not UPSERT or DELETE, it has no
            key, its sequence number is malformed, or ``_CHANGE_UNCHANGED`` has a wrong name of a
            column. ``fail``: nothing is written. ``quarantine``: the other rows are written, and
            the bad row goes to the table's quarantine. Later changes of its key wait there too
            (:meth:`redrive_changes`)
        :param payload: ``debezium``: the rows hold messages of Debezium about the table, with the
            columns ``before``, ``after``, ``op``, ``source`` and ``ts_ms``, or as JSON in a column
            ``value``. They need a table with ``partial_changes`` if the database leaves long values
            out that did not change. A truncate is a bad row
        :param sequence_by: the sequence number of a message as an SQL expression over it; by
            default its position in the log of the database, such as ``source.lsn``
        :param unavailable_value: what messages have in the place of values that were left out
        :returns: how many changes were written. A repeated write returns what the first one wrote
        :raises InvalidRequest: it is not an upsert table, or a column or a row does not fit;
            nothing was written
        :raises TableNotFound: there is no such table
        """
        table = self._upsert_tables.get(name)
        stream = self._streams.find(table)
        transaction = None if write_id is None else (f"write/{write_id}", 0)
        quarantines = _quarantines(name, on_bad_rows)
        messages = payload_options(f"changes of {name}", payload, sequence_by, unavailable_value)
        mark = write_changes(
            table, rows, transaction=transaction, quarantines=quarantines, messages=messages
        )
        since = 0 if stream is None else stream.offset.version
        return result_of_write(table.changes, self._files, mark, transaction, since=since)

    def change_sink(
        self,
        name: str,
        *,
        query: str,
        on_bad_rows: OnBadRows | str = OnBadRows.FAIL,
        payload: Payload | str | None = None,
        sequence_by: str | None = None,
        unavailable_value: str = UNAVAILABLE,
    ) -> Callable[[DataFrame, int], None]:
        """Return the function that a Structured Streaming ``foreachBatch`` calls to write changes.

        A batch that is repeated writes nothing.

        :param query: a name that the query keeps as long as its checkpoint. No other query that
            ever wrote to the table may have this name. With a new checkpoint, the numbers of
            batches begin at 0 again, and a batch is left out if one with its number was written
            under the same name
        :param on_bad_rows: as for :meth:`write_changes`
        :param payload: as for :meth:`write_changes`
        :param sequence_by: as for :meth:`write_changes`
        :param unavailable_value: as for :meth:`write_changes`
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        """
        self._writable(name)
        quarantines = _quarantines(name, on_bad_rows)
        messages = payload_options(f"changes of {name}", payload, sequence_by, unavailable_value)
        return change_sink(
            lambda: self._writable(name), query, quarantines=quarantines, messages=messages
        )

    def redrive_changes(self, name: str, *, late: bool = False) -> int:
        """Release the changes in quarantine that can be applied now, and return their number.

        They wait with the other changes again, at their former places. The next
        :meth:`apply_upserts` applies them.

        Before the call, correct or remove a bad change in the table ``<base>/_cdc/quarantine``. A
        change that follows a change of its key that is still bad stays in quarantine.

        :param late: release late changes too: those that are older than a delete whose tombstone
            has ended
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        """
        self._quarantine.mark(self._writable(name), late=late)
        return self._quarantine.release(self._writable(name))

    def apply_upserts(self, name: str) -> Outcome | None:
        """Apply the waiting changes in one MERGE, exactly once. ``None``: no change waits.

        Only rows that change are rewritten. In a base of 64 MiB or more, files that hold no key of
        a change are not read, if the key begins with a whole number, a date or text, and if this
        saves at least a quarter of the base's bytes. The metrics ``baseBytes`` and
        ``baseBytesRead`` show what share was read. The next call, by any caller, finishes a call
        that was killed. If changes must go into quarantine, a second MERGE moves them there in the
        same consumption. Some calls also end the tombstones that are older than
        ``tombstone_horizon``, and remove the changes that are older than seven days.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StatementFailed: the MERGE failed; the table is unchanged, and the changes wait
        """
        table = self._upsert_tables.get(name)
        stream = self._streams.get(table)
        if stream.consumption is None and not self._catalog.probe_of(stream).may_have_data:
            self._upkeep.run_when_due(table)
            return None
        named = stream.upsert_table or table.name
        with self._metering.job(named, JobClass.BACKGROUND_APPLY) as job:
            outcome = self._applying.apply(table, stream)
            job.rows = sum(found.rows.get("inserted", 0) for found in outcome.streams)
            job.read_bytes = outcome.statements[-1].metrics[BASE_BYTES_READ]
        self._upkeep.run_when_due(table)
        return outcome

    def read_upsert_table(self, name: str) -> DataFrame:
        """The rows of an upsert table, as fresh as its ``max_staleness`` asks (BigQuery CDC).

        If the oldest waiting change is not older than ``max_staleness``, these are the rows as of
        the last apply. Otherwise, and without ``max_staleness``, the read merges the waiting
        changes: the result is the same as after an apply, and nothing is written.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        return self._read(self._upsert_tables.get(name)).rows

    def query_upsert_table(self, name: str, work: Callable[[DataFrame], Result]) -> Result:
        """Return the result of ``work`` on the rows of an upsert table, and record the job.

        The rows are those of :meth:`read_upsert_table`.

        The class of the job is a query of the applied rows, or a run-time merge (BigQuery CDC).

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        table = self._upsert_tables.get(name)
        found = self._read(table)
        with self._metering.job(found.table, found.job_class) as job:
            for commit in found.merged:
                job.rows += int(commit.metrics.get("numOutputRows", 0))
                job.read_bytes += sum(file.size_bytes for file in commit.adds)
            base = found.base or self._upsert_tables.snapshot(table)
            job.read_bytes += base.size_bytes
            return work(found.rows)

    def _writable(self, name: str) -> UpsertTable:
        """The upsert table of that name, after a check that its stream is on its changes."""
        table = self._upsert_tables.get(name)
        self._streams.find(table)
        return table

    def _read(self, table: UpsertTable) -> TableRead:
        stream = self._streams.get(table)
        return self._reads.read(table, stream, self._streams.status(table, stream))


def _quarantines(name: str, on_bad_rows: OnBadRows | str) -> bool:
    wanted = parse_enum(f"changes of {name}", "on_bad_rows", OnBadRows, on_bad_rows)
    return wanted is OnBadRows.QUARANTINE
