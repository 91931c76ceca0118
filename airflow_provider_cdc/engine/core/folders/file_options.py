"""Options of Spark's file readers, as a stream keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..arguments.validation import check_argument
from ..delta.file_paths import name_pattern
from ..errors import InvalidRequest
from ..model.sources import FileFormat

# Every reader of this package sets these options, in any session. Files that are left out would
# count as consumed.
WHOLE_FILES = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength"
_LONGEST = {_LONGEST_LINE: str(2**31 - 1)}
# Without these options a reader also leaves out long lines, files with another suffix, and
# malformed rows if the query does not read their faulty column.
_WHOLE_ROWS = {
    FileFormat.AVRO: {"ignoreExtension": "true"},
    FileFormat.CSV: {"columnPruning": "false"} | _LONGEST,
    FileFormat.JSON: _LONGEST,
}

_GLOB = "pathGlobFilter"
_NO_PARTITIONS = "recursiveFileLookup"
_HEADER, _BY_POSITION, _ONE_COLUMN = "header", "enforceSchema", "singleVariantColumn"
_MODE, _MODES = "mode", ("PERMISSIVE", "FAILFAST")
CORRUPT_RECORD = "columnNameOfCorruptRecord"
"""The option that names the column for the text of a malformed row."""

_OF_ALL = (_GLOB, _NO_PARTITIONS)
_OF_TEXT = (
    *("mode", CORRUPT_RECORD, "multiLine", "lineSep", "encoding", "charset", "samplingRatio"),
    *("dateFormat", "timestampFormat", "timestampNTZFormat", "timeFormat", "timeZone", "locale"),
    *("enableDateTimeParsingFallback", "compression", _ONE_COLUMN),
)
# The options that Spark 4.2 reads for each format. Spark ignores names that it does not know.
_KNOWN = {
    FileFormat.AVRO: (
        *("mode", "avroSchema", "avroSchemaUrl", "compression", "datetimeRebaseMode"),
        *("enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType"),
        *("positionalFieldMatching", "recordName", "recordNamespace", "recursiveFieldMaxDepth"),
    ),
    FileFormat.CSV: (
        *(*_OF_TEXT, _HEADER, "inferSchema", _BY_POSITION, "sep", "delimiter", "quote", "escape"),
        *("charToEscapeQuoteEscaping", "comment", "codec", "columnPruning", "emptyValue"),
        *("escapeQuotes", "extension", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
        *("inputBufferSize", "maxCharsPerColumn", "maxColumns", "nanValue", "negativeInf"),
        *("nullValue", "positiveInf", "preferDate", "quoteAll", "unescapedQuoteHandling"),
    ),
    FileFormat.JSON: (
        *(*_OF_TEXT, "allowBackslashEscapingAnyCharacter", "allowComments", "allowSingleQuotes"),
        *("allowNonNumericNumbers", "allowNumericLeadingZeros", "allowUnquotedControlChars"),
        *("allowUnquotedFieldNames", "dropFieldIfAllNull", "ignoreNullFields", "inferTimestamp"),
        *("maxNestingDepth", "maxNumLen", "maxStringLen", "prefersDecimal", "pretty", "sortKeys"),
        *("primitivesAsString", "useUnsafeRow", "writeNonAsciiCharacterAsCodePoint"),
    ),
    FileFormat.ORC: ("mergeSchema", "compression"),
    FileFormat.PARQUET: ("mergeSchema", "compression", "datetimeRebaseMode", "int96RebaseMode"),
}
_LEAVES_OUT = "would leave files or rows out, and they would count as consumed"
_OTHER_FILES = "would name other files"
_GLOB_INSTEAD = f"leave it out; {_GLOB} selects files by name"
_OF_STREAMING = "is for Spark's own streams, and would do nothing here"
_BOUND_INSTEAD = "leave it out; max_commits and max_bytes limit one consumption"
_LEAVING_OUT = ("ignoremissingfiles", "ignorecorruptfiles", "modifiedafter", "modifiedbefore")
# By the name in lower case: what is wrong with the option, and what to do instead.
_REFUSED = {
    **dict.fromkeys(("path", "paths", "basepath"), (_OTHER_FILES, _GLOB_INSTEAD)),
    **dict.fromkeys(_LEAVING_OUT, (_LEAVES_OUT, _GLOB_INSTEAD)),
    **dict.fromkeys(
        ("ignoreextension", "ignoreinvalidpartitionpaths", _LONGEST_LINE),
        (_LEAVES_OUT, "leave it out"),
    ),
    **dict.fromkeys(
        ("maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst"),
        (_OF_STREAMING, _BOUND_INSTEAD),
    ),
}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options for the reader, and the glob of file names for the listing."""

    reader: Mapping[str, str]
    name_glob: str | None


def options_as_text(options: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The options as Spark writes them. ``None`` if no options are given.

    :raises InvalidRequest: they are not a mapping of names
    """
    if options is None:
        return None
    check_argument("argument file_options", options, Mapping[str, Any])
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def file_options(
    subject: str, file_format: FileFormat, options: Mapping[str, Any] | None
) -> FileOptions:
    """The user's ``options`` of ``file_format``. Their names ignore case.

    A name with a dot is a setting of Hadoop, and is not checked.

    :raises InvalidRequest: an option cannot be an option of a stream, or does not exist
    """
    reader = options_as_text(options) or {}
    for name in sorted(reader):
        cause, fix = _fault(file_format, name, reader[name])
        if cause:
            raise InvalidRequest(
                subject,
                "cannot read files with these options",
                cause=f"the option {name} {cause}",
                fix=fix,
            )
    if file_format is FileFormat.CSV and _is_torn(reader):
        raise InvalidRequest(
            subject,
            "cannot read files with these options",
            cause="Spark splits lines inside characters of UTF-16 and UTF-32",
            fix="add multiLine=True, or lineSep, to file_options",
        )
    globs = [reader.pop(name) for name in list(reader) if name.lower() == _GLOB.lower()]
    for glob in globs:
        name_pattern(glob)
    return FileOptions(reader, globs[0] if globs else None)


def option(options: Mapping[str, str], name: str) -> str | None:
    """The value of one of ``options``, whose names ignore case. ``None`` if it is not given."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def takes_columns_from_folders(options: Mapping[str, str]) -> bool:
    """Whether the names of ``key=value`` folders are columns."""
    return not _is_on(options, _NO_PARTITIONS)


def has_headers(file_format: FileFormat, options: Mapping[str, str]) -> bool:
    """Whether files begin with a line of names by which the stream finds its columns.

    False if ``enforceSchema`` is given. Then Spark ignores the line, or fails if the line differs
    from the stream's columns.
    """
    is_csv = file_format is FileFormat.CSV and _is_on(options, _HEADER)
    return is_csv and all(option(options, name) is None for name in (_BY_POSITION, _ONE_COLUMN))


def is_multi_line(options: Mapping[str, str]) -> bool:
    """Whether a value may span several lines, or a JSON file is one value."""
    return _is_on(options, "multiLine")


def whole_rows(file_format: FileFormat) -> Mapping[str, str]:
    """The options that make a reader of ``file_format`` return every row that it can read.

    They do so in any session and for any query on the rows.
    """
    return _WHOLE_ROWS.get(file_format, {})


def _fault(file_format: FileFormat, name: str, value: str) -> tuple[str, str]:
    """What is wrong with an option, and what to do. Two empty texts if nothing is wrong."""
    key = name.lower()
    if key in _REFUSED:
        return _REFUSED[key]
    if key == _MODE and value.upper() == "DROPMALFORMED":
        return f"= {value} {_LEAVES_OUT}", (
            "leave it out: a malformed row then has NULLs, and its text if file_schema has a"
            " column _corrupt_record STRING, so that the statement can skip it; or set mode to"
            " FAILFAST, which makes a malformed row an error"
        )
    if key == _MODE and value.upper() not in _MODES:
        return f"= {value!r} is not a mode, and Spark would use {_MODES[0]}", (
            f"set mode to {' or '.join(_MODES)}"
        )
    known = (*_OF_ALL, *_KNOWN[file_format])
    names = {each.lower(): each for each in known}
    if "." in key or key in names:
        return "", ""
    near = [names[each] for each in get_close_matches(key, names, 1)]
    others = f"leave it out; the options are {', '.join(known)}"
    fix = f"did you mean {near[0]}?" if near else others
    return f"is not an option of {file_format.value}, and would do nothing", fix.rstrip("?")


def _is_torn(options: Mapping[str, str]) -> bool:
    encoding = option(options, "encoding") or option(options, "charset") or ""
    is_wide = encoding.lower().startswith(("utf-16", "utf-32"))
    return is_wide and not is_multi_line(options) and not option(options, "lineSep")


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return (option(options, name) or "").lower() == "true"
