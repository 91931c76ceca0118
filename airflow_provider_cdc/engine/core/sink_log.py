"""Lists of files in the form in which Spark's own file sinks say what a folder holds.

Spark reads a folder with such a list without listing anything: the files are those of the list,
wherever they are, with the sizes and the times that it gives. It takes no job and no request for
each file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

FOLDER = "_spark_metadata"
# Under the name of a compacted batch it is read whatever interval of compaction a session has set.
NAME = "0.compact"
_VERSION = "v1"
_BLOCK_BYTES = 128 << 20


def sink_log(files: Iterable[tuple[str, int]]) -> bytes:
    """The content of a list of ``files``: the percent-encoded URI of each and its bytes.

    The number of a file in the list, from 0 on, stands in it as the milliseconds of its time: a
    row can tell where it is from by ``_metadata.file_modification_time``.
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
