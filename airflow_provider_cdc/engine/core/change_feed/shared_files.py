"""Reads a file once, even if many commits deleted or restored rows of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyroaring import BitMap64

from ..change_sets.crafted_log import ListedFile, Side, in_log
from ..delta.deletion_vectors import Bitmap, complement
from ..delta.log_actions import DataFile

# Spark keeps the position and the commit of each row in the memory of every executor.
MOST_SHARED_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file, and the ``place`` in the layout history of the layout that it is read with."""

    place: int
    listed: ListedFile


def shared(files: Iterable[PlacedFile]) -> list[PlacedFile]:
    """``files``, with each file that differs only in the kept rows listed once for many commits.

    A row of a file is deleted once, so each kept row belongs to one commit. If a RESTORE brought
    rows back, the same place may belong to several commits. Then only one listing of the file is
    shared, because places do not distinguish its listings.
    """
    files = list(files)
    layers = [layer for layer in _layers(files) if len(layer.files) > 1]
    largest: dict[str, _Layer] = {}
    for layer in layers:
        known = largest.get(layer.path)
        if known is None or len(layer.rows) > len(known.rows):
            largest[layer.path] = layer
    chosen = list(largest.values())
    count = sum(len(layer.rows) for layer in chosen)
    if not chosen or count > MOST_SHARED_ROWS or _overlap(chosen):
        return files
    replaced = {id(file) for layer in chosen for file in layer.files}
    kept = [file for file in files if id(file) not in replaced]
    return [*kept, *map(_in_one, chosen)]


def in_both_roles(old: Iterable[PlacedFile], new: Iterable[PlacedFile]) -> list[PlacedFile]:
    """All files of both sides, with each file that two commits added and removed listed once."""
    added: dict[Hashable, PlacedFile] = {}
    found: list[PlacedFile] = []
    for file in sorted([*old, *new], key=_version):
        key = (file.place, *in_log(file.listed))
        if not _is_whole(file.listed):
            found.append(file)
        elif file.listed.side is Side.NEW:
            if key in added:
                found.append(added[key])
            added[key] = file
        elif key in added:
            listed = added.pop(key).listed
            both = replace(listed, side=Side.BOTH, removal=file.listed.version)
            found.append(replace(file, listed=both))
        else:
            found.append(file)
    return [*found, *added.values()]


def roles(listed: ListedFile) -> tuple[set[int | None], set[int | None]]:
    """The commits that added rows of a file, and those that removed some."""
    versions: set[int | None] = {version for version, _ in listed.commits}
    versions = versions or {listed.version}
    match listed.side:
        case Side.OLD:
            return set(), versions
        case Side.BOTH:
            return versions, {listed.removal}
        case _:
            return versions, set()


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


@dataclass(frozen=True, slots=True)
class _Layer:
    """Listings of one file that keep different ``rows``."""

    rows: BitMap64
    files: list[PlacedFile]

    @property
    def path(self) -> str:
        return self.files[0].listed.file.path


def _layers(files: Sequence[PlacedFile]) -> list[_Layer]:
    """The listings that can be shared, file by file, in as few layers as possible."""
    groups: dict[tuple[int, Side, str], list[_Layer]] = {}
    for file in files:
        kept = file.listed.kept
        if kept is None or not _can_share(file.listed):
            continue
        layers = groups.setdefault((file.place, file.listed.side, file.listed.file.path), [])
        for layer in layers:
            if layer.rows.isdisjoint(kept):
                layer.rows.update(kept)
                layer.files.append(file)
                break
        else:
            layers.append(_Layer(kept.copy(), [file]))
    return [layer for layers in groups.values() for layer in layers]


def _overlap(layers: Sequence[_Layer]) -> bool:
    """Whether rows of two files have the same place.

    That is possible if row tracking was dropped and set up again.
    """
    ranges = sorted(_places(layer.files[0].listed.file) for layer in layers)
    return any(one[1] > other[0] for one, other in pairwise(ranges))


def _places(file: DataFile) -> tuple[int, int]:
    assert file.base_row_id is not None
    assert file.record_count is not None
    return file.base_row_id, file.base_row_id + file.record_count


def _version(file: PlacedFile) -> int:
    return file.listed.version or 0


def _is_whole(listed: ListedFile) -> bool:
    """Whether every row of the file records the change of one commit."""
    return listed.version is not None and listed.kept is None


def _can_share(listed: ListedFile) -> bool:
    file = listed.file
    return None not in (listed.version, file.base_row_id, file.record_count)


def _in_one(layer: _Layer) -> PlacedFile:
    first = layer.files[0]
    count = first.listed.file.record_count
    assert count is not None
    listed = replace(
        first.listed,
        version=None,
        kept=layer.rows,
        left_out=Bitmap.of(complement(layer.rows, count)),
        commits=tuple(
            (file.listed.version, file.listed.kept)
            for file in layer.files
            if file.listed.version is not None and file.listed.kept is not None
        ),
    )
    return replace(first, listed=listed)
