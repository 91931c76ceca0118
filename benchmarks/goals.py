"""The goal of each figure, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from . import (
    archives,
    change_streams,
    feed,
    freshness,
    history,
    iceberg_process,
    many_streams,
    partition_lists,
    scale_logs,
    scale_registry,
    slopes,
    upserts,
    wide,
)
from .checks import LOGS, PROBE, of_maintenance, with_data
from .fixed_cost import AT_MOST_ONCE, CONSUME, IN_SESSION, OF_CHANGES, OF_SOURCE
from .readers import CHANGES, FEED_BY_KEY, FLOOR, SNAPSHOTS, STREAM
from .results import Row, Run
from .shapes import Shape, settings_name, workload_name

RIVALS = (FEED_BY_KEY.name, SNAPSHOTS.name, iceberg_process.NAME)
PEAK_BYTES = 512 * 2**20
# With these shapes the commits share the same changes, however many commits there are.
SHARING = (Shape.APPEND, Shape.PARTITION, Shape.DELETE)


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure and its goal. ``is_met``: ``None`` if a peer was stopped that might have taken
    long enough.
    """

    text: str
    wanted: str
    found: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        """The verdict on a page."""
        return {True: "met", False: "not met", None: "not known"}[self.is_met]


def of(run: Run) -> Iterator[Goal]:
    """The goals that the rows of ``run`` can answer."""
    judges: dict[str, Callable[[Run], Iterable[Goal]]] = {
        "changes": _changes,
        "consumption": _consumption,
        "checks": _checks,
        "upserts": _upserts,
        "history": _history,
        "wide": _wide,
        "feed": _feed,
        "archives": _archives,
        "change_streams": _change_streams,
        "freshness": _freshness,
        "scale": _scale,
    }
    judge = judges.get(run.part)
    return iter(judge(run) if judge else ())


def _changes(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    machines = {piece.name: piece.machine for piece in run.pieces}
    for has_vectors in (True, False):

        def rows(shape: Shape, commits: int, has_vectors: bool = has_vectors) -> dict[str, Row]:
            return workloads.get(workload_name(shape, commits, has_vectors=has_vectors), {})

        for commits, rival, times in (
            (10, CHANGES.name, 40),
            (10, iceberg_process.NAME, 20),
            (100, CHANGES.name, 300),
        ):
            settings = settings_name(commits, has_vectors=has_vectors)
            found = rows(Shape.SPREAD, commits)
            yield from _times(f"spread updates, {settings}", found, rival, times)
        for shape in SHARING:
            names = [workload_name(shape, n, has_vectors=has_vectors) for n in (10, 100)]
            if len({machines.get(name) for name in names}) == 1:
                yield from _flatness(shape, "vectors" if has_vectors else "no vectors", rows)
    for name, beside in workloads.items():
        yield from _shares(name, beside)


def _times(text: str, rows: dict[str, Row], rival: str, times: int) -> Iterator[Goal]:
    ours, theirs = _median(rows, STREAM.name), _median(rows, rival)
    if ours is None or theirs is None:
        return
    is_bound = _is_bound(rows, rival)
    found = theirs / ours
    is_met = found >= times or (None if is_bound else False)
    figure = f"{'≥ ' if is_bound else ''}{found:.1f}"
    yield Goal(f"{text}: faster than {rival}", f"{times} times", figure, is_met)


def _flatness(
    shape: Shape, vectors: str, rows: Callable[[Shape, int], dict[str, Row]]
) -> Iterator[Goal]:
    ten, hundred = rows(shape, 10), rows(shape, 100)
    found = _ratio(_median(hundred, STREAM.name), _median(ten, STREAM.name))
    floors = _ratio(_median(hundred, FLOOR.name), _median(ten, FLOOR.name))
    if found is None or floors is None:
        return
    yield Goal(
        f"{shape.value}, {vectors}: 100 commits beside 10 (the floors: {floors:.2f})",
        "at most 1.2",
        f"{found:.2f}",
        found <= 1.2,  # noqa: PLR2004
    )


def _shares(name: str, rows: dict[str, Row]) -> Iterator[Goal]:
    ours = _median(rows, STREAM.name)
    if ours is None or _is_bound(rows, STREAM.name):
        return
    rivals = {way: median for way in RIVALS if (median := _median(rows, way)) is not None}
    if rivals:
        rival = min(rivals, key=rivals.__getitem__)
        found = ours / rivals[rival]
        yield Goal(f"{name}: beside {rival}", "at most 1.1", f"{found:.2f}", found <= 1.1)  # noqa: PLR2004
    floor = _median(rows, FLOOR.name)
    if floor is not None:
        wanted = 1.1 if name.startswith(Shape.APPEND.value) else 1.5
        found = ours / floor
        yield Goal(
            f"{name}: beside the scan floor", f"at most {wanted}", f"{found:.2f}", found <= wanted
        )


def _consumption(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    rows = workloads.get(IN_SESSION, {})
    whole = _median(rows, CONSUME)
    for name in (OF_CHANGES, AT_MOST_ONCE, OF_SOURCE):
        bare = _median(rows, name)
        if whole is not None and bare is not None:
            yield _below(f"consume over the {name}", whole - bare, 0.5)


def _checks(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    for commits, limit in ((LOGS[1], 0.05), (LOGS[2], 0.25)):
        for workload in (with_data(commits), of_maintenance(commits)):
            probe = _median(workloads.get(workload, {}), PROBE)
            if probe is not None:
                yield _below(f"sensor's probe, {workload}", probe, limit)
    longest = workloads.get(with_data(LOGS[2]), {})
    plan = _median(longest, "plan of the change set")
    if plan is not None:
        yield _below(f"planning over {LOGS[2]:,} commits and files", plan, 15)
    peak = longest.get("plan of the change set, memory added")
    if peak is not None:
        yield Goal(
            f"planning over {LOGS[2]:,} commits and files, memory",
            "under 512 MiB",
            f"{peak.size_bytes / 2**20:.0f} MiB",
            peak.size_bytes < PEAK_BYTES,
        )
    for name, rows in workloads.items():
        show = _median(rows, "SHOW")
        if show is not None:
            yield _below(f"SHOW, {name}", show, 0.1)


def _upserts(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    for workload in (upserts.SPREAD, upserts.RANGE):
        rows = workloads.get(workload, {})
        # A plain MERGE gives less: an older change that comes late wins (decision 47).
        found = _ratio(_median(rows, upserts.EQUAL_BY_HAND), _median(rows, upserts.APPLY))
        if found is not None:
            text = f"{workload}: {upserts.APPLY} beside {upserts.EQUAL_BY_HAND}"
            yield Goal(text, "as fast at least", f"{found:.2f} times", found >= 1)
    rows = workloads.get(upserts.PENDING, {})
    found = _ratio(_median(rows, upserts.MERGED_READ), _median(rows, upserts.PLAIN_READ))
    if found is not None:
        text = f"{upserts.PENDING}: {upserts.MERGED_READ} beside {upserts.PLAIN_READ}"
        yield Goal(text, "at most 1.5", f"{found:.2f}", found <= 1.5)  # noqa: PLR2004
    yield from _growth(workloads, upserts.FIXED)


def _history(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    for workload, wanted in ((history.SPREAD, 1.0), (history.LATE, 1.0), (history.RANGE, 2.0)):
        rows = workloads.get(workload, {})
        found = _ratio(_median(rows, history.BY_HAND), _median(rows, history.APPLY))
        if found is not None:
            text = f"{workload}: faster than {history.BY_HAND}"
            yield Goal(text, f"{wanted:g} times", f"{found:.2f}", found >= wanted)
    yield from _growth(workloads, history.FIXED)


def _growth(workloads: Mapping[str, Mapping[str, Row]], name: str) -> Iterator[Goal]:
    """The goal that ten times the rows cost the same."""
    medians = [_median(rows, way) for rows in [workloads.get(name, {})] for way in rows]
    if len(medians) > 1:
        found = _ratio(medians[1], medians[0])
        assert found is not None
        text = f"{name}: ten times the rows beside one"
        yield Goal(text, "at most 1.2", f"{found:.2f}", found <= 1.2)  # noqa: PLR2004


def _wide(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()
    for columns, has_vectors in product(wide.COLUMN_COUNTS, (True, False)):
        name = wide.workload_name(columns, has_vectors=has_vectors)
        rows = workloads.get(name, {})
        found = _ratio(_median(rows, wide.STREAM), _median(rows, wide.SCAN))
        if found is not None:
            text = f"{name}: beside the {wide.SCAN}"
            yield Goal(text, "at most 3", f"{found:.2f}", found <= 3)  # noqa: PLR2004
    fewer, more = wide.COLUMN_COUNTS[-2:]

    def growth(way: str) -> float | None:
        medians = [
            _median(workloads.get(wide.workload_name(columns), {}), way)
            for columns in (more, fewer)
        ]
        return _ratio(*medians)

    for way, by_hand in wide.PEERS.items():
        found, plain = growth(way), growth(by_hand)
        if found is not None and plain is not None:
            # If Spark alone is not linear, its growth is the limit.
            wanted = max(more / fewer, plain)
            text = f"{way}: {more:,} columns beside {fewer:,} ({by_hand}: {plain:.2f})"
            yield Goal(text, f"at most {wanted:.2f}", f"{found:.2f}", found <= wanted)


def _feed(run: Run) -> Iterator[Goal]:
    for name, rows in run.by_workload().items():
        for way, beside, wanted in (
            (feed.FEED, feed.TABLE_CHANGES, 1.1),
            (feed.FEED_WITH_IDS, feed.TABLE_CHANGES, 1.1),
            (feed.BY_ROW_TRACKING, feed.FLOOR, 1.5),
        ):
            found = _ratio(_median(rows, way), _median(rows, beside))
            if found is not None:
                text = f"{name}: {way} beside {beside}"
                yield Goal(text, f"at most {wanted}", f"{found:.2f}", found <= wanted)
        if f", {settings_name(10, has_vectors=True)}" in name or (
            f", {settings_name(10, has_vectors=False)}" in name
        ):
            yield from _faster(name, rows)


def _archives(run: Run) -> Iterator[Goal]:
    for name, rows in run.by_workload().items():
        found = _ratio(_median(rows, archives.STREAMING), _median(rows, archives.ARCHIVE))
        if found is not None:
            text = f"{name}: throughput of {archives.ARCHIVE} beside {archives.STREAMING}"
            yield Goal(text, "at least 0.9", f"{found:.2f}", found >= 0.9)  # noqa: PLR2004
        unchanged = _median(rows, archives.UNCHANGED)
        if unchanged is not None:
            yield _below(f"{name}: {archives.UNCHANGED}", unchanged, 2)
        check, whole = rows.get(archives.AFTER_UPDATES), rows.get(archives.FIRST_CHECK)
        if check is not None and whole is not None:
            share = check.size_bytes / whole.size_bytes
            text = (
                f"{name}: bytes of the {archives.AFTER_UPDATES} beside the {archives.FIRST_CHECK}"
            )
            yield Goal(text, "less than all", f"{share:.3f}", share < 1)


def _change_streams(run: Run) -> Iterator[Goal]:
    for name, rows in run.by_workload().items():
        for way, beside, wanted in (
            (change_streams.CAPTURE, change_streams.APPENDED, 1.3),
            (change_streams.IN_PARALLEL, change_streams.ONE_READER, 1.2),
            (change_streams.ONE_OF_MANY, change_streams.ONE_READER, 0.125),
        ):
            found = _ratio(_median(rows, way), _median(rows, beside))
            if found is not None:
                text = f"{name}: {way} beside {beside}"
                yield Goal(text, f"at most {wanted}", f"{found:.3g}", found <= wanted)
        for way, limit in (
            (partition_lists.TICK, 0.1),
            (partition_lists.LIST_NEW, 0.05),
            (partition_lists.LIST_KNOWN, 0.05),
        ):
            seconds = _median(rows, way)
            if seconds is not None:
                yield _below(f"{name}: {way}", seconds, limit)


def _freshness(run: Run) -> Iterator[Goal]:
    variants = run.by_workload()
    streaming = _median(variants.get(freshness.STREAMING, {}), freshness.TOTAL)
    for name, limit in (
        *((name, 3.0) for name in freshness.OURS_BY_CONNECT),
        *((name, 12.0) for name in freshness.OURS_BY_SUBMIT),
    ):
        row = variants.get(name, {}).get(freshness.TOTAL)
        if row is None or row.timing is None:
            continue
        yield _seconds(f"{name}: median", row.timing.median, limit)
        if name in freshness.OURS_BY_CONNECT:
            yield _seconds(f"{name}: p95", row.timing.p95, 5)
            found = _ratio(row.timing.median, streaming)
            if found is not None:
                text = f"{name}: median beside the {freshness.STREAMING}"
                yield Goal(text, "at most 2", f"{found:.2f}", found <= 2)  # noqa: PLR2004
    ways = variants.get(freshness.IDLE, {})
    watched, not_watched = _median(ways, freshness.WATCHED), _median(ways, freshness.UNWATCHED)
    if watched is not None and not_watched is not None:
        yield _seconds(f"{freshness.IDLE}, for watching them", watched - not_watched, 60)


def _seconds(text: str, seconds: float, limit: float) -> Goal:
    return Goal(text, f"under {limit:g} s", f"{seconds:.2f} s", seconds < limit)


def _scale(run: Run) -> Iterator[Goal]:
    workloads = run.by_workload()

    def seconds(workload: str, way: str) -> float | None:
        return _median(workloads.get(workload, {}), way)

    for suffix, what in (("", "faster"), (f", {many_streams.PROCESSOR}", "less processor time")):
        each = seconds(f"{many_streams.SEPARATELY}{suffix}", many_streams.PER_STREAM)
        size = _sized(many_streams.STREAMS, "streams")
        found = _ratio(each, seconds(f"{many_streams.ONE_JOB}{suffix}", size))
        if found is not None:
            times = found * many_streams.STREAMS[-1]
            text = f"{size} in one job: {what} than a job for each (computed from"
            text += f" {many_streams.SEPARATE})"
            yield Goal(text, "5 times", f"{times:.1f}", times >= 5)  # noqa: PLR2004
    most = _sized(scale_registry.STREAMS, "streams")
    longest = _sized(scale_logs.LAGS, "commits")
    for workload, way, limit in (
        (scale_registry.of("create"), most, 0.25),
        (scale_registry.of("advance"), most, 0.25),
        (scale_registry.of("describe"), most, 0.25),
        (scale_registry.of("list"), most, 10),
        (scale_registry.of("monitor"), most, 10),
        (f"{scale_logs.of('probe')}, {scale_logs.PROCESSOR}", longest, 0.5),
        (f"{scale_logs.of('plan')}, {scale_logs.PROCESSOR}", longest, 30),
    ):
        if (taken := seconds(workload, way)) is not None:
            yield _below(f"{workload}, {way}", taken, limit)
    peak = workloads.get(f"{scale_logs.of('plan')}, {scale_logs.PEAK}", {}).get(longest)
    if peak is not None:
        text = f"{scale_logs.of('plan')}, {longest} with 1,000,000 files, {scale_logs.PEAK}"
        found_bytes = f"{peak.size_bytes / 2**20:,.0f} MiB"
        yield Goal(text, "under 2 GiB", found_bytes, peak.size_bytes < 2 * 2**30)
    for slope in slopes.of(run):
        # Seconds depend on what else the machine does.
        has_better = f"{slope.workload}, {scale_logs.PROCESSOR}" in workloads
        if not slope.is_bytes and not has_better:
            text = f"{slope.workload}: power of the size"
            yield Goal(text, "at most 1.2", f"{slope.exponent:.2f}", slope.exponent <= 1.2)  # noqa: PLR2004


def _sized(sizes: Sequence[int], unit: str) -> str:
    return f"{sizes[-1]:,} {unit}"


def _faster(name: str, rows: dict[str, Row]) -> Iterator[Goal]:
    ours, theirs = _median(rows, feed.BY_ROW_TRACKING), _median(rows, feed.SNAPSHOTS)
    if ours is None or theirs is None:
        return
    found, is_bound = theirs / ours, _is_bound(rows, feed.SNAPSHOTS)
    is_met = found >= 10 or (None if is_bound else False)  # noqa: PLR2004
    text = f"{name}: {feed.BY_ROW_TRACKING} faster than {feed.SNAPSHOTS}"
    yield Goal(text, "10 times", f"{'≥ ' if is_bound else ''}{found:.1f}", is_met)


def _below(text: str, seconds: float, limit: float) -> Goal:
    return Goal(text, f"under {limit * 1000:g} ms", f"{seconds * 1000:.0f} ms", seconds < limit)


def _is_bound(rows: dict[str, Row], way: str) -> bool:
    row = rows.get(way)
    return row is not None and row.timing is not None and row.timing.is_lower_bound


def _median(rows: dict[str, Row], way: str) -> float | None:
    row = rows.get(way)
    return None if row is None or row.timing is None else row.timing.median


def _ratio(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first / second
