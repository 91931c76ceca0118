"""What the paths of files show: which files count, and the columns in the names of folders."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import quote, unquote

from ..errors import InvalidRequest
from ..names import name_key

_NULL = "__HIVE_DEFAULT_PARTITION__"
_BEING_COPIED = "._COPYING_"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = re.compile(r"/(?!/)|file:")
_ROOT = re.compile(r"/+")
# The characters that java.net.URI does not encode: these of ASCII, and all others except those of
# these categories.
_PLAIN = re.compile(r"[A-Za-z0-9_\-!.~'()*,;:$&+=@/]*")
_NEVER_PLAIN = ("Cc", "Zs", "Zl", "Zp")
_GLOB_TOKEN = re.compile(r"\\(?P<literal>.)|\[(?P<not>[!^]?)(?P<range>\]?[^]]*)\]|.", re.DOTALL)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name does not count, by Spark's rules.

    Writers use such names for files that are not finished.
    """
    if name.startswith("_") and "=" not in name:
        return True
    return name.startswith(".") or name.endswith(_BEING_COPIED)


def partition_values(path: str) -> dict[str, str | None]:
    """The values in the ``key=value`` folders of a relative ``path``.

    They are by the ``name_key`` of each key.
    """
    values: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        key, separator, value = folder.partition("=")
        if key and separator:
            plain = unquote(value)
            values[name_key(unquote(key))] = None if plain in ("", _NULL) else plain
    return values


def path_key(uri: str) -> str:
    """``uri`` in one form: a local URI becomes a path."""
    return re.sub("^file:/+", "/", uri)


def name_pattern(glob: str) -> re.Pattern[str]:
    """A Hadoop glob of file names (``*``, ``?``, ``[a-z]``, ``{a,b}``) as a regular expression.

    :raises InvalidRequest: ``glob`` is not a valid pattern
    """
    parts = [_translated(match) for match in _GLOB_TOKEN.finditer(glob)]
    depth = 0
    for index, part in enumerate(parts):
        depth += (part == "(?:") - (part == ")")
        if part == "," and depth:
            parts[index] = "|"
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise InvalidRequest(
            f"glob {glob!r}",
            "is not a pattern of file names",
            cause=str(error),
            fix="write it like *.csv or {a,b}-[0-9]*.json",
        ) from None


def folder_uri(text: str) -> str:
    """The folder that ``text`` names, without redundant parts.

    :raises InvalidRequest: ``text`` is neither an absolute path nor the URI of a folder
    """
    found = text.strip()
    if _LOCAL.match(found):
        path = "/" + posixpath.normpath(found.removeprefix("file:")).lstrip("/")
        if found.removeprefix("file:").startswith("/") and not _ROOT.fullmatch(path):
            return path
    else:
        match = _SCHEME.fullmatch(found)
        if match and re.match(r"//[^/]+", match[2]):
            return found.rstrip("/")
    raise InvalidRequest(
        f"folder {text!r}",
        "is not a folder that a stream can be on",
        cause="expected an absolute path below the root, or a URI with a scheme and a bucket or"
        " host",
        fix="name it like /data/in or s3a://bucket/in",
    )


def uri_as_spark_shows(path: str) -> str:
    """The URI in the column ``_metadata.file_path`` of the rows of a file.

    Spark encodes it as Java does, which keeps letters of all scripts.

    :param path: an absolute path or a URI, as it is given to Spark
    """
    encoded = path if _PLAIN.fullmatch(path) else "".join(map(_encoded, path))
    return f"file:{encoded}" if path.startswith("/") else encoded


def location_key(uri: str, aliases: Mapping[str, str]) -> str:
    """One key for all spellings of a location.

    Spellings may differ in three ways: a path or a URI, the name of the store's scheme, and a slash
    at the end.

    :param aliases: the schemes that are other names of one store
    """
    if not uri.startswith("/"):
        scheme, colon, rest = uri.partition(":")
        uri = path_key(f"{aliases.get(scheme, scheme)}{colon}{rest}")
    if uri.startswith("/"):
        return "/" + posixpath.normpath(uri).lstrip("/")
    return uri.rstrip("/")


def folder_key(uri: str, name_glob: str | None, aliases: Mapping[str, str]) -> str:
    """One key for all spellings of one folder and one glob.

    :param uri: the result of :func:`folder_uri`
    :param aliases: the schemes that are other names of one store
    """
    return f"{location_key(uri, aliases)}\n{name_glob or ''}"


def _encoded(character: str) -> str:
    if character.isascii():
        is_kept = _PLAIN.fullmatch(character) is not None
    else:
        is_kept = unicodedata.category(character) not in _NEVER_PLAIN
    return character if is_kept else quote(character, safe="")


def _translated(match: re.Match[str]) -> str:
    if match["literal"] is not None:
        return re.escape(match["literal"])
    if match["range"] is not None:
        characters = match["range"].replace("\\", r"\\")
        return f"[{'^' if match['not'] else ''}{characters}]"
    known = {"*": ".*", "?": ".", "{": "(?:", "}": ")", ",": ","}
    return known.get(match[0], re.escape(match[0]))
