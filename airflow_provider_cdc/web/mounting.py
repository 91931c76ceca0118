"""What the plugin declares for the page of streams. Importing this module imports no FastAPI,
because every process of Airflow loads the plugins.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_cdc.hooks.streams_page import URL_PREFIX, URL_ROUTE, page_path

NAME = "Streams"


class ApplicationOnDemand:
    """The ``fastapi_apps`` of the plugin: the application is made when the API server asks for it.

    Airflow reads the attribute from the class of a plugin, or from an object of it.
    """

    def __init__(self) -> None:
        self._apps: list[dict[str, Any]] = []

    def __get__(self, plugin: object, kind: type | None = None) -> list[dict[str, Any]]:
        if not self._apps:
            from .application import new_application  # noqa: PLC0415

            app = {"app": new_application(), "url_prefix": URL_PREFIX, "name": NAME}
            self._apps.append(app)
        return self._apps


def external_views() -> list[dict[str, Any]]:
    """The entry of the page in the navigation of Airflow's UI."""
    return [
        {
            "name": NAME,
            "href": page_path(),
            "destination": "nav",
            "category": "browse",
            "url_route": URL_ROUTE,
        }
    ]
