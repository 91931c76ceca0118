"""The columns of a history target, and what each is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..arguments.expressions import plain_column
from ..debezium.envelope import is_unavailable
from ..delta.columns import is_key_type
from ..errors import InvalidRequest
from ..names import first_alike, free_name, name_key, quote, text_value
from .options import DELETED, Deleted, HistoryOptions

RESERVED = "_cdc_"
"""How the names of the columns begin that events have besides those of the target."""

_INCOMPARABLE = ("map", "variant")


@dataclass(frozen=True, slots=True)
class HistoryShape:
    """The columns of one target.

    :param keys: the columns of the key
    :param values: the other data columns, in the order of the target
    :param tracked: those of ``values`` whose change begins a new interval
    :param filled: those of ``values`` in which an event can leave the value unchanged, each with
        the condition that it does, as SQL over the event
    :param start: the column of the sequence with which a row begins; ``None``: the target has none
    :param end: the column of the sequence at which it ends; ``None``: type 1
    :param sequence: the sequence of a row of the target, as SQL over its columns
    :param sequence_type: its type, as SQL writes it
    :param open_end: the end of an open interval, as SQL
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    tracked: tuple[str, ...]
    filled: Mapping[str, str]
    sequence: str
    sequence_type: str
    start: str | None = None
    end: str | None = None
    current: str | None = None
    deleted: str | None = None
    open_end: str = "NULL"
    is_in_order: bool = False
    has_truncates: bool = False

    @property
    def is_type_2(self) -> bool:
        """Whether the target keeps every version of a row."""
        return self.end is not None

    @property
    def data(self) -> tuple[str, ...]:
        """The columns that come from the source."""
        return (*self.keys, *self.values)

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that the history adds to those of the source."""
        names = (self.start, self.end, self.current, self.deleted)
        return tuple(name for name in names if name is not None)

    @property
    def is_current(self) -> str:
        """The condition of the rows that show what the source has now, as SQL."""
        if self.end is None:
            return "true"
        found = f"{quote(self.end)} <=> {self.open_end}"
        return found if self.deleted is None else f"{found} AND NOT {quote(self.deleted)}"

    @property
    def remembers(self) -> bool:
        """Whether events are kept that the rows of the target do not show. If no event is
        late, none of them is needed again.
        """
        return not self.is_in_order


def chosen_columns(
    subject: str, options: HistoryOptions, found: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The key columns and the other columns that a target takes from a source.

    :param found: the columns of the source
    :raises InvalidRequest: an option names a column that the source does not have, or a column has
        a name that is reserved
    """
    known = {name_key(name): name for name in found}
    named = {
        "keys": options.keys,
        "column_list": options.columns or (),
        "except_column_list": options.except_columns,
        "track_history_column_list": options.tracked or (),
        "track_history_except_column_list": options.except_tracked,
        "ignore_null_updates": options.filled,
        "absent_scope": options.absent_scope,
    }
    for argument, names in named.items():
        lost = next((name for name in names if name_key(name) not in known), None)
        if lost is not None:
            raise InvalidRequest(
                subject,
                f"has a column in {argument} that its source does not have",
                cause=f"expected some of {', '.join(found)}, found {lost}",
                fix=f"correct {argument}",
            )
    keys = [name_key(name) for name in options.keys]
    wanted = known.keys() if options.columns is None else set(map(name_key, options.columns))
    left_out = set(map(name_key, options.except_columns))
    values = [name for name in known if name in wanted and name not in left_out | set(keys)]
    taken = tuple(known[name] for name in keys), tuple(known[name] for name in values)
    _check_names(subject, options, [*taken[0], *taken[1]])
    return taken


def tracked_columns(options: HistoryOptions, values: Sequence[str]) -> tuple[str, ...]:
    """The columns whose change begins a new interval."""
    left_out = set(map(name_key, options.except_tracked))
    if options.tracked is None:
        return tuple(name for name in values if name_key(name) not in left_out)
    wanted = set(map(name_key, options.tracked))
    return tuple(name for name in values if name_key(name) in wanted)


def filled_columns(
    options: HistoryOptions, values: Sequence[str], kinds: Mapping[str, str]
) -> dict[str, str]:
    """The columns in which an event can leave the value unchanged, each with the condition."""
    wanted, found = set(map(name_key, options.filled)), {}
    for name in values:
        column, conditions = quote(name), []
        if options.fills_all or name_key(name) in wanted:
            conditions.append(f"{column} IS NULL")
        if options.payload is not None:
            placeholder = is_unavailable(column, kinds[name], options.unavailable_value)
            conditions += [placeholder] if placeholder is not None else []
        if conditions:
            found[name] = " OR ".join(conditions)
    return found


def history_shape(
    options: HistoryOptions, keys: Sequence[str], values: Mapping[str, str], sequence_type: str
) -> HistoryShape:
    """The shape of a target with these columns.

    :param values: the columns that are not in the key, each with its type as SQL writes it
    :param sequence_type: the type of the sequence, as SQL writes it
    """
    start = options.start_column if options.is_type_2 else None
    if options.is_type_2:
        sequence = quote(options.start_column)
    elif options.is_in_order:
        # Whatever the target holds is older than what arrives.
        sequence = f"CAST(NULL AS {sequence_type})"
    else:
        shown = _shown_sequence(options, (*keys, *values))
        start = options.start_column if shown is None else None
        sequence = shown or quote(options.start_column)
    open_end = f"CAST(NULL AS {sequence_type})"
    if options.open_end is not None:
        open_end = f"CAST({text_value(options.open_end)} AS {sequence_type})"
    return HistoryShape(
        tuple(keys),
        tuple(values),
        tracked_columns(options, tuple(values)),
        filled_columns(options, tuple(values), values),
        sequence,
        sequence_type,
        start,
        options.end_column if options.is_type_2 else None,
        options.current_column,
        DELETED if options.deleted is Deleted.ROW else None,
        open_end,
        options.is_in_order,
        options.has_truncates,
    )


def own_columns(options: HistoryOptions) -> tuple[str, ...]:
    """The columns that a target with these options may have besides those of its source."""
    if not options.needs_intervals or (options.is_in_order and not options.is_type_2):
        return ()
    if not options.is_type_2:
        return (options.start_column,)
    names = [options.start_column, options.end_column]
    names += [name for name in (options.current_column,) if name is not None]
    return (*names, *([DELETED] if options.deleted is Deleted.ROW else []))


def sequence_sql(options: HistoryOptions) -> str:
    """The sequence of an event, as SQL over the columns of its source. Several columns are compared
    one after the other.
    """
    if len(options.sequence_by) == 1:
        return f"({options.sequence_by[0]})"
    taken: list[str] = []
    for number, text in enumerate(options.sequence_by, 1):
        taken.append(free_name(plain_column(text) or f"_{number}", set(map(name_key, taken))))
    pairs = zip(taken, options.sequence_by, strict=True)
    return f"struct({', '.join(f'{text} AS {quote(name)}' for name, text in pairs)})"


def _shown_sequence(options: HistoryOptions, columns: Sequence[str]) -> str | None:
    """The sequence of a row of the target, if the target has all columns that it consists of."""
    if options.payload is not None:
        # The sequence is part of the envelope, and not of the row.
        return None
    names = [plain_column(text) for text in options.sequence_by]
    held = set(map(name_key, columns))
    is_shown = all(name is not None and name_key(name) in held for name in names)
    return sequence_sql(options) if is_shown else None


def _check_names(subject: str, options: HistoryOptions, data: Sequence[str]) -> None:
    own = own_columns(options)
    taken = set(map(name_key, own))
    for name in data:
        if name_key(name) in taken or name_key(name).startswith(RESERVED):
            raise InvalidRequest(
                subject,
                f"cannot have the column {name} of its source",
                cause="a column of the history has that name"
                if name_key(name) in taken
                else f"names that begin with {RESERVED} are reserved",
                fix="leave it out with except_column_list, or give the column of the history"
                " another name, such as start_column='valid_from'",
            )
    if alike := first_alike([*data, *own]):
        raise InvalidRequest(
            subject,
            f"cannot have the columns {alike[0]} and {alike[1]}",
            cause="Delta's MERGE treats them as the same column",
            fix="rename one of them, or leave it out with except_column_list",
        )


def check_key_type(subject: str, name: str, kind: str) -> None:
    """Refuse a key column whose values cannot be compared.

    :param kind: its type, as SQL writes it
    :raises InvalidRequest: it is refused
    """
    if not is_key_type(kind):
        raise InvalidRequest(
            subject,
            f"cannot have the key column {name}",
            cause=f"values of type {kind} cannot be compared as a key",
            fix="name other columns in keys",
        )


def check_comparable(subject: str, name: str, kind: str) -> None:
    """Refuse a column whose old and new values cannot be compared.

    :param kind: its type, as SQL writes it
    :raises InvalidRequest: it is refused
    """
    if any(word in kind.lower() for word in _INCOMPARABLE):
        raise InvalidRequest(
            subject,
            f"cannot have the column {name}",
            cause=f"values of type {kind} cannot be compared",
            fix="leave it out with except_column_list, or let a query convert it",
        )
