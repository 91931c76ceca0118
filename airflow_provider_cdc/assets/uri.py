"""The URIs of assets: ``cdc://<connection>/<stream>``, ``cdc://<connection>/<stream>/consumptions``,
``cdc://<connection>/change-streams/<change stream>`` and
``cdc://<connection>/upsert-tables/<table>``.
"""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote

from airflow_provider_cdc.engine.core.errors import InvalidName, InvalidRequest
from airflow_provider_cdc.engine.core.names import stream_key, stream_name, table_name
from airflow_provider_cdc.engine.core.shown_values import shown

CONSUMPTIONS = "consumptions"
# A stream cannot have these names.
CHANGE_STREAMS = "change-streams"
UPSERT_TABLES = "upsert-tables"
# Airflow limits, in characters, the name and the URI of an asset, and the id of a connection.
_LONGEST = 1500
_LONGEST_ID = 250
_FORM = (
    "expected cdc://connection/stream, cdc://connection/stream/consumptions,"
    " cdc://connection/change-streams/name or cdc://connection/upsert-tables/table"
)


def stream_uri(stream: str, conn_id: str) -> str:
    """Return the URI of a stream. Two spellings of one name have the same URI.

    :raises InvalidName: ``stream`` is not the name of a stream
    :raises InvalidRequest: ``conn_id`` cannot be the id of a connection
    """
    return f"cdc://{_host(conn_id)}/{_segment(stream)}"


def consumptions_uri(stream: str, conn_id: str) -> str:
    """Return the URI of the consumptions of a stream.

    :raises InvalidName: ``stream`` is not the name of a stream
    :raises InvalidRequest: ``conn_id`` cannot be the id of a connection
    """
    return f"{stream_uri(stream, conn_id)}/{CONSUMPTIONS}"


def change_stream_uri(change_stream: str, conn_id: str) -> str:
    """Return the URI of a change stream. Two spellings of one name have the same URI.

    :raises InvalidName: ``change_stream`` is not the name of a change stream
    :raises InvalidRequest: ``conn_id`` cannot be the id of a connection
    """
    return f"cdc://{_host(conn_id)}/{CHANGE_STREAMS}/{_segment(change_stream)}"


def upsert_table_uri(table: str, conn_id: str) -> str:
    """Return the URI of an upsert table, by the name or path that it was created with.

    :raises InvalidName: ``table`` does not name a table, or is too long for an asset
    :raises InvalidRequest: ``conn_id`` cannot be the id of a connection
    """
    table_name(table)
    uri = f"cdc://{_host(conn_id)}/{UPSERT_TABLES}/{quote(table, safe='')}"
    if len(uri) > _LONGEST:
        raise InvalidName(
            f"table name {shown(table)}",
            "is too long for an asset",
            cause=f"expected a URI of at most {_LONGEST} characters, found {len(uri)}",
            fix="give the table a shorter name or path",
        )
    return uri


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return ``uri`` in the form that Airflow stores.

    Airflow calls this function for URIs with the scheme ``cdc``.

    :raises ValueError: it does not name a stream, a change stream or an upsert table of a
        connection
    """
    parts = uri.path.removeprefix("/").split("/")
    try:
        path = _path(parts) if uri.netloc and not uri.query else None
    except InvalidName as error:
        raise ValueError(f"asset URI {uri.geturl()}: {error} {_FORM}.") from error
    if path is None:
        raise ValueError(f"asset URI {uri.geturl()}: does not name a stream. {_FORM}.")
    return uri._replace(path=path)


def _path(parts: list[str]) -> str | None:
    """The path of a URI in the form that Airflow stores; ``None``: it has another form.

    :raises InvalidName: it has the name of a stream that is not valid
    """
    match parts:
        case [kind, table] if kind == UPSERT_TABLES and table:
            return f"/{UPSERT_TABLES}/{quote(unquote(table), safe='')}"
        case [kind, name] if kind == CHANGE_STREAMS:
            return f"/{CHANGE_STREAMS}/{_segment(unquote(name))}"
        case [stream]:
            return f"/{_segment(unquote(stream))}"
        case [stream, last] if last == CONSUMPTIONS:
            return f"/{_segment(unquote(stream))}/{CONSUMPTIONS}"
    return None


def _host(conn_id: str) -> str:
    if not conn_id.strip() or len(conn_id) > _LONGEST_ID:
        raise InvalidRequest(
            f"connection id {shown(conn_id)}",
            "cannot be the id of a connection",
            cause=f"expected 1 to {_LONGEST_ID} characters, found {len(conn_id.strip())}",
            fix="pass the id of an Airflow connection of type cdc",
        )
    return quote(conn_id, safe="")


def _segment(stream: str) -> str:
    return quote(stream_key(stream_name(stream)), safe="")
