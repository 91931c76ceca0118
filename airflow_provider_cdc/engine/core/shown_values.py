"""Values that callers passed, and addresses, as others may see them."""

from __future__ import annotations

import re

_SHOWN_CHARACTERS = 80
# A container may come before the @ of a store's address, as in abfss://container@account.
_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")
_QUERY = re.compile(r"[?].*", re.DOTALL)


def shown(value: object) -> str:
    """``value`` and its type, shortened, for a message."""
    try:
        text = repr(value)
    except Exception:  # the repr of a user's object may raise anything
        text = "a value"
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}..."
    return text if value is None else f"{text} of type {type(value).__name__}"


def without_credentials(location: str) -> str:
    """``location`` without a password, and without what follows a question mark, which may be a
    token.
    """
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "file":
        return location
    return _QUERY.sub("", _PASSWORD.sub("://", location))
