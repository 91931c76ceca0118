"""Reads a file once, even if many commits deleted or restored rows of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyroaring import BitMap64

from ..change_sets.crafted_log import ListedFile, Side
from ..delta.deletion_vectors import Bitmap, complement

# Spark keeps the position and the commit of each row in the memory of every executor.
MOST_SHARED_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file, and the ``place`` in the layout history of the layout that it is read with."""

    place: int
    listed: ListedFile


def shared(files: Iterable[PlacedFile]) -> list[PlacedFile]:
    """``files``, with each file that differs only in the kept rows listed once for many commits.

    A row of a file is deleted once, so each kept row belongs to one commit. If a RESTORE brought a
    row back and a later commit deleted it again, the file is listed once for each of the two.
    """
    files = list(files)
    groups: dict[tuple[int, Side, str], list[PlacedFile]] = {}
    for file in files:
        if _can_share(file.listed):
            key = (file.place, file.listed.side, file.listed.file.path)
            groups.setdefault(key, []).append(file)
    repeated = [group for group in groups.values() if len(group) > 1]
    rows = sum(len(file.listed.kept or ()) for group in repeated for file in group)
    if not repeated or rows > MOST_SHARED_ROWS or _overlap([group[0] for group in repeated]):
        return files
    replaced = {id(file) for group in repeated for file in group}
    found = [file for file in files if id(file) not in replaced]
    for group in repeated:
        found.extend(_shared(group))
    return found


def kept_rows(listed: ListedFile) -> list[tuple[int | None, int]]:
    """How many rows of a file to read for each commit; zero if the log does not show it."""
    if listed.commits:
        return [(version, len(rows)) for version, rows in listed.commits]
    count = listed.file.record_count or 0 if listed.kept is None else len(listed.kept)
    return [(listed.version, count)]


def commits_of_rows(files: Sequence[ListedFile]) -> tuple[list[int], list[int]]:
    """The places of all rows of shared ``files``, and the version of the commit of each.

    The place of a row is the first row id of its file plus the row's position.
    """
    places: list[int] = []
    versions: list[int] = []
    for listed in files:
        first = listed.file.base_row_id
        assert first is not None
        for version, rows in listed.commits:
            places.extend(first + position for position in rows)
            versions.extend([version] * len(rows))
    return places, versions


def _overlap(files: Sequence[PlacedFile]) -> bool:
    """Whether rows of two of the ``files`` have the same place.

    That is possible if row tracking was dropped and set up again.
    """
    firsts: dict[str, tuple[int, int]] = {}
    for file in files:
        data = file.listed.file
        assert data.base_row_id is not None
        assert data.record_count is not None
        firsts[data.path] = (data.base_row_id, data.base_row_id + data.record_count)
    ranges = sorted(firsts.values())
    return any(one[1] > other[0] for one, other in pairwise(ranges))


def _can_share(listed: ListedFile) -> bool:
    return None not in (
        listed.kept,
        listed.version,
        listed.file.base_row_id,
        listed.file.record_count,
    )


def _shared(group: Sequence[PlacedFile]) -> list[PlacedFile]:
    """``group``, which lists one file, with as few listings as possible."""
    layers: list[tuple[BitMap64, list[PlacedFile]]] = []
    for file in group:
        kept = file.listed.kept
        assert kept is not None
        for rows, layer in layers:
            if rows.isdisjoint(kept):
                rows.update(kept)
                layer.append(file)
                break
        else:
            layers.append((kept.copy(), [file]))
    return [_in_one(rows, layer) for rows, layer in layers]


def _in_one(rows: BitMap64, layer: Sequence[PlacedFile]) -> PlacedFile:
    first = layer[0]
    count = first.listed.file.record_count
    assert count is not None
    if len(layer) == 1:
        return first
    listed = replace(
        first.listed,
        version=None,
        kept=rows,
        left_out=Bitmap.of(complement(rows, count)),
        commits=tuple(
            (file.listed.version, file.listed.kept)
            for file in layer
            if file.listed.version is not None and file.listed.kept is not None
        ),
    )
    return replace(first, listed=listed)
