"""The headers of CSV files, read from the first bytes of each file."""

from __future__ import annotations

import bz2
import codecs
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import IO, cast

from ...core.folders.csv_headers import HeaderStyle, header_of
from .stores import Files, each

_BYTES_AT_ONCE = 1 << 16
# Hadoop chooses the codec by the suffix of the name. Hadoop's other codecs use their own formats.
_OPENED: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda file: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    ".bz2": lambda file: cast(IO[bytes], bz2.BZ2File(file)),
}
_OF_HADOOP = (".deflate", ".lz4", ".snappy", ".zst", ".zstd")
# Java reads a text without a byte order mark as big-endian.
_ENCODINGS = {"utf8": "utf-8-sig", "utf16": "utf-16-be", "utf32": "utf-32-be"}
_MARKED = {"utf16": codecs.BOM_UTF16_LE, "utf32": codecs.BOM_UTF32_LE}


class BrokenHead(Exception):
    """The beginning of a file cannot be read; ``uri`` is the file, ``reason`` the cause."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(uri, reason)


def heads(files: Files, uris: Iterable[str], style: HeaderStyle) -> dict[str, str]:
    """The header of each file. Several files are read at once. Files that only Hadoop can open are
    left out.

    :raises FileNotFoundError: one of them does not exist
    :raises BrokenHead: one of them cannot be read
    """

    def head(uri: str) -> str:
        try:
            with files.opened(uri, _BYTES_AT_ONCE) as file:
                return _head(_plain(uri, file), style)
        except FileNotFoundError:
            raise
        except (OSError, EOFError, zlib.error, LookupError) as error:
            raise BrokenHead(uri, str(error)) from error

    return each(head, (uri for uri in uris if not uri.endswith(_OF_HADOOP)))


def _head(file: IO[bytes], style: HeaderStyle) -> str:
    content = b""
    while True:
        chunk = file.read(_BYTES_AT_ONCE)
        content += chunk
        decoder = codecs.getincrementaldecoder(_encoding(content, style))(errors="replace")
        text = decoder.decode(content, not chunk)
        found = header_of(text.removeprefix("\ufeff"), style, is_whole=not chunk)
        if found is not None:
            return found


def _plain(uri: str, file: IO[bytes]) -> IO[bytes]:
    opened = [codec for end, codec in _OPENED.items() if uri.endswith(end)]
    return opened[0](file) if opened else file


def _encoding(content: bytes, style: HeaderStyle) -> str:
    name = style.encoding.lower().replace("-", "")
    found = _ENCODINGS.get(name, style.encoding)
    is_marked = name in _MARKED and content.startswith(_MARKED[name])
    return found.replace("-be", "-le") if is_marked else found
