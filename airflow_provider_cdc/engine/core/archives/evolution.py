"""How the columns of an archive follow those of its source.

A renamed column is renamed, an added one is added, and a wider type is widened. Each of these is a
change of the archive's metadata only. A dropped column stays, with the values that it had. If a
column's new type cannot hold its old values, or fields inside it were renamed, moved or dropped,
the old column stays under another name and the new one is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..delta.column_steps import Add, Rename, Step, adapted, plain
from ..delta.table_schema import Layout, OlderFields, matching_path, physical_name
from ..names import free_name, name_key
from .definition import Archive


def evolution(archive: Archive, origin: int, layout: Layout, version: int) -> list[Step]:
    """The steps after which ``archive`` can hold rows of ``layout``, under the names of ``layout``.

    An interrupted evolution continues: the steps begin with the archive as it is.

    :param origin: the index of the era whose columns ``layout`` took over
    :param version: the version of the source that has ``layout``
    """
    era = archive.eras[origin]
    older = _matches(era.layout, layout)
    stored = {physical_name(field): field for field in archive.layout.fields}
    # What each archive column is called, as the steps change it.
    names = {physical: str(field["name"]) for physical, field in stored.items()}
    claimed = {physical for each in archive.eras for physical in each.columns.values()}
    steps: list[Step] = []
    kept: dict[str, str] = {}
    changes: dict[str, list[Step]] = {}
    for field in layout.fields:
        before = older.get(field["name"])
        physical = None if before is None else era.columns.get(before["name"])
        if physical is None or physical not in stored:
            physical = _left_over(stored, names, claimed, field)
        if physical is None:
            continue
        found = adapted(field["name"], stored[physical]["type"], field["type"])
        if found is not None:
            kept[physical], changes[physical] = field["name"], found
    wanted = {name_key(field["name"]) for field in layout.fields}
    used = {name_key(name) for name in names.values()} | wanted
    for physical, name in names.items():
        is_in_place = name_key(name) == name_key(kept.get(physical, ""))
        if physical not in stored or is_in_place or name_key(name) not in wanted:
            continue
        # Another column of the source has this name now.
        is_kept = physical in kept
        free = free_name(f"{name}_renaming" if is_kept else f"{name}_until_{version}", used)
        used.add(name_key(free))
        steps.append(Rename(name, free))
        names[physical] = free
    for physical, name in kept.items():
        if name_key(names[physical]) != name_key(name):
            steps.append(Rename(names[physical], name))
        steps.extend(changes[physical])
    held = set(map(name_key, kept.values()))
    steps.extend(
        Add((field["name"],), plain(field["type"]))
        for field in layout.fields
        if name_key(field["name"]) not in held
    )
    return steps


def columns_of(archive: Archive, layout: Layout) -> dict[str, str]:
    """The physical name of the archive's column for each column of ``layout``, after the steps of
    :func:`evolution`.
    """
    by_name = {name_key(field["name"]): physical_name(field) for field in archive.layout.fields}
    return {name: by_name[name_key(name)] for name in layout.column_names}


def stored_fields(archive: Archive, era_columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The columns of an era with the types that the archive stores them in.

    Without ids: those of the archive are not those of the source.
    """
    types = {physical_name(field): field["type"] for field in archive.layout.fields}
    return [
        {"name": name, "type": plain(types[physical]), "nullable": True, "metadata": {}}
        for name, physical in era_columns.items()
    ]


def _matches(before: Layout, now: Layout) -> dict[str, Mapping[str, Any]]:
    """The column of ``before`` that each column of ``now`` is, by its name in ``now``."""
    path = matching_path((before, now))
    older = [OlderFields(each.fields) for each in reversed(path[:-1])]
    found = {}
    for field in now.fields:
        match: Mapping[str, Any] | None = field
        for fields in older:
            match = None if match is None else fields.match(match)
        if match is not None:
            found[field["name"]] = match
    return found


def _left_over(
    stored: Mapping[str, Mapping[str, Any]],
    names: Mapping[str, str],
    claimed: set[str],
    field: Mapping[str, Any],
) -> str | None:
    """The column that an interrupted evolution added for ``field``."""
    for physical, name in names.items():
        if name_key(name) == name_key(field["name"]) and physical not in claimed:
            return physical if plain(stored[physical]["type"]) == plain(field["type"]) else None
    return None
