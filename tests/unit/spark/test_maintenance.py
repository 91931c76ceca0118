"""Maintenance of streams by logs alone; the tests write the commits that change tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from streams import NO_COLUMNS, NOON, new_stream, register

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.sources import Source, View
from airflow_provider_cdc.engine.core.model.stream import Stream, StreamMode
from airflow_provider_cdc.engine.core.retention.table_retention import (
    FILES,
    Maintenance,
    SourceRetention,
)
from airflow_provider_cdc.engine.spark.streams.maintenance import Maintainer
from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog
from airflow_provider_cdc.engine.storage.state.extended_sources import ExtendedSources

DAY = timedelta(days=1)
TRACKED = {"delta.enableRowTracking": "true"}


class PlayedTables(Tables):
    """Changes the properties of tables by writing commits."""

    def __init__(self) -> None:
        self.changes = 0

    def set_properties(self, table: str, properties: Mapping[str, str | None]) -> None:
        match = re.fullmatch(r"delta\.`(.*)`", table)
        assert match is not None
        self.changes += 1
        source = PlayedTable(Path(match[1].removeprefix("file:")))
        found = {**source.properties, **properties}
        source.set({name: text for name, text in found.items() if text is not None})


class PlayedTable:
    """A table that has only a log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = DeltaLog(str(root), Files())

    @property
    def version(self) -> int:
        return self.log.latest_version()

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.log.state_at(self.version).configuration)

    def set(self, properties: Mapping[str, str]) -> None:
        found = {"id": "a-table-id", "schemaString": NO_COLUMNS}
        self.commit({"metaData": found | {"configuration": dict(properties)}})

    def commit(self, *actions: dict[str, Any], days: float = 0) -> None:
        folder = self.root / "_delta_log"
        folder.mkdir(parents=True, exist_ok=True)
        version = len(list(folder.iterdir()))
        if version == 0:
            actions = ({"protocol": {}}, *actions)
        moment = int((NOON + days * DAY).timestamp() * 1000)
        lines = map(json.dumps, ({"commitInfo": {"timestamp": moment}}, *actions))
        (folder / f"{version:020d}.json").write_text("\n".join(lines), encoding="utf-8")

    def insert(self, *, days: float = 0) -> None:
        version = self.version + 1
        file = {"path": f"{version}", "baseRowId": 0, "defaultRowCommitVersion": version}
        self.commit({"add": file | {"dataChange": True, "size": 1}}, days=days)

    def remove(self, path: str) -> None:
        self.commit({"remove": {"path": path, "dataChange": True, "size": 1}})


class Site:
    """A state folder, its streams, and the tables that they read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = str(root / "state")
        self.tables = PlayedTables()
        self.extended = ExtendedSources(self.state, Files())
        self.days: float = 0

    @property
    def catalog(self) -> StreamCatalog:
        return StreamCatalog(self.state, clock=lambda: NOON + self.days * DAY)

    def table(self, name: str, **properties: str) -> PlayedTable:
        table = PlayedTable(self.root / name)
        table.set(TRACKED | properties)
        return table

    def stream(self, name: str, table: PlayedTable, spelling: str = "{}", **fields: Any) -> Stream:
        location = spelling.format(table.root)
        offset = SourceLog(Files()).newest_offset(location)
        source = Source(name, location, "a-table-id")
        stream = new_stream(name, source=source, offset=offset, **fields)
        return register(self.root / "state", stream)

    def maintain(self) -> Maintenance:
        def clock() -> Any:
            return NOON + self.days * DAY

        return Maintainer(
            catalog=self.catalog,
            registry=Registry(self.state),
            sources=SourceLog(Files(), clock),
            tables=self.tables,
            extended_sources=self.extended,
            files=Files(),
            clock=clock,
        ).run(DAY)

    def only_source(self) -> SourceRetention:
        (source,) = self.maintain().sources
        return source


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("last", ["{}/", "file:{}", "file://{}"])
def test_table_under_two_spellings_is_retained_for_both_streams(site: Site, last: str) -> None:
    table = site.table("t")
    for name, spelling, length in (("a", "{}", 60), ("b", last, 14)):
        site.stream(name, table, spelling, max_data_extension=length * DAY)
    table.insert()
    site.days = 6.5
    source = site.only_source()
    assert (source.extension, source.streams) == (60 * DAY, ("a", "b"))
    version = table.version
    assert not site.only_source().has_changed
    assert table.version == version

    site.catalog.advance_stream("a")
    assert site.only_source().extension == 14 * DAY
    site.catalog.advance_stream("b")
    assert site.only_source().extension is None
    assert site.extended.locations() == []
    assert FILES not in table.properties


def test_table_noted_under_another_spelling_is_released_and_forgotten(
    site: Site,
) -> None:
    table = site.table("t")
    site.stream("a", table, "file:{}")
    table.insert()
    site.days = 6.5
    site.maintain()
    site.catalog.drop_stream("a")
    site.stream("b", table)
    source = site.only_source()
    assert (source.has_changed, source.extension) == (True, None)
    assert site.extended.locations() == []


def test_table_with_short_retention_stays_extended_by_a_single_change(site: Site) -> None:
    table = site.table("t", **{FILES: "interval 12 hours"})
    site.stream("s", table)
    assert (site.only_source().has_changed, site.only_source().extension) == (True, 14 * DAY)
    for days in range(1, 9):
        site.days = days
        table.insert(days=days)
        site.maintain()
        site.catalog.advance_stream("s")
        assert site.only_source().extension == 14 * DAY
    assert site.tables.changes == 1

    site.catalog.drop_stream("s")
    assert site.only_source().extension is None
    assert table.properties == TRACKED | {FILES: "interval 12 hours"}


def test_unreadable_source_is_reported_and_the_others_are_maintained(site: Site) -> None:
    broken, table = site.table("a-broken"), site.table("t")
    for name, each in (("a", broken), ("b", table)):
        site.stream(name, each)
        each.insert()
    (broken.root / "_delta_log" / f"{1:020d}.json").write_text("no JSON", encoding="utf-8")
    site.days = 6.5
    report = site.maintain()
    assert [source.streams for source in report.sources if source.has_changed] == [("b",)]
    (problem,) = [source.problem for source in report.sources if source.problem]
    assert "JSONDecodeError" in problem


def test_table_is_not_released_while_a_stream_on_it_cannot_be_checked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = site.table("t")
    site.stream("a", table, max_data_extension=60 * DAY)
    site.stream("b", table)
    table.insert()
    site.days = 6.5
    assert site.only_source().extension == 60 * DAY

    range_of = SourceLog.range

    def refused(self: SourceLog, stream: Stream, **options: Any) -> Any:
        if stream.name == "a":
            raise PermissionError("not today")
        return range_of(self, stream, **options)

    with monkeypatch.context() as patched:
        patched.setattr(SourceLog, "range", refused)
        source = site.only_source()
    assert (source.extension, source.has_changed) == (60 * DAY, False)
    assert source.problem == "stream a: PermissionError: not today"
    assert site.extended.locations() == [str(table.root)]


def test_rows_that_an_append_only_view_has_not_returned_are_not_skipped(site: Site) -> None:
    table = site.table("t")
    view = View("v", "f", (0,))
    stream = site.stream("s", table, mode=StreamMode.APPEND_ONLY, view=view)
    table.insert()
    table.remove("1")
    assert site.maintain().skipped == ()
    assert site.catalog.get_stream("s").offset == stream.offset


def test_missing_table_stays_noted_until_it_returns(site: Site) -> None:
    table = site.table("t")
    site.stream("s", table)
    table.insert()
    site.days = 6.5
    site.maintain()
    site.catalog.drop_stream("s")
    log = table.root / "_delta_log"
    log.rename(site.root / "away")
    assert not site.only_source().has_changed
    (site.root / "away").rename(log)
    assert site.only_source().has_changed
    assert table.properties == TRACKED


def test_table_extended_by_a_concurrent_run_stays_noted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = site.table("t")
    stream = site.stream("s", table)
    site.extended.note(str(table.root))
    table.insert()
    strike_off = ExtendedSources.strike_off

    def overtaken(self: ExtendedSources, location: str) -> None:
        monkeypatch.undo()
        site.days = 6.5
        assert site.only_source().has_changed
        site.days = 0
        strike_off(self, location)

    monkeypatch.setattr(ExtendedSources, "strike_off", overtaken)
    site.maintain()
    assert site.extended.locations() == [stream.source.location]


def test_unfinished_notes_of_killed_writers_are_ignored(site: Site) -> None:
    site.extended.note("/data/t")
    folder = site.root / "state" / "extended_sources"
    (note,) = folder.iterdir()
    note.with_name(f"{note.name}.0123.draft").write_text("/da", encoding="utf-8")
    assert site.extended.locations() == ["/data/t"]


def test_initial_rows_are_retained_from_the_commit_at_the_offset(site: Site) -> None:
    table = site.table("t", **{"delta.logRetentionDuration": "interval 8 days"})
    site.stream("s", table, shows_initial_rows=True)
    site.days = 7.5
    assert not site.only_source().has_changed
    table.insert(days=7.5)
    assert site.only_source().has_changed
