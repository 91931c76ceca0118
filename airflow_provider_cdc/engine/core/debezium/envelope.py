"""Debezium's envelope: what a message says about one row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import md5
from uuid import UUID

from ..arguments.choices import parse_enum
from ..arguments.expressions import check_expression
from ..errors import InvalidRequest
from ..names import text_value

BEFORE, AFTER, OP, SOURCE, MOMENT = "before", "after", "op", "source", "ts_ms"
"""The fields of an envelope."""
FIELDS = (BEFORE, AFTER, OP, SOURCE, MOMENT)
PAYLOAD, VALUE = "payload", "value"
"""The field of a message that holds its envelope, if the message has a schema too. The column of a
table that holds messages as JSON.
"""
UNAVAILABLE = "__debezium_unavailable_value"
"""What a message has in the place of a value that the database did not write to its log."""

CHANGE, POSITION, FAULT = "_cdc_change", "_cdc_position", "_cdc_fault"
"""The columns of decoded rows: one of :class:`Op`, what orders the changes, and why a message
cannot be used.
"""

BAD = "CDC_VALUE: "
"""How the error begins that ends a job if a value in a message is not one of its type."""

SOURCE_TYPE = (
    "STRUCT<version STRING, connector STRING, name STRING, ts_ms BIGINT, ts_us BIGINT,"
    " ts_ns BIGINT, snapshot STRING, db STRING, sequence STRING, schema STRING, `table` STRING,"
    " txId STRING, lsn BIGINT, xmin BIGINT, server_id BIGINT, gtid STRING, file STRING, pos BIGINT,"
    " `row` BIGINT, thread BIGINT, query STRING, scn STRING, commit_scn STRING, ssn BIGINT,"
    " change_lsn STRING, commit_lsn STRING, event_serial_no BIGINT>"
)
"""The fields of ``source`` that messages in JSON can have, of all connectors for SQL databases."""


class Payload(StrEnum):
    """What the rows of a source hold: messages of Debezium."""

    DEBEZIUM = "debezium"


class Op(StrEnum):
    """What happened to a row, as Debezium writes it."""

    CREATE = "c"
    READ = "r"
    """A snapshot read the row."""
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    MESSAGE = "m"
    """Somebody wrote a message into the log of the database. It is about no row."""


UPSERTS = (Op.CREATE, Op.READ, Op.UPDATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadOptions:
    """How messages are read.

    :param sequence: an SQL expression over the envelope that orders the changes of a key; ``None``:
        the position in the log of the database
    :param unavailable_value: the placeholder of values that did not change
    """

    sequence: str | None = None
    unavailable_value: str = UNAVAILABLE


def payload_options(
    subject: str, payload: str | None, sequence_by: str | None, unavailable_value: str
) -> PayloadOptions | None:
    """How the messages in the rows of a caller are read; ``None``: the rows are no messages.

    :raises InvalidRequest: there is no such payload, or the other arguments are given without one
    """
    if payload is not None:
        parse_enum(subject, "payload", Payload, payload)
        if sequence_by is not None:
            check_expression(subject, "sequence_by", sequence_by)
        return PayloadOptions(sequence=sequence_by, unavailable_value=unavailable_value)
    if sequence_by is None and unavailable_value == UNAVAILABLE:
        return None
    argument = "unavailable_value" if sequence_by is None else "sequence_by"
    raise InvalidRequest(
        subject,
        f"cannot have this {argument}",
        cause="it is for payload='debezium'",
        fix=f"leave {argument} out",
    )


def is_unavailable(column: str, kind: str, placeholder: str) -> str | None:
    """The condition that a column holds the placeholder, as SQL; ``None``: its type cannot hold it.

    In an array of numbers, the placeholder is its bytes. In an array of UUIDs, it is the UUID that
    Java makes of its bytes.

    :param column: the column, as SQL
    :param kind: its type, as SQL writes it
    """
    text, octets = text_value(placeholder), placeholder.encode()
    numbers = ", ".join(map(str, octets))
    uuid = UUID(bytes=md5(octets, usedforsecurity=False).digest(), version=3)
    forms: Mapping[str, tuple[str, ...]] = {
        "string": (text,),
        "binary": (f"CAST({text} AS BINARY)",),
        "array<string>": (f"array({text})", f"array('{uuid}')"),
        "array<binary>": (f"array(CAST({text} AS BINARY))",),
        "array<int>": (f"array({numbers})",),
        "array<bigint>": (f"array({numbers})",),
    }
    found = " OR ".join(f"{column} = {form}" for form in forms.get(kind.lower(), ()))
    return f"coalesce({found}, false)" if found else None
