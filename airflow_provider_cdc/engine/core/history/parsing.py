"""The arguments of ``apply_changes`` as options: what each may be, and which contradict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from ..arguments.choices import parse_enum
from ..arguments.expressions import check_expression
from ..arguments.intervals import interval_of
from ..arguments.one_or_several import one_or_several
from ..arguments.validation import validated_call
from ..debezium.envelope import UNAVAILABLE, Payload
from ..errors import InvalidRequest
from ..names import name_key, table_name
from ..shown_values import shown
from .options import (
    END,
    NEWEST_ONLY,
    START,
    WITH_HISTORY,
    Absent,
    Deleted,
    HistoryOptions,
    OnNull,
    OnTie,
    SourceKind,
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
    current_view: str | None,
    deleted: str,
    tombstone_horizon: timedelta | str | None,
    on_tie: str | None,
    on_null: str,
    absent: str,
    absent_scope: str | Collection[str] | None,
    payload: str | None,
    payload_schema: str | None,
    unavailable_value: str,
) -> HistoryOptions:
    """The options that the arguments of ``Engine.apply_changes`` ask for.

    :raises InvalidRequest: an argument has a form that is not accepted, or two contradict
    """

    def several(argument: str, given: object) -> tuple[str, ...]:
        return () if given is None else one_or_several(subject, argument, given)

    sequence = several("sequence_by", sequence_by)
    is_filling = not isinstance(ignore_null_updates, bool)
    tie = None if on_tie is None else parse_enum(subject, "on_tie", OnTie, on_tie)
    wrapped = None if payload is None else parse_enum(subject, "payload", Payload, payload)
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
        current_view=current_view,
        deleted=parse_enum(subject, "deleted", Deleted, deleted),
        tombstone_horizon=None
        if tombstone_horizon is None
        else interval_of(tombstone_horizon, "tombstone_horizon"),
        on_tie=tie or (OnTie.LAST if sequence or wrapped else OnTie.FAIL),
        on_null=parse_enum(subject, "on_null", OnNull, on_null),
        absent=parse_enum(subject, "absent", Absent, absent),
        absent_scope=several("absent_scope", absent_scope),
        payload=wrapped,
        payload_schema=payload_schema,
        unavailable_value=unavailable_value,
    )
    _check(subject, found)
    given = {
        "track_history_column_list": track_history_column_list,
        "track_history_except_column_list": track_history_except_column_list,
        "end_column": end_column,
        "open_end": open_end,
        "current_column": current_column,
        "current_view": current_view,
    }
    if current_view is not None and table_name(current_view).is_path:
        cause = f"a view has a name in a catalog, and {shown(current_view)} is a path"
        raise _contradiction(
            subject, "current_view", cause, "pass a name such as lake.customers_now"
        )
    if not found.is_type_2:
        _refuse_all(subject, given, "it is for scd_type=2")
        if found.deleted is Deleted.ROW:
            raise _contradiction(subject, "deleted", "'row' is for scd_type=2")
    return found


def _check(subject: str, found: HistoryOptions) -> None:
    if found.scd_type not in (NEWEST_ONLY, WITH_HISTORY):
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
            "payload": found.payload,
        }
        _refuse_all(subject, given, "a snapshot has one version, and a row of it is no event")
    elif found.absent_scope:
        raise _contradiction(subject, "absent_scope", "it is for snapshots")
    elif found.absent is not Absent.DELETE:
        raise _contradiction(subject, "absent", "it is for snapshots")
    if found.payload is not None:
        given = {
            "apply_as_deletes": found.apply_as_deletes,
            "apply_as_truncates": found.apply_as_truncates,
        }
        _refuse_all(subject, given, "a message of Debezium says what happened to its row")
    elif found.payload_schema is not None or found.unavailable_value != UNAVAILABLE:
        argument = "unavailable_value" if found.payload_schema is None else "payload_schema"
        raise _contradiction(subject, argument, "it is for payload='debezium'")
    if found.source is SourceKind.QUERY and not found.has_sequence:
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
