"""The names that a user gives to streams, consumers and tables, checked when they come in.

The engine quotes every name that it puts into SQL.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from .errors import InvalidName
from .shown_values import shown

STREAM_NAME_MAX_CHARACTERS = 255
CONSUMER_NAME_MAX_CHARACTERS = 250
TABLE_NAME_MAX_PARTS = 3

_PATH = re.compile(r"/.*|[A-Za-z][A-Za-z0-9+.-]*:/.*", re.DOTALL)
_ROOT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/*")
_PART = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[^.`]*))\s*")


def quote(identifier: str) -> str:
    """``identifier`` between backticks, with the backticks inside it doubled."""
    return "`" + identifier.replace("`", "``") + "`"


def spark_literal(text: str) -> str:
    """``text`` as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def text_value(text: str) -> str:
    """``text`` as an expression of Spark SQL that has the same value in every session.

    Sessions differ in how they read a backslash, which a quote needs. They also differ in whether
    they replace ``${name}`` by the value of a setting.
    """
    if any(sign in text for sign in "'\\$"):
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    return spark_literal(text)


def moment_sql(moment: datetime) -> str:
    """A moment as an expression of Spark SQL, independent of the session's time zone."""
    return f"TIMESTAMP_LTZ '{moment.isoformat()}'"


def stream_name(text: object) -> str:
    """``text`` as the name of a stream: one identifier of at most 255 characters.

    An identifier consists of Unicode letters, digits and underscores, and does not start with a
    digit. This is the definition of the Unicode standard, so marks inside words of any script count
    as letters.

    :raises InvalidName: ``text`` is not such a name
    """
    if isinstance(text, str) and text.isidentifier() and len(text) <= STREAM_NAME_MAX_CHARACTERS:
        return text
    raise InvalidName(
        f"stream name {shown(text)}",
        "is not a valid name",
        cause="expected letters, digits and underscores, no digit first, at most "
        f"{STREAM_NAME_MAX_CHARACTERS} characters; found {_stream_name_fault(text)}",
        fix="choose a name such as flights_changes",
    )


def name_key(name: str) -> str:
    """The form that all spellings of one name share in Spark and Delta.

    It applies to names of columns, tables, views, functions and options. Spark and Delta compare
    names in lower case (Java's ``toLowerCase(Locale.ROOT)``). So ``maß`` and ``MAß`` are one name.
    ``maß`` and ``mass`` are two names, and ``İ`` and ``i`` are two names.
    """
    return name.lower()


def free_name(name: str, taken: Collection[str]) -> str:
    """``name``, with a number after it if another name is the same.

    :param taken: the :func:`name_key` of each other name
    """
    found, number = name, 1
    while name_key(found) in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def loose_key(name: str) -> str:
    """The form that two names share if Spark treats them as one name in some places.

    :func:`name_key` distinguishes such names. The places are fields of a struct, the columns that
    an UPDATE or a MERGE sets, and common table expressions. There Spark compares character by
    character (Java's ``equalsIgnoreCase``), in lower and in upper case. A long s is an s, a final
    sigma is a sigma, and a dotted capital I, a dotless small one and an i are one letter.
    """
    return "".join(map(_either_case, name))


def first_alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two of ``names`` that Spark treats as one name in some places.

    ``None``: there is no such pair.
    """
    found: dict[str, str] = {}
    for name in names:
        earlier = found.setdefault(loose_key(name), name)
        if earlier != name:
            return earlier, name
    return None


def stream_key(name: str) -> str:
    """The form that all spellings of one stream name share, as for any name in Spark SQL."""
    return name_key(name)


def consumer_name(text: object) -> str:
    """``text`` as the identity of a consumer: 1 to 250 printable characters.

    :raises InvalidName: it is empty, too long, or holds a character that cannot be printed
    """
    if not isinstance(text, str):
        found = "no text"
    elif text.strip() and len(text) <= CONSUMER_NAME_MAX_CHARACTERS and text.isprintable():
        return text
    else:
        are_printable = "all" if text.isprintable() else "not all"
        found = f"{len(text)} characters, {are_printable} printable"
    raise InvalidName(
        f"consumer name {shown(text)}",
        "is not a valid name",
        cause=f"expected 1 to {CONSUMER_NAME_MAX_CHARACTERS} printable characters, found {found}",
        fix="choose a name such as my_dag.my_task",
    )


@dataclass(frozen=True, slots=True)
class TableName:
    """The user's name of a table: the 1 to 3 ``parts`` of a catalog name, or the ``path`` of a
    Delta table.

    A name with a path has no parts.
    """

    parts: tuple[str, ...] = ()
    path: str | None = None

    @property
    def is_path(self) -> bool:
        """Whether the table is named by its path and not in a catalog."""
        return self.path is not None

    @property
    def sql(self) -> str:
        """The name for a SQL text, with every part quoted."""
        if self.path is not None:
            return f"delta.{quote(self.path)}"
        return ".".join(quote(part) for part in self.parts)


def table_name(text: object) -> TableName:
    """The table that ``text`` names.

    ``text`` is an absolute path (``/data/t``, ``s3://bucket/t``, ``file:/data/t``), the same path
    as ``delta.`/data/t```, or a catalog name of 1 to 3 parts with dots between them. A part may be
    in backticks. An unquoted part may hold anything except dots and backticks. A relative path does
    not count as a path.

    :raises InvalidName: ``text`` is not one of these
    """
    if not isinstance(text, str):
        raise _invalid_table(text, "found a value that is not text")
    stripped = text.strip()
    if _PATH.fullmatch(stripped):
        return _path_name(stripped)
    return qualified_name(split_name(stripped))


def qualified_name(parts: tuple[str, ...]) -> TableName:
    """The table that the ``parts`` of an identifier name. The parts have no quotes.

    :raises InvalidName: there are no parts or more than 3, or one is empty or holds a control
        character
    """
    if tuple(map(name_key, parts[:-1])) == ("delta",) and _PATH.fullmatch(parts[-1]):
        return _path_name(parts[-1])
    shown = ".".join(parts)
    if not 1 <= len(parts) <= TABLE_NAME_MAX_PARTS:
        raise _invalid_table(shown, f"found {len(parts)} parts")
    if "" in parts:
        raise _invalid_table(shown, "found an empty part")
    for part in parts:
        _refuse_control_characters(part)
    return TableName(parts=parts)


def _path_name(path: str) -> TableName:
    _refuse_control_characters(path)
    if _ROOT.fullmatch(path):
        raise _invalid_table(path, "found the root of a file system")
    return TableName(path=path)


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a name with dots between them, without their backticks.

    :raises InvalidName: ``text`` does not have this form
    """
    parts = []
    position = 0
    while True:
        if match := _PART.match(text, position):
            quoted, plain = match["quoted"], match["plain"]
            parts.append(plain.strip() if quoted is None else quoted.replace("``", "`"))
            position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise _invalid_table(text, f"found an unexpected {text[position]} at {position + 1}")
        position += 1


def _refuse_control_characters(text: str) -> None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise _invalid_table(text, "found a control character")


def _invalid_table(text: object, found: str) -> InvalidName:
    return InvalidName(
        f"table name {shown(text)}",
        "does not name a table",
        cause="expected an absolute path or 1 to 3 parts with dots between them, "
        f"parts with dots or backticks quoted; {found}",
        fix="write catalog.schema.table, `a part with.dots`, /a/path or delta.`/a/path`",
    )


def _either_case(character: str) -> str:
    upper = character.upper()
    # Java maps one character to one. Python may return a longer text, such as SS for ß.
    return (upper if len(upper) == 1 else character).lower()[0]


def _stream_name_fault(text: object) -> str:
    if not isinstance(text, str):
        return "no text"
    if not text:
        return "nothing"
    if text[0].isdigit():
        return f"a digit first: {text[0]}"
    for character in text:
        if not f"_{character}".isidentifier():
            return repr(character)
    return f"{len(text)} characters"
