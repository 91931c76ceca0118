"""Where and how the registry's table lies on disk, and the work that keeps reading it quick."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import ColumnProperties, DeltaTable, PostCommitHookProperties, WriterProperties

from ..core.errors import InvalidRequest
from ..core.lifecycle import Transition

logger = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        ("stream_id", pa.string()),
        ("sequence", pa.int64()),
        ("name", pa.string()),
        ("name_key", pa.string()),
        ("transition", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("nonce", pa.string()),
        ("actor", pa.string()),
        ("state", pa.string()),
        ("archived", pa.bool_()),
    ]
)

# A snapshot reads the partition of rows that may be the newest of a stream, and nothing else.
PARTITION = "archived"

CONFIGURATION = {
    "delta.dataSkippingStatsColumns": "stream_id,sequence,at",
    # The rows are the history, not the log: it only has to outlive the snapshots in use.
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.deletedFileRetentionDuration": "interval 6 hours",
}

# Neighbouring rows repeat most of their JSON, which zstd finds and a dictionary does not.
WRITER = WriterProperties(
    compression="ZSTD",
    compression_level=3,
    column_properties={
        "state": ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    },
)

# What delta-rs does after a commit may fail after the commit has landed: upkeep does it instead.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_ARCHIVED_AT_ONCE = 2000

# delta-rs decodes percent escapes in plain paths, so that two folders would become one; at the
# other characters it panics, or opens another folder.
_UNUSABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\x00-\x1f\x7f]")


def registry_location(state: str) -> str:
    """The location of the registry's table under the folder ``state``.

    :param state: an absolute path, or a URI such as ``file:///data/cdc`` or ``s3://bucket/cdc``
    :raises InvalidRequest: it is neither, or holds a character that delta-rs cannot take
    """
    parts = urlsplit(state) if "://" in state or state.startswith("file:") else None
    if parts is not None and parts.scheme == "file":
        plain = parts.netloc in {"", "localhost"} and not parts.query and not parts.fragment
        path = unquote(parts.path) if plain else ""
    else:
        path = state
    if parts is None or parts.scheme == "file":
        if not path.startswith("/"):
            raise _refused(state, "expected an absolute path or a URI")
    elif not (parts.scheme and parts.netloc):
        raise _refused(state, "expected a URI with a scheme and a bucket or host")
    found = _UNUSABLE.search(path)
    if found:
        raise _refused(state, f"a state folder's name cannot hold {found.group()!r}")
    return f"{path.rstrip('/')}/registry"


def _refused(state: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        f"state folder {state!r}",
        "cannot be used",
        cause=cause,
        fix="name it by an absolute path, or by a URI such as file:///data/cdc or s3://bucket/cdc",
    )


def literal(text: str) -> str:
    """``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Upkeep:
    """When and how the registry tidies itself; the history of every stream stays whole.

    Each step is a Delta commit of its own or none, so it may be killed anywhere, and run in several
    processes at once: the later one is refused by Delta, which counts as done by the other.

    :param commits: tidy up when so many small files have gathered (about one a commit)
    :param file_bytes: compaction makes files of about this many bytes; smaller than a quarter of
        it counts as small
    :param retention_hours: how long files that the table no longer lists stay readable
    :param vacuum_every: delete such files every so many rounds of upkeep
    """

    commits: int = 50
    file_bytes: int = 2 * 1024 * 1024
    retention_hours: int = 6
    vacuum_every: int = 10

    def run_when_due(self, table: DeltaTable, reopen: Callable[[], DeltaTable]) -> None:
        """Tidy up if ``table`` has gathered enough small files; never raises, as :meth:`run`."""
        with _put_off():
            sizes: list[int] = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
            if sum(size < self.file_bytes // 4 for size in sizes) >= self.commits:
                self.run(reopen)

    def run(self, reopen: Callable[[], DeltaTable]) -> None:
        """Archive, compact, checkpoint and vacuum; a step that fails is logged and left for later.

        :param reopen: loads the newest version of the table
        """
        for step in (self._archive, self._compact, self._checkpoint, self._vacuum):
            with _put_off():
                step(reopen())

    def _archive(self, table: DeltaTable) -> None:
        """Move the rows that no snapshot needs to the other partition."""
        rows = pa.table(
            table.scan(
                columns=["stream_id", "sequence", "transition"], predicate=f"{PARTITION} = false"
            )
        ).to_pylist()
        keys = [f"{stream_id}:{sequence}" for stream_id, sequence in superseded(rows)]
        if keys:
            listed = ",".join(literal(key) for key in keys[:_ARCHIVED_AT_ONCE])
            table.update(
                updates={PARTITION: "true"},
                predicate=f"{PARTITION} = false AND stream_id || ':' || sequence IN ({listed})",
                writer_properties=WRITER,
                post_commithook_properties=NO_HOOKS,
            )

    def _compact(self, table: DeltaTable) -> None:
        table.optimize.compact(
            target_size=self.file_bytes,
            writer_properties=WRITER,
            post_commithook_properties=NO_HOOKS,
        )

    def _checkpoint(self, table: DeltaTable) -> None:
        table.create_checkpoint()
        table.cleanup_metadata()

    def _vacuum(self, table: DeltaTable) -> None:
        # Each round moves the version on by a little more than ``commits``: no counter to keep.
        if (table.version() // self.commits) % self.vacuum_every == 0:
            table.vacuum(
                retention_hours=self.retention_hours,
                enforce_retention_duration=False,
                dry_run=False,
                full=True,  # also what a killed or refused writer left behind
                post_commithook_properties=NO_HOOKS,
            )


DEFAULT = Upkeep()


@contextmanager
def _put_off() -> Iterator[None]:
    """Log whatever goes wrong in upkeep: the next round makes up for it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of delta-rs is no Exception
        logger.info("Upkeep of the registry put off: %s", error)


def superseded(rows: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Stream id and sequence of the rows that no snapshot needs: all but the newest of a stream,
    and the newest too where it says that the stream was dropped.
    """
    newest: dict[str, int] = {}
    dropped = set()
    for row in rows:
        newest[row["stream_id"]] = max(row["sequence"], newest.get(row["stream_id"], 0))
        if row["transition"] == Transition.DROPPED:
            dropped.add(row["stream_id"])
    return sorted(
        (row["stream_id"], row["sequence"])
        for row in rows
        if row["sequence"] < newest[row["stream_id"]] or row["stream_id"] in dropped
    )
