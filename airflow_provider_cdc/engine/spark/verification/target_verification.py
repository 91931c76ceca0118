"""The part of the engine that checks targets."""

from __future__ import annotations

from collections.abc import Collection

from ...core.arguments.validation import validated
from ...core.verification.verification import Verification
from .verifying import Verifying


@validated
class TargetVerification:
    """Proves that targets equal their sources, and heals those that do not."""

    def __init__(self, verifying: Verifying) -> None:
        self._verifying = verifying

    def verify_target(
        self,
        name: str,
        target: str,
        key: str | Collection[str] | None = None,
        *,
        heal: bool = False,
        full: bool = False,
    ) -> Verification:
        """Check whether a target equals the source of a stream, at the version that the stream has
        consumed.

        The check compares digests: for each range of keys, the number of rows and two sums of row
        hashes, which do not depend on the order. If a range differs, its keys are compared. The
        state folder keeps the versions of both tables that were found equal. The next check reads
        only the files in which they changed since then, so an unchanged target costs no read.

        A target is a table that has some or all columns of the source, with one row for each row of
        the source. Values are compared in the form in which the target stores them. An archive
        (:meth:`archive_changes`) is compared with its source by :meth:`replay` and by row ids.
        An upsert table is compared in its data columns when all its changes are applied. Changes in
        quarantine are missing in it, so their keys may differ.

        :param name: a stream with the mode ``standard`` that the target is filled from; for an
            archive, the stream that fills it
        :param target: a catalog name or the path of a Delta table
        :param key: the column or the columns that identify a row; not needed for an archive or an
            upsert table
        :param heal: write the rows that differ, in a consumption that does not move the stream
        :param full: compare all rows, as the first check does
        :returns: the keys that differ, at most 100 of them by name; ``verified_through``; the share
            of bytes that were read
        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read the stream, or consume it to heal
        :raises TableNotFound: there is no such target
        :raises InvalidRequest: the target is no copy of the source; the key is wrong; it is an
            archive that somebody changed; an archive or an upsert table is to be healed
        :raises StreamConflict: a consumption of the stream is open, and does not end in a minute;
            or changes of an upsert table wait to be applied
        :raises StreamUnusable: rows cannot be read, because files are missing, or a value of the
            source does not fit its column of the target
        """
        return self._verifying.verify(name, target, key, heal=heal, full=full)
