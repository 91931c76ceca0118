"""Glances at logs: they notice each new commit by one request, and never less than a listing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streams import NOON, add_file, new_stream, quiet_stream

from airflow_provider_cdc.engine.catalog.log_glances import LogGlances
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.sources import FileFormat, Folder
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.newest_versions import NewestVersions


class CountingFiles(Files):
    """Counts the requests for one file."""

    requests = 0

    def has_file(self, uri):
        self.requests += 1
        return super().has_file(uri)


def test_log_that_grows_by_several_commits_is_followed_to_its_end(tmp_path):
    versions = NewestVersions(Files())
    for version in range(3):
        add_file(tmp_path, version, NOON)
    assert versions.of_log(str(tmp_path), 0) == 2

    for version in (3, 4, 5):
        add_file(tmp_path, version, NOON)
    assert versions.of_log(str(tmp_path), 0) == 5


def test_log_that_did_not_grow_costs_one_request(tmp_path):
    files = CountingFiles()
    versions = NewestVersions(files)
    for version in range(50):
        add_file(tmp_path, version, NOON)
    versions.of_log(str(tmp_path), 0)

    files.requests = 0
    assert versions.of_log(str(tmp_path), 0) == 49
    assert files.requests == 1


def test_log_that_is_missing_is_noticed_when_it_begins(tmp_path):
    versions = NewestVersions(Files())
    assert versions.of_log(str(tmp_path), -1) == -1

    add_file(tmp_path, 0, NOON)
    assert versions.of_log(str(tmp_path), -1) == 0


def test_log_whose_old_commits_are_cleaned_up_is_read_from_what_remains(tmp_path):
    for version in range(5):
        add_file(tmp_path, version, NOON)
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()

    assert NewestVersions(Files()).of_log(str(tmp_path), 0) == 4


def test_new_table_under_an_old_location_is_followed_for_its_own_stream(tmp_path):
    versions = NewestVersions(Files())
    for version in range(5):
        add_file(tmp_path, version, NOON)
    assert versions.of_log(str(tmp_path), 0, "first") == 4
    for commit in (tmp_path / "_delta_log").iterdir():
        commit.unlink()
    add_file(tmp_path, 0, NOON)
    assert versions.of_log(str(tmp_path), 0, "second") == 0

    add_file(tmp_path, 1, NOON)
    assert versions.of_log(str(tmp_path), 0, "second") == 1


def test_glance_at_a_stream_on_files_is_empty(tmp_path):
    folder = Folder(str(tmp_path), FileFormat.CSV, {}, None)

    assert NewestVersions(Files()).of_stream(new_stream("s", folder=folder)) == ()


@pytest.mark.parametrize("form", ["path", "uri"])
def test_glance_notices_commits_of_sources_and_of_the_registry(tmp_path, form):
    state = tmp_path / "state"
    streams = [quiet_stream(state, tmp_path / name, name) for name in ("a", "b")]
    glances = LogGlances(str(state) if form == "path" else state.as_uri())
    assert glances.is_local
    before = glances.glance(streams)
    assert glances.glance(streams) == before

    add_file(tmp_path / "b", 1, NOON)
    after = glances.glance(streams)
    assert after.registry == before.registry
    a, b = (stream.stream_id for stream in streams)
    assert after.sources == {a: (0,), b: (1,)}

    catalog = StreamCatalog(str(state), principal=streams[0].owner)
    catalog.alter_stream("a", comment="text")
    assert glances.registry() == before.registry + 1


def test_glance_at_a_state_folder_without_a_registry_notices_the_first_stream(tmp_path):
    glances = LogGlances(str(tmp_path / "state"))
    assert glances.registry() == -1

    quiet_stream(tmp_path / "state", tmp_path / "a", "a")
    assert glances.registry() >= 0


def test_glance_at_a_stream_of_two_tables_notices_each_of_them(tmp_path):
    stream = quiet_stream(tmp_path / "state", tmp_path / "a", "a")
    add_file(tmp_path / "b", 0, NOON)
    (base,) = stream.bases
    other = replace(base, source=replace(base.source, location=str(tmp_path / "b")))
    both = replace(stream, bases=(base, other))
    versions = NewestVersions(Files())
    assert versions.of_stream(both) == (0, 0)

    add_file(tmp_path / "b", 1, NOON)
    assert versions.of_stream(both) == (0, 1)
