"""Values that callers passed, as messages show them."""

from __future__ import annotations

_SHOWN_CHARACTERS = 80


def shown(value: object) -> str:
    """``value`` and its type, shortened, for a message."""
    try:
        text = repr(value)
    except Exception:  # the repr of a user's object may raise anything
        text = "a value"
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}..."
    return text if value is None else f"{text} of type {type(value).__name__}"
