"""The position of a change in the log of its database, which orders the changes of a row.

A row is locked until its transaction ends. So the changes of one row have the order of their
positions, also where transactions run at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The position of one kind of connector.

    :param connectors: the values of ``source.connector``
    :param fields: the fields of ``source`` that it needs
    :param sequence: the position, as SQL over the envelope
    :param sections: the sections of the position as a sequence number of an upsert table, each as
        SQL of a hexadecimal number
    """

    connectors: tuple[str, ...]
    fields: tuple[str, ...]
    sequence: str
    sections: tuple[str, ...]

    @property
    def sequence_number(self) -> str:
        """The position as a sequence number of an upsert table, as SQL. NULL: it is not known."""
        return " || '/' || ".join(self.sections)


def _number(field: str) -> str:
    return f"try_cast(source.{field} AS BIGINT)"


# Binary logs have growing numbers. As text, 1000000 comes before 999999.
_BINARY_LOG = "try_cast(regexp_extract(source.file, '[0-9]+$', 0) AS BIGINT)"
# A number of a log has the form 00000025:00000448:0003. The rows of a snapshot have no change_lsn.
_CHANGE_LSN = "coalesce(source.change_lsn, '00000000:00000000:0000')"
_SERIAL = f"coalesce({_number('event_serial_no')}, 0)"
_SSN = f"coalesce({_number('ssn')}, 0)"
_POSITIONS = (
    Position(("postgresql",), ("lsn",), _number("lsn"), (f"hex({_number('lsn')})",)),
    Position(
        ("mysql", "mariadb"),
        ("file", "pos", "row"),
        f"struct({_BINARY_LOG} AS file, {_number('pos')} AS pos, {_number('`row`')} AS `row`)",
        (f"hex({_BINARY_LOG})", f"hex({_number('pos')})", f"hex({_number('`row`')})"),
    ),
    Position(
        ("oracle",),
        ("scn", "ssn"),
        f"struct(try_cast(source.scn AS DECIMAL(38, 0)) AS scn, {_SSN} AS ssn)",
        (f"hex({_number('scn')})", f"hex({_SSN})"),
    ),
    Position(
        ("sqlserver",),
        ("commit_lsn", "change_lsn", "event_serial_no"),
        f"struct(source.commit_lsn AS commit_lsn, {_CHANGE_LSN} AS change_lsn,"
        f" {_SERIAL} AS event_serial_no)",
        (
            "replace(substr(source.commit_lsn, 1, 17), ':', '')",
            f"substr(source.commit_lsn, 19, 4) || substr({_CHANGE_LSN}, 1, 8)",
            f"replace(substr({_CHANGE_LSN}, 10), ':', '')",
            f"hex({_SERIAL})",
        ),
    ),
)


def position_of(connectors: Collection[str]) -> Position | None:
    """The position of the connectors that wrote the messages; ``None``: it is not known, or they
    have positions of several kinds.
    """
    found = [each for each in _POSITIONS if set(connectors) & set(each.connectors)]
    if len(found) != 1 or not set(connectors) <= set(found[0].connectors):
        return None
    return found[0]


def position_with(fields: Iterable[str]) -> Position | None:
    """The position that a ``source`` with these fields has; ``None``: it has none."""
    held = set(fields)
    return next((each for each in _POSITIONS if set(each.fields) <= held), None)
