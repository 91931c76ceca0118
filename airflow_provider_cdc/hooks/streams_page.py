"""Addresses of the page of streams in Airflow's UI."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf

URL_PREFIX = "/cdc"
"""The path below which the API server mounts the application of the page."""

URL_ROUTE = "cdc-streams"
"""The name of the page in the paths of Airflow's UI."""


def base_path() -> str:
    """The path of Airflow's UI, without a slash at its end: empty, or such as ``/airflow``."""
    return urlsplit(conf.get("api", "base_url", fallback="/")).path.rstrip("/")


def page_path() -> str:
    """The path of the page itself, which Airflow's UI shows in a frame."""
    return f"{base_path()}{URL_PREFIX}/"


def address_in_airflow(conn_id: str, stream: str | None = None) -> str:
    """The path of the page within Airflow's UI.

    :param stream: the stream to show; ``None``: all of them
    """
    query = {"connection": conn_id} | ({} if stream is None else {"stream": stream})
    return f"{base_path()}/plugin/{URL_ROUTE}{page_path()}?{urlencode(query)}"
