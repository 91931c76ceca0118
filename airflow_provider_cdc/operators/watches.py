"""Parse what a DAG author writes to watch tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_cdc.engine.core.arguments.validation import check_argument
from airflow_provider_cdc.engine.core.change_streams.watches import ALL, Columns, Watch
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.shown_values import shown


def watches_of(subject: str, given: object) -> dict[str, Watch]:
    """The watches of tables by their names.

    :param subject: the change stream, for messages
    :param given: for each table a ``Watch``, or a mapping with ``keys`` and ``columns``
    :raises InvalidRequest: one of them has another form
    """
    if not isinstance(given, Mapping):
        raise _malformed(subject, given)
    return {_name(subject, table): _watch(subject, watch) for table, watch in given.items()}


def _name(subject: str, table: object) -> str:
    if not isinstance(table, str):
        raise _malformed(subject, table)
    check_argument(f"tables of {subject}", table, str)
    return table


def _watch(subject: str, given: object) -> Watch:
    fields: Mapping[str, Any] = {}
    if isinstance(given, Watch):
        fields = {"keys": given.keys, "columns": given.columns}
    elif isinstance(given, Mapping) and set(given) <= {"keys", "columns"}:
        fields = given
    else:
        raise _malformed(subject, given)
    keys, columns = fields.get("keys", ()), fields.get("columns", ALL)
    check_argument(f"keys of {subject}", keys, Sequence[str])
    check_argument(f"columns of {subject}", columns, Columns | str | Sequence[str])
    return Watch(tuple(keys), columns if isinstance(columns, str) else tuple(columns))


def _malformed(subject: str, given: object) -> InvalidRequest:
    return InvalidRequest(
        subject,
        "cannot watch these tables",
        cause=f"found {shown(given)}",
        fix='write tables={"lake.accounts": {"keys": ["id"], "columns": ["balance"]}}',
    )
