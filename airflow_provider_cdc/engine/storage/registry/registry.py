"""The stream registry: every stream of a state folder, in one Delta table.

A transition of a stream is one row with the stream's whole new state. Delta's application
transactions make each write a compare-and-set: Delta refuses a commit under an application id that
another commit has used since the table was read. So the registry needs no lock and no service. A
killed process leaves either its whole transition or nothing. The rows are the history.

Snowflake: an offset moves only with a transaction. Databend: the first consumer to commit wins.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from ...clock import utc_now
from ...core.errors import InvalidRequest, OutcomeUnknown, StreamConflict, StreamExists
from ...core.model.lifecycle import BIRTHS, Transition
from ...core.model.serialization import UnreadableStream, stream_text
from ...core.model.stream import Phase, Stream
from ...core.names import stream_key
from .registry_snapshot import Change, Record, RegistrySnapshot, Row
from .registry_table import (
    CONFIGURATION,
    NO_HOOKS,
    PARTITION,
    SCHEMA,
    WRITER,
    Store,
    delta_literal,
    registry_location,
)
from .registry_upkeep import DEFAULT, Upkeep

_NEWEST = ["stream_id", "sequence", "transition", "name", "state"]
_RECORD = [*_NEWEST, "at", "nonce", "actor"]

_TRIES = 3


class Registry:
    """The streams of a state folder: read them, move them, read their history.

    Safe for any number of threads and processes on any number of machines, if the store can create
    a file only if it does not exist (local disks, S3, ADLS and GCS can).

    :param state: the state folder: an absolute path or a URI
    :param storage_options: delta-rs' options for the store
    :param clock: gives the time of new records
    :param upkeep: when and how the table is tidied up
    :raises InvalidRequest: ``state`` is not a folder that the registry can use
    """

    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = utc_now,
        upkeep: Upkeep = DEFAULT,
    ) -> None:
        self._state = state
        self._store = Store(registry_location(state), dict(storage_options or {}))
        self._clock = clock
        self._upkeep = upkeep

    def snapshot(self) -> RegistrySnapshot:
        """All live streams at one moment. If there is no table, there are no streams, and this call
        does not create a table.
        """
        try:
            table = self._store.open()
        except TableNotFoundError:
            return RegistrySnapshot(None, (), None, self._state)
        newest: dict[str, dict[str, Any]] = {}
        for row in _scan(table, _NEWEST, f"{PARTITION} = false"):
            known = newest.get(row["stream_id"])
            if known is None or known["sequence"] < row["sequence"]:
                newest[row["stream_id"]] = row
        live = [_row_of(row) for row in newest.values() if row["transition"] != Transition.DROPPED]
        return RegistrySnapshot(table.version(), live, table)

    def identity(self) -> str | None:
        """The unique id of this registry; ``None`` if there is no table yet."""
        return str(self._store.open().metadata().id) if self._store.exists() else None

    def history(self, stream_id: str) -> list[Record]:
        """Every transition of a stream, oldest first; empty if there is no such stream."""
        return self._records(f"stream_id = {delta_literal(stream_id)}")

    def history_since(self, moment: datetime) -> list[Record]:
        """The transitions of all streams at ``moment`` or later, in the order of their sequences.

        :param moment: with a time zone
        """
        text = moment.astimezone(UTC).isoformat()
        # A plain timestamp has nanoseconds, and Delta's statistics do not.
        found = f"""arrow_cast('{text}', 'Timestamp(Microsecond, Some("UTC"))')"""
        return self._records(f"at >= {found}")

    def dropped(self, name: str) -> Stream | None:
        """The stream that was dropped last under ``name`` and was not brought back since.

        :raises StreamUnreadable: it cannot be read
        """
        named = f"name_key = {delta_literal(stream_key(name))}"
        found = self._records(f"{named} AND transition = {delta_literal(Transition.DROPPED)}")
        for record in sorted(found, key=_moment_of_drop, reverse=True):
            if self.history(record.stream.stream_id)[-1].nonce == record.nonce:
                if isinstance(record.stream, UnreadableStream):
                    raise record.stream.error
                return record.stream
        return None

    def transact(
        self, expected: RegistrySnapshot, changes: Sequence[Change], *, actor: str
    ) -> tuple[Stream, ...]:
        """Make all of ``changes`` if none of their streams has moved since ``expected`` was read.
        Otherwise make no change.

        :param expected: the snapshot that the changes are based on; the caller can use it again,
            and it still shows the same moment
        :param changes: at most one for each stream; the caller checks the phases
        :param actor: who makes them, for the history
        :returns: the new states, in the order of ``changes``, without those that cannot be read
        :raises InvalidRequest: the changes contradict each other, a state could not be read back,
            or the folder cannot be written
        :raises StreamExists: a stream is created under the name of a live one
        :raises StreamConflict: another process moved one of the streams first; nothing was written
        :raises OutcomeUnknown: the write failed, and it is unknown whether it landed
        """
        _check(expected, changes)
        moved = [
            replace(change, stream=replace(change.stream, sequence=change.stream.sequence + 1))
            for change in changes
        ]
        nonce = uuid.uuid4().hex
        record = {"at": self._clock(), "nonce": nonce, "actor": actor}
        rows = [_row(change) | record for change in moved]
        ids = [item for change in moved for item in _transaction_ids(expected, change)]
        for attempt in range(_TRIES):
            try:
                table = self._table_of(expected)
                self._append(table, rows, ids)
            except InvalidRequest:
                raise
            except Exception as error:  # the table shows whether the write landed
                again = attempt < _TRIES - 1 and isinstance(error, DeltaError)
                settled = self._settle(nonce, changes, error, again=again)
                if settled is None:
                    break
                expected = settled
            else:
                self._upkeep.run_when_due(table, self._store)
                break
        return tuple(each.stream for each in moved if isinstance(each.stream, Stream))

    def tidy(self) -> None:
        """Run the upkeep now, due or not; does nothing if there is no table."""
        if self._store.exists():
            self._upkeep.run(self._store)

    def _append(
        self, table: DeltaTable, rows: list[dict[str, Any]], transactions: list[tuple[str, int]]
    ) -> None:
        write_deltalake(
            table,
            pa.Table.from_pylist(rows, SCHEMA),
            mode="append",
            writer_properties=WRITER,
            post_commithook_properties=NO_HOOKS,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(*item) for item in transactions]
            ),
        )

    def _settle(
        self, nonce: str, changes: Sequence[Change], error: Exception, *, again: bool
    ) -> RegistrySnapshot | None:
        """Find out the outcome of a commit that failed with ``error``.

        A refused commit may have landed too. If a store's client repeats a request after a lost
        answer, the store refuses the second attempt because of the first. Delta also refuses more
        than it has to, such as a commit that is based on a snapshot whose log was cleaned up. If
        none of the streams has moved, writing the same rows after the current version is still the
        same compare-and-set.

        :param again: whether the write may be repeated
        :returns: ``None`` if it landed, otherwise the snapshot after which to repeat the write
        """
        found: StreamConflict | StreamExists | None = None
        try:
            now = self.snapshot()
            try:
                self._check_unmoved(now, changes, error)
            except (StreamConflict, StreamExists) as refusal:
                found = refusal
            # This check comes last, so that a move that was found above cannot be this commit
            # itself.
            if self._records(f"nonce = {delta_literal(nonce)}"):
                return None
        except Exception as unread:
            error.add_note(f"Then the registry could not be read: {unread}")
        else:
            if found is not None:
                raise found
            if again:
                return now
        names = ", ".join(change.stream.name for change in changes)
        raise OutcomeUnknown(
            f"stream {names}",
            "could not be moved",
            cause=f"the registry under {self._state} does not show the change after"
            f" {type(error).__name__}: {error}",
            fix="try again; it is safe",
        ) from error

    def _check_unmoved(
        self, now: RegistrySnapshot, changes: Sequence[Change], error: Exception
    ) -> None:
        for stream in (change.stream for change in changes):
            records = self.history(stream.stream_id)
            if records and records[-1].stream.sequence != stream.sequence:
                last = records[-1]
                _conflict(stream, _last_change(last), error)
        _check(now, changes)

    def _records(self, predicate: str) -> list[Record]:
        try:
            rows = _scan(self._store.open(), _RECORD, predicate)
        except TableNotFoundError:
            return []
        return [
            Record(
                _row_of(row).stream,
                Transition(row["transition"]),
                row["at"],
                row["nonce"],
                row["actor"],
            )
            for row in sorted(rows, key=lambda row: row["sequence"])
        ]

    def _table_of(self, expected: RegistrySnapshot) -> DeltaTable:
        """A handle at the version of ``expected``. The table is created if it does not exist."""
        table = expected.take_table()
        if table is not None:
            return table
        if expected.version is None:
            self._create()
        return self._store.open(expected.version or 0)

    def _create(self) -> None:
        try:
            DeltaTable.create(
                self._store.location,
                SCHEMA,
                mode="ignore",
                partition_by=[PARTITION],
                name="stream registry",
                configuration=CONFIGURATION,
                storage_options=self._store.options,
            )
        except Exception as error:
            # If several processes create the table at once, all except one are refused.
            if not self._store.exists():
                raise InvalidRequest(
                    f"state folder {self._state}",
                    "cannot be written",
                    cause=str(error).strip().rstrip("."),
                    fix="name a writable folder and the options that its store needs",
                ) from error


def _scan(table: DeltaTable, columns: list[str], predicate: str) -> Iterator[dict[str, Any]]:
    for batch in table.scan(columns=columns, predicate=predicate):
        yield from pa.record_batch(batch).to_pylist()


def _row_of(row: Mapping[str, Any]) -> Row:
    return Row(row["stream_id"], row["name"], row["sequence"], row["state"])


def _moment_of_drop(record: Record) -> tuple[datetime, datetime]:
    stream = record.stream
    return record.at, record.at if isinstance(stream, UnreadableStream) else stream.created_at


def _row(change: Change) -> dict[str, Any]:
    stream = change.stream
    return {
        "stream_id": stream.stream_id,
        "sequence": stream.sequence,
        "name": stream.name,
        "name_key": stream_key(stream.name),
        "transition": change.transition.value,
        "state": stream_text(stream),
        PARTITION: False,
    }


def _transaction_ids(expected: RegistrySnapshot, change: Change) -> list[tuple[str, int]]:
    """The application ids of ``change``: the id of its stream, and the id of a name that it takes.
    Delta refuses the change if another commit has used one of these ids since the snapshot.
    """
    stream = change.stream
    ids = [(stream.stream_id, stream.sequence)]
    if _takes_name(expected, change):
        ids.append((f"name:{stream_key(stream.name)}", stream.sequence))
    return ids


def _takes_name(expected: RegistrySnapshot, change: Change) -> bool:
    if change.transition in BIRTHS:
        return True
    old_name = expected.name_of(change.stream.stream_id)
    return stream_key(old_name) != stream_key(change.stream.name)


def _check(expected: RegistrySnapshot, changes: Sequence[Change]) -> None:
    """Refuse changes that the snapshot already contradicts."""
    if not changes or len({change.stream.stream_id for change in changes}) < len(changes):
        raise InvalidRequest(
            "registry",
            "cannot make these changes",
            cause=f"expected one change for each stream, found {len(changes)} changes",
        )
    freed = {
        stream_key(expected.name_of(change.stream.stream_id))
        for change in changes
        if change.transition is Transition.DROPPED and change.stream.stream_id in expected
    }
    taken: set[str] = set()
    for change in changes:
        stream = change.stream
        known = stream.stream_id in expected
        sequence = expected.sequence_of(stream.stream_id) if known else 0
        if change.transition is Transition.UNDROPPED:
            # No snapshot holds a dropped stream. Delta itself finds out whether it has moved since
            # the snapshot.
            sequence = stream.sequence
        if stream.sequence != sequence or known == (change.transition in BIRTHS):
            _conflict(stream, f"expected sequence {sequence}, found {stream.sequence}", None)
        # A stream that cannot be read can only be dropped.
        phase = Phase.DROPPED if isinstance(stream, UnreadableStream) else stream.phase
        if (phase is Phase.DROPPED) != (change.transition is Transition.DROPPED):
            raise InvalidRequest(
                f"stream {stream.name}",
                f"cannot be {change.transition.value} into phase {phase.value}",
            )
        if _takes_name(expected, change):
            key = stream_key(stream.name)
            other = None if key in freed else expected.holder(stream.name)
            if other is not None or key in taken:
                raise _exists(other or stream)
            taken.add(key)


def _exists(stream: Stream | UnreadableStream) -> StreamExists:
    if isinstance(stream, UnreadableStream):
        cause = f"its record cannot be read, {stream.reason}"
    else:
        cause = f"it was created by {stream.owner} at {stream.created_at}"
    return StreamExists(
        f"stream {stream.name}",
        "exists already",
        cause=cause,
        fix="choose another name, or drop that stream first",
    )


def _last_change(record: Record) -> str:
    moment = f"{record.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"its newest transition is '{record.transition}', by {record.actor} at {moment}"


def _conflict(stream: Stream | UnreadableStream, cause: str, error: Exception | None) -> NoReturn:
    raise StreamConflict(
        f"stream {stream.name}",
        "was moved by another process first; nothing was written",
        cause=cause,
        fix="read the stream again and retry",
    ) from error
