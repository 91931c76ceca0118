"""What is wrong with a file of a folder, and how its stream can continue."""

from __future__ import annotations

import re
from urllib.parse import unquote

from ..delta.file_paths import path_key
from ..errors import FileUnreadable
from ..model.stream import Stream

_READING = re.compile(r"reading file (\S+)\. *(.*)")
_LONGEST_CAUSE = 1000
_MISSING = "FAILED_READ_FILE.FILE_NOT_EXIST"
_STATE = re.compile(r"\.? *SQLSTATE: \w+")


def unreadable(stream: Stream, path: str, cause: str, *, also: str = "") -> FileUnreadable:
    """The error of a file that cannot be read as ``stream`` expects.

    :param path: the path, below the stream's folder, of a file, or of a folder that gives values to
        its files
    :param cause: what was expected and what was found
    :param also: what else helps
    """
    return FileUnreadable(
        f"stream {stream.name}",
        f"cannot read {path} in {stream.source.name}; nothing of it was consumed",
        cause=cause,
        fix=f"correct {path}, remove it, or hide it by a name that begins with a dot, and read"
        " again; if the files are right and the stream is wrong, create the stream again with the"
        f' right arguments, or_replace=True and at=OffsetOf("{stream.name}"), which keeps the'
        f" changes that are not consumed{also}",
    )


def unreadable_file(stream: Stream, messages: str) -> FileUnreadable | None:
    """The error for the ``messages`` of a failed read. ``None`` if they name no file of the folder.

    :param messages: the message of Spark and those of its causes, each on separate lines
    """
    lines = messages.splitlines()
    places = [place for place, line in enumerate(lines) if _READING.search(line)]
    if not places:
        return None
    (uri, detail), *_ = _READING.findall(lines[places[-1]])
    folder, path = f"{path_key(stream.source.name)}/", path_key(unquote(uri))
    if not path.startswith(folder):
        return None
    # The file was listed just now. If Spark reports it as missing, Spark may not have the right to
    # open it. So that detail is left out.
    causes = ["" if _MISSING in messages else detail, *lines[places[-1] + 1 :]]
    parts = [_STATE.sub("", line).strip(" .") for line in causes]
    cause = "; ".join(filter(None, parts))[:_LONGEST_CAUSE] or "Spark gives no details"
    return unreadable(stream, path.removeprefix(folder), cause)
