"""Finds the files that the change set of a range reads, with their deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs
from pyroaring import BitMap64

from ...core.change_sets.crafted_log import ListedFile, Side
from ...core.change_sets.net_files import ChangedVector, NetFiles
from ...core.delta.deletion_vectors import (
    Bitmap,
    complement,
    framed,
    inline_bytes,
    positions,
    relative_path,
)
from ...core.delta.log_actions import DataFile, DeletionVector
from ..files.stores import Files
from ..files.uris import absolute_path, encoded_uri, plain_uri


class RangeFiles:
    """Gives the files of one source absolute paths, and reads their deletion vectors.

    :param location: the root of the source
    """

    def __init__(self, location: str, files: Files) -> None:
        self._location = location
        self._files = files
        self._vector_files: dict[str, bytes] = {}
        self._sizes: dict[str, int | None] = {}

    def listed(self, net: NetFiles) -> list[ListedFile]:
        """The files of both sides of a net difference. A file whose deletion vector changed is
        listed with exactly the rows that were deleted (old side) or restored (new side).
        """
        files = [ListedFile(Side.OLD, self.absolute(file)) for file in net.removed]
        files.extend(ListedFile(Side.NEW, self.absolute(file)) for file in net.added)
        self.fetch_vectors(file for pair in net.revectored for file in (pair.old, pair.new))
        for pair in net.revectored:
            files.extend(self._changed_rows(pair))
        return files

    def absolute(self, file: DataFile) -> DataFile:
        """``file`` with absolute paths to itself and to its deletion vector."""
        return structs.replace(
            file,
            path=absolute_path(self._location, file.path),
            deletion_vector=self._absolute_vector(file.deletion_vector),
        )

    def missing(self, files: Iterable[DataFile]) -> list[str]:
        """The paths of ``files`` and of their deletion vectors that no longer exist.

        :param files: with absolute paths
        """
        paths: set[str] = set()
        for file in files:
            paths.add(plain_uri(file.path))
            vector = file.deletion_vector
            if vector is not None and vector.storage_type == "p":
                paths.add(plain_uri(vector.path_or_inline))
        self._sizes |= self._files.sizes(paths)
        return sorted(path for path in paths if self._sizes[path] is None)

    def size_of(self, file: DataFile) -> int:
        """The size of ``file`` in bytes: from the store if :meth:`missing` has checked it,
        otherwise from the log.
        """
        # Spark leaves out files of zero bytes.
        return self._sizes.get(plain_uri(file.path)) or file.size_bytes or 1

    def deleted(self, file: DataFile) -> BitMap64:
        """The positions that the deletion vector of ``file`` deletes. The path of ``file`` must be
        absolute.
        """
        vector = file.deletion_vector
        if vector is None:
            return BitMap64()
        if vector.storage_type == "i":
            return positions(inline_bytes(vector))
        uri = plain_uri(vector.path_or_inline)
        self._fetch([uri])
        return positions(framed(self._vector_files[uri], vector.offset or 0))

    def _changed_rows(self, pair: ChangedVector) -> list[ListedFile]:
        record_count = pair.new.record_count or pair.old.record_count
        old, new = self.absolute(pair.old), self.absolute(pair.new)
        if record_count is None:
            # Without a row count the complement is unknown. List both files whole: netting drops
            # the rows that they share.
            return [ListedFile(Side.OLD, old), ListedFile(Side.NEW, new)]
        before, after = self.deleted(old), self.deleted(new)
        listed = []
        for side, file, rows in (
            (Side.OLD, old, after - before),
            (Side.NEW, new, before - after),
        ):
            if rows:
                left_out = Bitmap.of(complement(rows, record_count))
                whole = structs.replace(file, deletion_vector=None)
                listed.append(ListedFile(side, whole, kept=rows, left_out=left_out))
        return listed

    def fetch_vectors(self, files: Iterable[DataFile]) -> None:
        """Read the deletion vectors of ``files`` together, each vector once, before they are used
        one by one.
        """
        vectors = [self._absolute_vector(file.deletion_vector) for file in files]
        self._fetch(
            plain_uri(vector.path_or_inline)
            for vector in vectors
            if vector is not None and vector.storage_type == "p"
        )

    def _fetch(self, uris: Iterable[str]) -> None:
        new = [uri for uri in uris if uri not in self._vector_files]
        self._vector_files |= self._files.read_each(new)

    def _absolute_vector(self, vector: DeletionVector | None) -> DeletionVector | None:
        if vector is None or vector.storage_type != "u":
            return vector
        path = f"{encoded_uri(self._location)}/{relative_path(vector)}"
        return structs.replace(vector, storage_type="p", path_or_inline=path)
