"""The application that the API server mounts: the page of streams, and the data that it shows.

A mounted application has none of Airflow's authorisation by itself. So every route is on one
router, which requires the right to see plugins; and there are no pages of documentation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response

from .problems import NoAnswer
from .routes import json_response, router

_HEADERS = {
    # Scripts and styles come only from this application. Airflow's UI, on the same origin, shows
    # the page in a frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; frame-ancestors 'self'; base-uri 'none';"
    " form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_application() -> FastAPI:
    """The application, without pages of documentation."""
    app = FastAPI(title="Streams", openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(router)

    @app.exception_handler(NoAnswer)
    def explained(_: Request, error: NoAnswer) -> Response:
        return json_response(error.problem, error.problem.status)

    @app.middleware("http")
    async def secured(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app
