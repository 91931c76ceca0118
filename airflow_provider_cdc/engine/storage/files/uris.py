"""The forms of a file's address: what users write, what Delta's logs hold, what opens the file."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote, unquote, urlsplit

from ...core.delta.file_paths import location_key

# Hadoop's schemes for stores that fsspec knows under another name.
SCHEMES = {"s3a": "s3", "s3n": "s3", "wasbs": "abfs", "wasb": "abfs", "abfss": "abfs"}

_ENCODED = ("Zs", "Zl", "Zp", "Cc")


def store_key(location: str) -> str:
    """A key that all spellings of one location share, such as other schemes of a store or an extra
    slash.
    """
    return location_key(location, SCHEMES)


def join(folder: str, *names: str) -> str:
    """The URI of a file or folder below ``folder``."""
    return "/".join((folder.rstrip("/"), *names))


def encoded_uri(location: str) -> str:
    """``location`` as a percent-encoded URI with a scheme, as in the actions of a Delta log."""
    if location.startswith("/"):
        return "file://" + quote(location)
    scheme, _, rest = location.partition(":")
    path = rest if rest.startswith("//") else "//" + rest
    return f"{scheme}:{quote(path, safe='/@:')}"


def absolute_path(location: str, path: str) -> str:
    """The percent-encoded absolute form of a ``path`` in an action of a log."""
    if urlsplit(path).scheme:
        return path
    if path.startswith("/"):
        return "file://" + path
    return join(encoded_uri(location), path)


def plain_uri(encoded: str) -> str:
    """The URI that opens a file, from its percent-encoded path in an action."""
    return unquote(encoded)


def hadoop_uri(encoded: str) -> str:
    """The form in which Hadoop writes the percent-encoded absolute path ``encoded``.

    Delta's DELETE with deletion vectors finds a file by its path, compared as text.
    """
    scheme, _, rest = plain_uri(encoded).partition(":")
    path = rest[2:] if rest.startswith("///") else rest
    return f"{scheme}:{''.join(map(_as_in_java, path))}"


def _as_in_java(character: str) -> str:
    """Encode like ``java.net.URI``: letters outside ASCII stay as they are."""
    is_kept = not character.isascii() and unicodedata.category(character) not in _ENCODED
    return character if is_kept else quote(character, safe="/;:@&=+$,!'()*")
