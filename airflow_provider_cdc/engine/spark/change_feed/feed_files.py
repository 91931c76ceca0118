"""The files that hold the changes of a range's commits, and how their rows are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_feed.feed_options import FeedSchema
from ...core.change_feed.feed_plan import FeedCommit, FeedPlan, Rewrite
from ...core.change_feed.feed_schema import (
    first_alike,
    has_same_ids,
    with_dropped_columns,
    without_lost_values,
)
from ...core.change_feed.shared_files import PlacedFile, commits_of_rows, shared
from ...core.change_sets.crafted_log import (
    CHANGE_TYPE_COLUMN,
    ROW_PLACE_COLUMN,
    VERSION_COLUMN,
    ListedFile,
    Side,
)
from ...core.delta.table_schema import Layout, matching_path
from ...core.figures import known_sum
from ...core.model.stream import Stream
from ...core.names import name_key
from ...storage.delta.range_files import RangeFiles
from ..change_sets.change_files import listed_change_file, with_some_ids
from ..change_sets.listed_rows import ListedRows
from ..change_sets.row_columns import ROW_ID, ROW_VERSION, in_end_layout, union
from ..change_sets.schema_checks import check_types

# The kind of change of a row in a change file.
CHANGE_TYPE = "_cdc_change_type"
# The places of rows, and the versions of their commits, where a file is read for many commits.
_PLACE, _VERSION = "_cdc_place_of_commit", "_cdc_version_at_place"
RESERVED = (CHANGE_TYPE, ROW_PLACE_COLUMN, _PLACE, _VERSION)


@dataclass(frozen=True, slots=True)
class FeedFiles:
    """The files of a feed.

    ``changes`` are change files. Of ``whole`` files each row is a change by itself. The rows of
    ``old`` and ``new`` files are paired. ``rewrites`` has what the log shows about a commit, by
    version.
    """

    changes: tuple[PlacedFile, ...]
    whole: tuple[PlacedFile, ...]
    old: tuple[PlacedFile, ...]
    new: tuple[PlacedFile, ...]
    rewrites: Mapping[int, Rewrite]

    def commits_that(self, rewrite: Rewrite) -> set[int]:
        """The versions of the commits with that rewrite."""
        return {version for version, each in self.rewrites.items() if each is rewrite}

    @property
    def insert_count(self) -> int | None:
        """The number of changes if the log shows that all of them are inserts."""
        if self.changes or self.old or self.new:
            return None
        listed = [file.listed for file in self.whole]
        if any(each.side is not Side.NEW or each.has_vector for each in listed):
            return None
        return known_sum(each.file.record_count for each in listed)


def feed_files(source: RangeFiles, plan: FeedPlan) -> FeedFiles:
    """The files of ``plan``, each with its commit's version and the side that it represents."""
    pairs = (pair for commit in plan.commits for pair in commit.net.revectored)
    source.fetch_vectors(file for pair in pairs for file in (pair.old, pair.new))
    changes: list[PlacedFile] = []
    whole: list[PlacedFile] = []
    old: list[PlacedFile] = []
    new: list[PlacedFile] = []
    alike = first_alike(plan.history.layouts)

    def placed(listed: ListedFile, commit: FeedCommit) -> PlacedFile:
        # A commit may change the layout: the files that it removed have the layout before it.
        place = commit.before if listed.side is Side.OLD else commit.after
        return PlacedFile(alike[place], replace(listed, version=commit.version))

    for commit in plan.commits:
        for file in commit.change_files:
            changes.append(placed(listed_change_file(source, file, commit.version), commit))
        whole.extend(
            placed(ListedFile(Side.INSERTED, source.absolute(file)), commit)
            for file in commit.inserted
        )
        found = source.listed(commit.net)
        if commit.is_paired and len({listed.side for listed in found}) > 1:
            old.extend(placed(each, commit) for each in found if each.side is Side.OLD)
            new.extend(placed(each, commit) for each in found if each.side is Side.NEW)
        else:
            whole.extend(placed(each, commit) for each in found)
    rewrites = {commit.version: commit.rewrite for commit in plan.commits}
    return FeedFiles(
        tuple(changes), tuple(shared(whole)), tuple(shared(old)), tuple(shared(new)), rewrites
    )


class FeedRows:
    """Opens the files of a feed, all with the columns of the feed.

    :param schema: which columns these are
    :param loses_values: see ``FeedOptions``
    """

    def __init__(
        self,
        spark: SparkSession,
        stream: Stream,
        plan: FeedPlan,
        rows: ListedRows,
        schema: FeedSchema,
        *,
        loses_values: bool,
    ) -> None:
        self._spark = spark
        self._loses_values = loses_values
        self._stream = stream
        self._plan = plan
        self._rows = rows
        self._alike = first_alike(plan.history.layouts)
        self._end = self._alike[-1]
        # A later protocol of the same layout may have more features.
        self._protocols = dict(zip(self._alike, plan.protocols, strict=True))
        self._all_columns: tuple[Layout, ...] = ()
        if schema is FeedSchema.COMMIT:
            subject = f"stream {stream.name}"
            self._all_columns = with_dropped_columns(subject, plan.history.layouts)

    @property
    def layout(self) -> Layout:
        """The columns of the feed."""
        return (self._all_columns or self._plan.history.layouts)[-1]

    def open(self, files: Sequence[PlacedFile], extra: Sequence[str]) -> DataFrame | None:
        """The rows of ``files``: the columns of the feed, ``extra``, row id and row commit version;
        ``None`` if there are no files.

        :param extra: columns of the crafted log; the type of a change is called
            :data:`CHANGE_TYPE` in the result
        :raises StreamUnusable: a column has a new type that does not hold its old values
        """
        by_place: dict[int, list[ListedFile]] = {}
        for file in files:
            by_place.setdefault(file.place, []).append(file.listed)
        # Layouts whose files the layout at the end reads share one part.
        for place in [place for place in by_place if self._reads_at_end(place, extra)]:
            if place != self._end:
                by_place.setdefault(self._end, []).extend(by_place.pop(place))
        parts = [self._part(place, listed, extra) for place, listed in by_place.items()]
        return union(parts) if parts else None

    def _part(self, place: int, listed: Sequence[ListedFile], extra: Sequence[str]) -> DataFrame:
        steps = self._steps(place)
        layout = steps[0]
        if self._loses_values:
            steps = without_lost_values(steps)
        check_types(self._stream, steps)
        if CHANGE_TYPE_COLUMN in extra and layout.mapping_mode == "id":
            # The type of a change has no field id. Delta names the other columns of change files
            # by their physical names too.
            layout = replace(layout, mapping_mode="name")
        listed = [with_some_ids(file) for file in listed]
        rows = self._with_commits(layout, self._protocols[place], listed, extra)
        kept = [*extra, ROW_ID, ROW_VERSION]
        if CHANGE_TYPE_COLUMN in extra:
            rows = rows.withColumnRenamed(CHANGE_TYPE_COLUMN, CHANGE_TYPE)
            kept = [CHANGE_TYPE if name == CHANGE_TYPE_COLUMN else name for name in kept]
        return in_end_layout(rows, steps, kept)

    def _with_commits(
        self,
        layout: Layout,
        protocol: Mapping[str, Any],
        listed: Sequence[ListedFile],
        extra: Sequence[str],
    ) -> DataFrame:
        """The rows of ``listed`` files, with the version of the commit that changed each."""
        of_many = [file for file in listed if file.commits]
        if not of_many:
            return self._rows.open(layout, protocol, listed, extra)
        rows = self._rows.open(layout, protocol, listed, [*extra, ROW_PLACE_COLUMN])
        places, versions = commits_of_rows(of_many)
        known = pa.table({_PLACE: places, _VERSION: versions})
        is_shared = F.when(F.col(VERSION_COLUMN).isNull(), F.col(ROW_PLACE_COLUMN))
        found = rows.join(
            F.broadcast(self._spark.createDataFrame(known)),
            is_shared == F.col(_PLACE),
            "inner" if len(of_many) == len(listed) else "left",
        )
        version = F.coalesce(VERSION_COLUMN, _VERSION)
        return found.withColumn(VERSION_COLUMN, version).drop(ROW_PLACE_COLUMN, _PLACE, _VERSION)

    def _steps(self, place: int) -> tuple[Layout, ...]:
        """The layouts that lead from the one at ``place`` to the columns of the feed."""
        history = self._plan.history
        if not self._all_columns:
            return matching_path(history.steps(place))
        later = self._all_columns[place + 1 :] if place != self._end else self._all_columns[-1:]
        return matching_path((history.layouts[place], *later))

    def _reads_at_end(self, place: int, extra: Sequence[str]) -> bool:
        """Whether the layout at the end reads files of the layout at ``place``."""
        if self._all_columns:
            # A file from before a column was dropped may hold values that its commit did not have.
            return place == self._end
        end = self._plan.history.layouts[self._end]
        if CHANGE_TYPE_COLUMN in extra and CHANGE_TYPE_COLUMN in map(name_key, end.column_names):
            return False
        steps = self._steps(place)
        if not has_same_ids(steps[0], end):
            return False
        return len(steps) == 2 and end.reads_files_of(steps[0])  # noqa: PLR2004 - the two ends
