"""Where and how the registry's table is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet
from deltalake import (
    ColumnProperties,
    DeltaTable,
    PostCommitHookProperties,
    WriterProperties,
)
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from ...core.errors import InvalidRequest, StoreUnreachable

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
FILE_SCHEMA = SCHEMA.remove(SCHEMA.get_field_index("archived"))
# A snapshot reads only the partition of the rows that may be the newest of a stream.
PARTITION = "archived"
CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "stream_id,sequence,at",
    # The history is in the rows and not in the log. The log only has to outlive the snapshots in
    # use.
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.deletedFileRetentionDuration": "interval 6 hours",
}
# Neighbouring rows repeat most of their JSON. zstd uses that, and a dictionary does not.
WRITER = WriterProperties(
    compression="ZSTD",
    compression_level=3,
    column_properties={
        "state": ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    },
)
# The work of delta-rs after a commit may fail although the commit has landed, so upkeep does it.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
# delta-rs decodes percent escapes in plain paths, so two folders would become one. If a path has
# one of the other characters, delta-rs panics or opens another folder.
_UNUSABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\^|\x00-\x1f\x7f]")
# delta-rs colours the chain of its causes, one on each line.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_CAUSES = 4


def registry_location(state: str) -> str:
    """The location of the registry's table under the folder ``state``; see :func:`table_location`.

    :raises InvalidRequest: delta-rs cannot use it
    """
    return table_location(state, "registry")


def table_location(state: str, name: str) -> str:
    """The location of one of the engine's tables under the folder ``state``.

    :param state: an absolute path, or a URI such as ``file:///data/cdc`` or ``s3://bucket/cdc``
    :raises InvalidRequest: ``state`` is neither, or holds a character that delta-rs cannot use
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
    return f"{path.rstrip('/')}/{name}"


def _refused(state: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        f"state folder {state!r}",
        "cannot be used",
        cause=cause,
        fix="name it by an absolute path, or by a URI such as file:///data/cdc or s3://bucket/cdc",
    )


def _in_one_line(message: str) -> str:
    """The first causes in a message of delta-rs, which has one on each line."""
    plain = _COLOUR.sub("", message).replace("Kernel error -> ", "")
    causes = [line.strip(" ↳\t").rstrip(".") for line in plain.splitlines()]
    return ": ".join([cause for cause in causes if cause][:_MOST_CAUSES])


@dataclass(frozen=True, slots=True)
class Store:
    """The place of one registry's table, and how to open it.

    :param location: as :func:`registry_location` gives it
    :param options: delta-rs' options for the store
    """

    location: str
    options: dict[str, str]

    def open(self, version: int | None = None) -> DeltaTable:
        """The table at ``version``, by default the newest.

        :raises TableNotFoundError: there is no table
        :raises StoreUnreachable: the store cannot be reached
        """
        with self._reached():
            return DeltaTable(self.location, version=version, storage_options=self.options)

    def exists(self) -> bool:
        """Whether there is a table; raises :class:`StoreUnreachable`."""
        with self._reached():
            return DeltaTable.is_deltatable(self.location, self.options)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachable(
                f"state folder at {self.location.rpartition('/')[0]}",
                "cannot be reached",
                cause=_in_one_line(str(error)),
                fix="check its address, the network and the credentials in the storage options (in"
                " Airflow, those of the connection), and try again",
            ) from error

    def filesystem(self, table: DeltaTable) -> PyFileSystem:
        """The files of ``table``, by their paths in its log."""
        return PyFileSystem(DeltaStorageHandler(table.table_uri, self.options))


def delta_literal(text: str) -> str:
    """``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
