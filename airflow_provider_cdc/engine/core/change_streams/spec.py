"""The change stream that a caller asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..arguments.choices import parse_enum
from ..arguments.validation import Kept
from ..errors import InvalidRequest
from .definition import CaptureSettings, Int64As, OnDuplicateKey
from .retention_period import retention_of
from .value_capture import ModType, ValueCaptureType
from .watches import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStreamSpec:
    """A change stream to create; see ``Engine.create_change_stream`` for the fields."""

    name: str
    tables: Mapping[str, Watch]
    settings: CaptureSettings
    partitions: int = 1
    comment: str | None = None
    or_replace: bool = False
    if_not_exists: bool = False

    @classmethod
    def parsed(
        cls,
        *,
        name: str,
        tables: Mapping[str, Watch],
        value_capture_type: str,
        retention_period: timedelta | str,
        exclude_insert: bool,
        exclude_update: bool,
        exclude_delete: bool,
        int64_as: str,
        on_duplicate_key: str,
        target_rows: int | None,
        **given: Any,
    ) -> ChangeStreamSpec:
        """The spec of the arguments of ``Engine.create_change_stream``, as a caller writes them.

        :raises InvalidRequest: a value has a form that its argument does not accept
        """
        settings = settings_given(
            f"change stream {name}",
            (),
            excludes={
                ModType.INSERT: exclude_insert,
                ModType.UPDATE: exclude_update,
                ModType.DELETE: exclude_delete,
            },
            value_capture_type=value_capture_type,
            retention_period=retention_period,
            int64_as=int64_as,
            on_duplicate_key=on_duplicate_key,
            target_rows=target_rows,
        )
        return cls(name=name, tables=tables, settings=CaptureSettings(**settings), **given)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.create_change_stream`` for this spec."""
        found = self.settings
        return {
            "name": self.name,
            "tables": self.tables,
            "value_capture_type": found.value_capture_type,
            "retention_period": found.retention,
            "exclude_insert": ModType.INSERT in found.excluded,
            "exclude_update": ModType.UPDATE in found.excluded,
            "exclude_delete": ModType.DELETE in found.excluded,
            "int64_as": found.int64_as,
            "on_duplicate_key": found.on_duplicate_key,
            "target_rows": found.target_rows,
            "partitions": self.partitions,
            "comment": self.comment,
            "or_replace": self.or_replace,
            "if_not_exists": self.if_not_exists,
        }

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"change stream {self.name}"


def settings_given(
    subject: str,
    excluded: Collection[ModType],
    *,
    excludes: Mapping[ModType, bool | Kept],
    value_capture_type: str | Kept,
    retention_period: timedelta | str | Kept,
    int64_as: str | Kept,
    on_duplicate_key: str | Kept,
    target_rows: int | Kept | None,
) -> dict[str, Any]:
    """The fields of ``CaptureSettings`` that differ, or are not KEPT, as a caller writes them.

    :param excluded: the kinds of changes that are excluded now
    :raises InvalidRequest: a value has a form that its argument does not accept
    """
    found: dict[str, Any] = {}
    mods = tuple(
        mod
        for mod, given in excludes.items()
        if (mod in excluded if isinstance(given, Kept) else given)
    )
    if mods != tuple(excluded):
        found["excluded"] = mods
    if not isinstance(value_capture_type, Kept):
        found["value_capture_type"] = parse_enum(
            subject, "value_capture_type", ValueCaptureType, value_capture_type
        )
    if not isinstance(retention_period, Kept):
        found["retention"] = retention_of(retention_period)
    if not isinstance(int64_as, Kept):
        found["int64_as"] = parse_enum(subject, "int64_as", Int64As, int64_as)
    if not isinstance(on_duplicate_key, Kept):
        found["on_duplicate_key"] = parse_enum(
            subject, "on_duplicate_key", OnDuplicateKey, on_duplicate_key
        )
    if not isinstance(target_rows, Kept):
        if target_rows is not None and target_rows < 1:
            raise InvalidRequest(
                subject,
                f"cannot have target_rows = {target_rows}",
                cause="expected 1 or more",
                fix="pass 100000, or None so that no partition is split or merged by load",
            )
        found["target_rows"] = target_rows
    return found
