"""The first line of a CSV file, which maps the file's columns to the stream's columns.

Spark takes the columns of a file by position and ignores the names in its header. A later file may
have them in another order. So a stream takes them by name, as in Parquet and JSON files: an extra
column is not read, and a missing column is NULL. If some names are missing and others are extra,
the line is not a header, or is misspelt. Then the stream refuses the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..names import name_key
from .file_options import is_multi_line, option

# The characters that Java's String.trim removes.
_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class HeaderStyle:
    """How to find a header in a text, by the options of Spark's reader."""

    is_multi_line: bool
    line_separators: tuple[str, ...]
    comment: str | None
    quote: str
    encoding: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> HeaderStyle:
        """The style that the reader's ``options`` define."""

        def given(*names: str) -> str | None:
            return next((found for name in names if (found := option(options, name))), None)

        separator = given("lineSep")
        comment = given("comment")
        return cls(
            is_multi_line(options),
            (separator,) if separator else ("\r\n", "\n", "\r"),
            comment if comment and len(comment) == 1 else None,
            '"' if option(options, "quote") is None else str(option(options, "quote")),
            given("encoding", "charset") or "UTF-8",
        )


def header_of(text: str, style: HeaderStyle, *, is_whole: bool) -> str | None:
    """The header at the beginning of a file. ``None`` if ``text`` does not hold all of it.

    :param text: the beginning of the file
    :param is_whole: ``text`` is the whole file; if it has no header, the result is empty
    """
    rest = text
    while rest:
        line, ended = _line(rest, style)
        if not ended and not is_whole:
            return None
        if not _is_passed_over(line, style):
            break
        rest = rest[len(line) + len(ended) :]
    record = ""
    while rest:
        line, ended = _line(rest, style)
        if not ended and not is_whole:
            return None
        record += line
        rest = rest[len(line) + len(ended) :]
        if not style.is_multi_line or not style.quote or record.count(style.quote) % 2 == 0:
            return record
        record += ended
    return record if is_whole else None


def column_names(found: Sequence[str | None]) -> tuple[str, ...]:
    """The column names of a header, as Spark infers them.

    A name that is empty or appears twice gets its position added.
    """
    lowered = [name_key(name or "") for name in found]
    names = []
    for place, name in enumerate(found):
        if not name:
            names.append(f"_c{place}")
        elif lowered.count(name_key(name)) > 1:
            names.append(f"{name}{place}")
        else:
            names.append(name)
    return tuple(names)


def header_fault(header: Sequence[str], columns: Collection[str], besides: Collection[str]) -> str:
    """What is wrong with a ``header``. Empty if the header identifies the columns.

    :param columns: the names of the columns that are read from files
    :param besides: the other names that the header may have
    """
    there = {name_key(name) for name in header}
    known = {name_key(name) for name in (*columns, *besides)}
    missing = [name for name in columns if name_key(name) not in there]
    unknown = [name for name in header if name_key(name) not in known]
    if not missing or not unknown:
        return ""
    return (
        f"expected the columns {', '.join(columns)}, found the header {', '.join(header)}:"
        f" it lacks {', '.join(missing)} and has {', '.join(unknown)} instead"
    )


def _line(text: str, style: HeaderStyle) -> tuple[str, str]:
    """The first line of ``text``, and its line ending.

    The ending is empty if the line may continue.
    """
    ends = [(place, end) for end in style.line_separators if (place := text.find(end)) >= 0]
    if not ends:
        return text, ""
    place, end = min(ends, key=lambda found: (found[0], -len(found[1])))
    return text[:place], end


def _is_passed_over(line: str, style: HeaderStyle) -> bool:
    """Whether Spark skips ``line`` and searches for the header after it."""
    begin = line if style.is_multi_line else line.strip(_BLANKS)
    return not begin or (style.comment is not None and begin.startswith(style.comment))
