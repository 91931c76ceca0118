"""File lists in the format of Spark's own file sinks.

Spark reads a folder with such a list without listing anything. The list names files in any place,
with their sizes and times. Spark needs no job and no request for each file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

FOLDER = "_spark_metadata"
# The name of a compacted batch: Spark reads it under any compaction interval of the session.
NAME = "0.compact"
_VERSION = "v1"
_BLOCK_BYTES = 128 << 20


def sink_log(files: Iterable[tuple[str, int]]) -> bytes:
    """The content of a file list.

    The list numbers the files from 0, and gives each number as the milliseconds of the file's time.
    So ``_metadata.file_modification_time`` shows which file a row is from.

    :param files: the percent-encoded URI of each file, and its bytes
    """
    lines = (
        json.dumps(
            {
                "path": path,
                "size": size_bytes,
                "isDir": False,
                "modificationTime": number,
                "blockReplication": 1,
                "blockSize": _BLOCK_BYTES,
                "action": "add",
            }
        )
        for number, (path, size_bytes) in enumerate(files)
    )
    return "\n".join((_VERSION, *lines)).encode()
