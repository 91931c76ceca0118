"""Options of Spark's readers of files, as a stream keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import InvalidRequest
from .file_paths import name_pattern
from .names import name_key

# For every reader of ours, whatever the session says: what is left out would count as consumed.
WHOLE_FILES = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_GLOB = "pathglobfilter"
_NO_PARTITIONS = "recursivefilelookup"
# They would leave files or rows out without a word, or name other files.
_REFUSED = frozenset(
    {"path", "paths", "basepath", "ignoremissingfiles", "ignorecorruptfiles"}
    | {"modifiedafter", "modifiedbefore"}
)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options that go to the reader, and the glob of file names, which the listing minds."""

    reader: Mapping[str, str]
    name_glob: str | None


def options_as_text(options: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The options as Spark writes them; ``None`` where none are given."""
    if options is None:
        return None
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def file_options(subject: str, options: Mapping[str, Any] | None) -> FileOptions:
    """What the user's ``options`` say; their names ignore case.

    :raises InvalidRequest: one of them cannot be an option of a stream
    """
    reader = options_as_text(options) or {}
    refused = sorted(name for name in reader if name_key(name) in _REFUSED)
    if refused:
        raise InvalidRequest(
            subject,
            "cannot read files as asked",
            cause=f"the option {refused[0]} would name other files, or leave some out in silence",
            fix="leave it out; pathGlobFilter says which names count",
        )
    globs = [reader.pop(name) for name in list(reader) if name_key(name) == _GLOB]
    for glob in globs:
        name_pattern(glob)
    return FileOptions(reader, globs[0] if globs else None)


def takes_columns_from_folders(options: Mapping[str, str]) -> bool:
    """Whether the names of ``key=value`` folders are columns."""
    return not any(
        name_key(name) == _NO_PARTITIONS and value.lower() == "true"
        for name, value in options.items()
    )
