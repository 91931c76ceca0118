"""The URIs of assets: ``cdc://<connection>/<stream>``, and ``.../consumptions`` below it."""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote

from airflow_provider_cdc.engine.core.errors import InvalidName
from airflow_provider_cdc.engine.core.names import stream_key, stream_name

CONSUMPTIONS = "consumptions"
_FORM = "expected cdc://connection/stream or cdc://connection/stream/consumptions"


def stream_uri(stream: str, conn_id: str) -> str:
    """The URI of a stream; two spellings of one name have one.

    :raises InvalidName: ``stream`` is not the name of a stream
    """
    return f"cdc://{quote(conn_id, safe='')}/{_segment(stream)}"


def consumptions_uri(stream: str, conn_id: str) -> str:
    """The URI of what became of a stream's changes; raises as :func:`stream_uri`."""
    return f"{stream_uri(stream, conn_id)}/{CONSUMPTIONS}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """``uri`` as Airflow is to keep it; what is registered for the scheme ``cdc``.

    :raises ValueError: it names no stream of a connection
    """
    stream, *rest = uri.path.removeprefix("/").split("/")
    if not uri.netloc or uri.query or rest not in ([], [CONSUMPTIONS]):
        raise ValueError(f"asset URI {uri.geturl()}: names no stream. {_FORM}.")
    try:
        path = "/".join(["", _segment(unquote(stream)), *rest])
    except InvalidName as error:
        raise ValueError(f"asset URI {uri.geturl()}: {error} {_FORM}.") from error
    return uri._replace(path=path)


def _segment(stream: str) -> str:
    return quote(stream_key(stream_name(stream)), safe="")
