"""The options of the commands that create and alter streams, the same in both command lines.

Every ``airflow`` command imports this module, so it must import quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Takes(Enum):
    """What an option takes: one value, nothing, or a value each time it is given."""

    VALUE = auto()
    NOTHING = auto()
    SEVERAL = auto()


@dataclass(frozen=True, slots=True)
class ActOption:
    """An option of a command. ``name`` is that of an argument of the engine."""

    name: str
    help: str
    takes: Takes = Takes.VALUE

    @property
    def flag(self) -> str:
        """The option as users write it."""
        return f"--{self.name.replace('_', '-')}"


_OWNED = (
    ActOption("comment", "free text"),
    ActOption("owner", "the principal that owns the stream"),
    ActOption(
        "readers",
        "a principal that may read it besides its owner; give it again for each of them, or with an"
        " empty text for nobody",
        Takes.SEVERAL,
    ),
    ActOption(
        "consumers",
        "a principal that may consume it besides its owner; in the same form",
        Takes.SEVERAL,
    ),
    ActOption("max_data_extension", "the longest extension of its sources, such as P14D"),
    ActOption("max_lag", "how old a change may get before the monitor sends an alert"),
)

CREATE_OPTIONS = (
    ActOption("on_table", "name or path of the source table"),
    ActOption("on_view", "name of a view that a stream can follow"),
    ActOption("on_files", "absolute path or URI of a folder of files"),
    ActOption("file_format", "parquet, csv, json, orc or avro"),
    ActOption("file_options", "options of Spark's reader, a JSON object"),
    ActOption("file_schema", "the columns of the files in DDL"),
    ActOption("mode", "standard, append_only, feed, or insert_only for files"),
    ActOption("append_semantics", "inserted or surviving, for append_only"),
    ActOption("column_style", "snowflake or databend"),
    ActOption(
        "at",
        "the changes begin after this point: version=3, timestamp=2026-01-01T00:00:00Z or"
        " offset_of=other_stream",
    ),
    ActOption("before", "the changes begin with this point, in the same form"),
    ActOption("or_replace", "drop a stream of that name in the same step", Takes.NOTHING),
    ActOption("if_not_exists", "leave a stream of that name as it is", Takes.NOTHING),
    ActOption("show_initial_rows", "the first consumption takes all rows", Takes.NOTHING),
    *_OWNED,
)
"""The options of ``create``; see ``Engine.create_stream``."""

ALTER_OPTIONS = (
    *_OWNED,
    ActOption(
        "without",
        "what the stream has no longer: comment, max_lag, readers (all may read it) or consumers"
        " (its readers may consume it)",
        Takes.SEVERAL,
    ),
)
"""The options of ``alter``; see ``StreamCatalog.alter_stream``."""

REWIND_HELP = "the new offset: version=3, timestamp=2026-01-01T00:00:00Z or offset_of=other_stream"
LIMIT_HELP = "the most rows to show"
NO_JOB_HELP = "do not run a job on Spark"
MOST_ROWS = 20
"""How many rows ``read`` shows if nothing else is said."""
