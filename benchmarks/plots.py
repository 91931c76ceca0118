"""One plot for each number of commits: every way to read the net changes, workload by workload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from .readers import WAYS
from .results import Row, Run
from .shapes import settings_of

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "benchmarks"
INCHES = (11, 6)


def write(run: Run, page: Path) -> Iterator[tuple[str, str]]:
    """Write the plots into a folder beside ``page``; returns their names and their paths from
    there.
    """
    folder = page.parent / page.stem
    by_workload = run.by_workload()
    plots: dict[str, dict[str, dict[str, Row]]] = {}
    for name, rows in by_workload.items():
        title = settings_of(name)
        if title is not None:
            plots.setdefault(title, {})[name.removesuffix(f", {title}")] = rows
    for title, chosen in plots.items():
        path = folder / f"{title.replace(', ', '-').replace(' ', '-')}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        _plot(f"Reading net changes: {title}", chosen, path)
        yield title, f"{folder.name}/{path.name}"


def _plot(title: str, workloads: dict[str, dict[str, Row]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=INCHES, layout="constrained")
    width = 0.8 / len(WAYS)
    for number, name in enumerate(WAYS):
        found = [
            (place, row.timing)
            for place, rows in enumerate(workloads.values())
            if (row := rows.get(name)) is not None and row.timing is not None
        ]
        bars = axes.bar(
            [place + number * width for place, _ in found],
            [timing.median for _, timing in found],
            width,
            label=name,
        )
        axes.bar_label(bars, [timing.short for _, timing in found], fontsize=6, rotation=90)
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    axes.set_title(title)
    ticks = [place + 0.4 - width / 2 for place in range(len(workloads))]
    axes.set_xticks(ticks, [label.replace(", ", ",\n") for label in workloads], fontsize=8)
    axes.legend(fontsize=7)
    axes.margins(y=0.15)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
