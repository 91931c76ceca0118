"""The options of a history target: what a caller asks for, and what its Delta table remembers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from ..arguments.choices import parse_enum
from ..arguments.intervals import interval_of
from ..arguments.one_or_several import one_or_several
from ..arguments.validation import validated_call
from ..errors import InvalidRequest
from ..model.json_text import from_json, to_json
from ..names import name_key
from ..shown_values import shown
from .expressions import check_expression

START, END, DELETED = "__START_AT", "__END_AT", "__DELETED"
TOMBSTONE_HORIZON = timedelta(days=2)
PROPERTY = "airflow_provider_cdc.history"

_NEWEST_ONLY, _WITH_HISTORY = 1, 2


class Deleted(StrEnum):
    """What a delete does to the history of its key.

    ``close`` ends the open interval. ``row`` also begins an interval that is marked as deleted
    (dbt: ``hard_deletes='new_record'``).
    """

    CLOSE = "close"
    ROW = "row"


class OnTie(StrEnum):
    """What happens if two events have one key and one sequence, and different values.

    ``last`` keeps the one that comes later in the source. ``fail`` refuses the whole batch.
    ``quarantine`` keeps the earlier one and moves the new ones to the quarantine.
    """

    LAST = "last"
    FAIL = "fail"
    QUARANTINE = "quarantine"


class OnNull(StrEnum):
    """What happens to an event whose key or sequence is NULL."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class Absent(StrEnum):
    """What it means that a key is not in a snapshot."""

    DELETE = "delete"
    IGNORE = "ignore"


class SourceKind(StrEnum):
    """Where the events of a history target come from."""

    STREAM = "stream"
    QUERY = "query"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of a history target; see ``Engine.apply_changes``.

    ``filled`` are the columns in which NULL means unchanged; ``fills_all``: all columns that are
    not in the key. ``open_end`` is a value of the sequence as text.
    """

    source: SourceKind
    keys: tuple[str, ...]
    scd_type: int = 1
    sequence_by: tuple[str, ...] = ()
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    columns: tuple[str, ...] | None = None
    except_columns: tuple[str, ...] = ()
    tracked: tuple[str, ...] | None = None
    except_tracked: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    fills_all: bool = False
    start_column: str = START
    end_column: str = END
    open_end: str | None = None
    current_column: str | None = None
    deleted: Deleted = Deleted.CLOSE
    tombstone_horizon: timedelta | None = TOMBSTONE_HORIZON
    on_tie: OnTie = OnTie.LAST
    on_null: OnNull = OnNull.FAIL
    absent: Absent = Absent.DELETE
    absent_scope: tuple[str, ...] = ()

    @property
    def is_type_2(self) -> bool:
        """Whether the target keeps every version of a row."""
        return self.scd_type == _WITH_HISTORY

    @property
    def is_in_order(self) -> bool:
        """Whether no event can be late: events are in the order of the commits of a stream, or of
        snapshots.
        """
        return self.source is not SourceKind.QUERY and not self.sequence_by

    @property
    def fills(self) -> bool:
        """Whether NULL means unchanged in some columns."""
        return self.fills_all or bool(self.filled)

    @property
    def needs_intervals(self) -> bool:
        """Whether an event has to be compared with the history of its key."""
        return self.is_type_2 or bool(self.sequence_by) or self.fills

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.apply_changes`` for these options, except its source."""
        return {
            "keys": self.keys,
            "scd_type": self.scd_type,
            "sequence_by": self.sequence_by or None,
            "apply_as_deletes": self.apply_as_deletes,
            "apply_as_truncates": self.apply_as_truncates,
            "column_list": self.columns,
            "except_column_list": self.except_columns or None,
            "track_history_column_list": self.tracked,
            "track_history_except_column_list": self.except_tracked or None,
            "ignore_null_updates": self.fills_all or self.filled,
            "start_column": self.start_column,
            "end_column": self.end_column if self.is_type_2 else None,
            "open_end": self.open_end,
            "current_column": self.current_column,
            "deleted": self.deleted,
            "tombstone_horizon": self.tombstone_horizon,
            "on_tie": self.on_tie,
            "on_null": self.on_null,
            "absent": self.absent,
            "absent_scope": self.absent_scope or None,
        }

    def as_property(self) -> str:
        """The value of the table property that remembers the options."""
        return to_json(self)


# The arguments of Engine.apply_changes by the fields that hold them, where the names differ.
_ARGUMENTS: Mapping[str, str] = {
    "source": "stream, query or snapshot",
    "columns": "column_list",
    "except_columns": "except_column_list",
    "tracked": "track_history_column_list",
    "except_tracked": "track_history_except_column_list",
    "filled": "ignore_null_updates",
    "fills_all": "ignore_null_updates",
}
# What a later call may change, because it does not change what was applied before.
_ALTERABLE = frozenset(
    {"tombstone_horizon", "on_tie", "on_null", "absent", "absent_scope", "apply_as_deletes"}
)


def stored_options(subject: str, text: str) -> HistoryOptions:
    """The options that a table property holds.

    :raises InvalidRequest: it was damaged
    """
    try:
        return from_json(text, HistoryOptions)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            subject,
            "has a property that cannot be read",
            cause=f"{PROPERTY}: {error}",
            fix=f"give the property the value that the table's history shows, with ALTER TABLE ..."
            f" SET TBLPROPERTIES ('{PROPERTY}' = ...)",
        ) from None


def check_unchanged(subject: str, stored: HistoryOptions, given: HistoryOptions) -> None:
    """Refuse options that contradict those of an existing target.

    :raises InvalidRequest: names the first such option
    """
    for field in fields(HistoryOptions):
        before, now = getattr(stored, field.name), getattr(given, field.name)
        if before != now and field.name not in _ALTERABLE:
            argument = _ARGUMENTS.get(field.name, field.name)
            raise InvalidRequest(
                subject,
                f"has another {argument}",
                cause=f"it was created with {before!r}, found {now!r}",
                fix=f"pass the {argument} with which it was created, or name another target",
            )


@validated_call
def parse_options(
    subject: str,
    *,
    source: SourceKind,
    keys: str | Collection[str],
    scd_type: int,
    sequence_by: str | Collection[str] | None,
    apply_as_deletes: str | None,
    apply_as_truncates: str | None,
    column_list: str | Collection[str] | None,
    except_column_list: str | Collection[str] | None,
    track_history_column_list: str | Collection[str] | None,
    track_history_except_column_list: str | Collection[str] | None,
    ignore_null_updates: bool | str | Collection[str],
    start_column: str | None,
    end_column: str | None,
    open_end: str | None,
    current_column: str | None,
    deleted: str,
    tombstone_horizon: timedelta | str | None,
    on_tie: str | None,
    on_null: str,
    absent: str,
    absent_scope: str | Collection[str] | None,
) -> HistoryOptions:
    """The options that the arguments of ``Engine.apply_changes`` ask for.

    :raises InvalidRequest: an argument has a form that is not accepted, or two contradict
    """

    def several(argument: str, given: object) -> tuple[str, ...]:
        return () if given is None else one_or_several(subject, argument, given)

    sequence = several("sequence_by", sequence_by)
    is_filling = not isinstance(ignore_null_updates, bool)
    tie = None if on_tie is None else parse_enum(subject, "on_tie", OnTie, on_tie)
    found = HistoryOptions(
        source=source,
        keys=several("keys", keys),
        scd_type=scd_type,
        sequence_by=sequence,
        apply_as_deletes=apply_as_deletes,
        apply_as_truncates=apply_as_truncates,
        columns=None if column_list is None else several("column_list", column_list),
        except_columns=several("except_column_list", except_column_list),
        tracked=None
        if track_history_column_list is None
        else several("track_history_column_list", track_history_column_list),
        except_tracked=several(
            "track_history_except_column_list", track_history_except_column_list
        ),
        filled=several("ignore_null_updates", ignore_null_updates) if is_filling else (),
        fills_all=ignore_null_updates is True,
        start_column=START if start_column is None else start_column,
        end_column=END if end_column is None else end_column,
        open_end=open_end,
        current_column=current_column,
        deleted=parse_enum(subject, "deleted", Deleted, deleted),
        tombstone_horizon=None
        if tombstone_horizon is None
        else interval_of(tombstone_horizon, "tombstone_horizon"),
        on_tie=tie or (OnTie.LAST if sequence else OnTie.FAIL),
        on_null=parse_enum(subject, "on_null", OnNull, on_null),
        absent=parse_enum(subject, "absent", Absent, absent),
        absent_scope=several("absent_scope", absent_scope),
    )
    _check(subject, found)
    given = {
        "track_history_column_list": track_history_column_list,
        "track_history_except_column_list": track_history_except_column_list,
        "end_column": end_column,
        "open_end": open_end,
        "current_column": current_column,
    }
    if not found.is_type_2:
        _refuse_all(subject, given, "it is for scd_type=2")
        if found.deleted is Deleted.ROW:
            raise _contradiction(subject, "deleted", "'row' is for scd_type=2")
    return found


def _check(subject: str, found: HistoryOptions) -> None:
    if found.scd_type not in (_NEWEST_ONLY, _WITH_HISTORY):
        raise InvalidRequest(
            subject,
            "cannot have this scd_type",
            cause=f"expected 1 or 2, found {shown(found.scd_type)}",
            fix="pass scd_type=1 to keep the newest row of each key, or 2 to keep all versions",
        )
    if not found.keys:
        raise InvalidRequest(
            subject,
            "has no key",
            cause="keys is empty",
            fix="name the columns that identify a row, such as keys=['id']",
        )
    for argument, names in (
        ("keys", found.keys),
        ("column_list", found.columns or ()),
        ("track_history_column_list", found.tracked or ()),
    ):
        if len(set(map(name_key, names))) < len(names):
            raise _contradiction(subject, argument, f"it names a column twice: {', '.join(names)}")
    if found.columns is not None and found.except_columns:
        raise _contradiction(subject, "except_column_list", "column_list is given too")
    if found.tracked is not None and found.except_tracked:
        cause = "track_history_column_list is given too"
        raise _contradiction(subject, "track_history_except_column_list", cause)
    keys = set(map(name_key, found.keys))
    for argument, names in (
        ("except_column_list", found.except_columns),
        ("track_history_except_column_list", found.except_tracked),
        ("ignore_null_updates", found.filled),
    ):
        lost = next((name for name in names if name_key(name) in keys), None)
        if lost is not None:
            raise _contradiction(subject, argument, f"{lost} is in the key")
    own = [found.start_column, found.end_column]
    own += [name for name in (found.current_column,) if name is not None]
    if len(set(map(name_key, own))) < len(own):
        cause = f"two columns of the history have one name: {', '.join(own)}"
        raise _contradiction(subject, "start_column", cause)
    for argument, texts in (
        ("sequence_by", found.sequence_by),
        ("apply_as_deletes", (found.apply_as_deletes,)),
        ("apply_as_truncates", (found.apply_as_truncates,)),
    ):
        for text in texts:
            if text is not None:
                check_expression(subject, argument, text)
    _check_source(subject, found)


def _check_source(subject: str, found: HistoryOptions) -> None:
    if found.source is SourceKind.SNAPSHOT:
        given = {
            "sequence_by": found.sequence_by,
            "apply_as_deletes": found.apply_as_deletes,
            "apply_as_truncates": found.apply_as_truncates,
            "ignore_null_updates": found.fills,
        }
        _refuse_all(subject, given, "a snapshot has one version, and a row of it is no event")
    elif found.absent_scope:
        raise _contradiction(subject, "absent_scope", "it is for snapshots")
    elif found.absent is not Absent.DELETE:
        raise _contradiction(subject, "absent", "it is for snapshots")
    if found.source is SourceKind.QUERY and not found.sequence_by:
        raise _contradiction(
            subject,
            "query",
            "the rows of a query have no order, and sequence_by is not given",
            "pass sequence_by='updated_at', or another column that grows with each change of a row",
        )
    if found.apply_as_truncates is None:
        return
    if not found.sequence_by:
        raise _contradiction(subject, "apply_as_truncates", "sequence_by is not given")
    if found.deleted is Deleted.ROW:
        raise _contradiction(subject, "deleted", "'row' cannot be combined with apply_as_truncates")


def _refuse_all(subject: str, given: Mapping[str, Any], cause: str) -> None:
    for argument, value in given.items():
        if value:
            raise _contradiction(subject, argument, cause)


def _contradiction(
    subject: str, argument: str, cause: str, fix: str | None = None
) -> InvalidRequest:
    return InvalidRequest(
        subject,
        f"cannot have this {argument}",
        cause=cause,
        fix=fix or f"leave {argument} out, or change the other option",
    )


def with_alterations(stored: HistoryOptions, given: HistoryOptions) -> HistoryOptions:
    """The stored options with what a later call may change."""
    return replace(stored, **{name: getattr(given, name) for name in _ALTERABLE})
