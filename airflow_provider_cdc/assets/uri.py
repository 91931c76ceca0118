"""The URIs of assets: ``cdc://<connection>/<stream>``, ``.../consumptions`` below it, and
``cdc://<connection>/upsert-tables/<table>``.
"""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote

from airflow_provider_cdc.engine.core.errors import InvalidName
from airflow_provider_cdc.engine.core.names import stream_key, stream_name

CONSUMPTIONS = "consumptions"
# No stream can have that name.
UPSERT_TABLES = "upsert-tables"
_FORM = (
    "expected cdc://connection/stream, cdc://connection/stream/consumptions or"
    " cdc://connection/upsert-tables/table"
)


def stream_uri(stream: str, conn_id: str) -> str:
    """The URI of a stream; two spellings of one name have the same URI.

    :raises InvalidName: ``stream`` is not the name of a stream
    """
    return f"cdc://{quote(conn_id, safe='')}/{_segment(stream)}"


def consumptions_uri(stream: str, conn_id: str) -> str:
    """The URI of a stream's consumptions; raises as :func:`stream_uri`."""
    return f"{stream_uri(stream, conn_id)}/{CONSUMPTIONS}"


def upsert_table_uri(table: str, conn_id: str) -> str:
    """The URI of an upsert table, by the name or path that it was created with."""
    return f"cdc://{quote(conn_id, safe='')}/{UPSERT_TABLES}/{quote(table, safe='')}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """``uri`` in the form that Airflow keeps; this function is registered for the scheme ``cdc``.

    :raises ValueError: it names no stream of a connection
    """
    stream, *rest = uri.path.removeprefix("/").split("/")
    if stream == UPSERT_TABLES and uri.netloc and not uri.query and len(rest) == 1 and rest[0]:
        return uri._replace(path=f"/{UPSERT_TABLES}/{quote(unquote(rest[0]), safe='')}")
    if not uri.netloc or uri.query or rest not in ([], [CONSUMPTIONS]):
        raise ValueError(f"asset URI {uri.geturl()}: names no stream. {_FORM}.")
    try:
        path = "/".join(["", _segment(unquote(stream)), *rest])
    except InvalidName as error:
        raise ValueError(f"asset URI {uri.geturl()}: {error} {_FORM}.") from error
    return uri._replace(path=path)


def _segment(stream: str) -> str:
    return quote(stream_key(stream_name(stream)), safe="")
