"""The log of a folder, and the files that an insert-only stream reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import NOON

from airflow_provider_cdc.engine.core.change_sets.new_files import unread_files, without_superseded
from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.engine.core.delta.file_paths import (
    folder_key,
    folder_uri,
    is_hidden,
    name_pattern,
    partition_values,
    uri_as_spark_shows,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, parse_commit
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.folders.folder_log import (
    ROW_IDS_PER_FILE,
    FolderFile,
    FolderState,
    first_commit,
    fold,
    refresh_commit,
)

PATHS = ["a.csv", "b c.csv", "k=1/ü%.csv", "k=2/a.csv"]
CONTENTS = st.integers(min_value=1, max_value=3)
# The content of the folder at each refresh: some files, each with one of a few contents.
HISTORIES = st.lists(st.dictionaries(st.sampled_from(PATHS), CONTENTS), max_size=8)


@dataclass
class Log:
    """The commits that refreshes write."""

    commits: list[Commit] = field(
        default_factory=lambda: [parse_commit(0, first_commit("an-id", "/data/in", NOON))]
    )

    @property
    def state(self) -> FolderState:
        return fold(None, self.commits)

    def refresh(self, found: Mapping[str, int], moment: datetime = NOON) -> bool:
        files = {path: FolderFile(path, content, content * 10) for path, content in found.items()}
        content = refresh_commit(self.state, files, moment)
        if content is not None:
            self.commits.append(parse_commit(len(self.commits), content))
        return content is not None

    def read(self, after: int, limit: BatchLimit | None = None) -> tuple[dict[str, int], int]:
        """The contents of the files that a stream at ``after`` reads, and its new offset."""
        taken = list((limit or BatchLimit()).taken(self.commits[after + 1 :]))
        end = taken[-1].version if taken else after
        unread = unread_files(without_superseded(taken, self.commits[end + 1 :]))
        files = [FolderFile.of(file) for file in unread.files]
        assert len({file.path for file in files}) == len(files)
        return {file.path: file.size_bytes for file in files}, end


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return dict(before) != dict(after)


@given(HISTORIES)
def test_folder_log_holds_what_the_last_refresh_found(history: list[dict[str, int]]) -> None:
    log = Log()
    before: dict[str, int] = {}
    for found in history:
        assert log.refresh(found) == changed(before, found)
        assert {path: file.size_bytes for path, file in log.state.files.items()} == found
        before = found


@given(HISTORIES, st.integers(min_value=0, max_value=8), st.integers(min_value=1, max_value=3))
def test_stream_returns_each_file_version_once_unless_it_disappears(
    history: list[dict[str, int]], read_at: int, max_commits: int
) -> None:
    """A plain model: the set of files that are not read yet."""
    log = Log()
    unread: dict[str, int] = {}
    before: dict[str, int] = {}
    offset = 0
    for number, found in enumerate(history):
        log.refresh(found)
        for path in PATHS:
            if found.get(path) != before.get(path):
                unread.pop(path, None)
                if path in found:
                    unread[path] = found[path]
        before = found
        assert log.read(offset)[0] == unread
        if number == read_at:
            taken, offset = log.read(offset, BatchLimit(max_commits=max_commits))
            assert taken.items() <= unread.items()
            unread = {path: unread[path] for path in unread if path not in taken}
            assert log.read(offset)[0] == unread


@given(HISTORIES)
def test_batches_of_one_commit_give_the_same_as_one_consumption(
    history: list[dict[str, int]],
) -> None:
    log = Log()
    for found in history:
        log.refresh(found)
    everything, end = log.read(0)
    batches: dict[str, int] = {}
    offset = 0
    while offset < end:
        taken, offset = log.read(offset, BatchLimit(max_commits=1))
        assert not taken.keys() & batches.keys()
        batches |= taken
    assert batches == everything


@given(HISTORIES)
def test_row_ids_of_files_never_overlap_and_are_never_reused(
    history: list[dict[str, int]],
) -> None:
    log = Log()
    for found in history:
        log.refresh(found)
    adds = [file for commit in log.commits for file in commit.adds]
    assert [file.base_row_id for file in adds] == [
        number * ROW_IDS_PER_FILE for number in range(len(adds))
    ]
    assert log.state.row_id_high_water_mark == len(adds) * ROW_IDS_PER_FILE - 1


def test_files_are_numbered_from_the_oldest_one() -> None:
    log = Log()
    log.refresh({"a.csv": 3, "b c.csv": 1})
    assert [file.path for file in log.commits[1].adds] == ["b%20c.csv", "a.csv"]


def test_versions_of_a_folder_have_increasing_times() -> None:
    log = Log()
    for content, moment in enumerate([NOON, NOON, NOON - timedelta(hours=1)], 1):
        log.refresh({"a.csv": content}, moment)
    times = [commit.timestamp - NOON for commit in log.commits]
    assert times == [timedelta(milliseconds=number) for number in range(4)]


def test_file_that_is_added_and_removed_unread_is_not_read() -> None:
    log = Log()
    log.refresh({"a.csv": 1})
    log.refresh({})
    plan = unread_files(log.commits[1:]).plan
    assert (plan.strategy, plan.file_count, plan.commit_count) == (Strategy.NOTHING, 0, 2)


def test_metadata_is_repeated_every_ten_commits() -> None:
    log = Log()
    for content in range(1, 31):
        log.refresh({"a.csv": content})
    declared = [commit.version for commit in log.commits if commit.metadata is not None]
    assert declared == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("a.csv", False),
        ("_SUCCESS", True),
        ("_k=1", False),
        (".a.csv.crc", True),
        ("a.csv._COPYING_", True),
        ("_k=1._COPYING_", True),
    ],
)
def test_hidden_names_are_those_that_spark_does_not_read(name: str, hidden: bool) -> None:
    assert is_hidden(name) == hidden


def test_values_in_the_names_of_folders_are_decoded() -> None:
    path = "Year=2024/x/name=a%2Fb%20c/none=__HIVE_DEFAULT_PARTITION__/k=1.csv"
    assert partition_values(path) == {"year": "2024", "name": "a/b c", "none": None}


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.csv", ["a.csv", ".csv"], ["a.csv.gz", "acsv"]),
        ("{a,b}-[0-9]?.json", ["a-1x.json", "b-99.json"], ["c-1x.json", "a-x1.json"]),
        ("[!a]*", ["b"], ["a", "ab"]),
        (r"\*,[,]", ["*,,"], ["a,,"]),
    ],
)
def test_globs_mean_what_they_mean_to_hadoop(
    glob: str, matching: list[str], others: list[str]
) -> None:
    pattern = name_pattern(glob)
    assert [name for name in (*matching, *others) if pattern.fullmatch(name)] == matching


@pytest.mark.parametrize("glob", ["{a,b", "a}", "[z-a]"])
def test_glob_that_is_not_a_valid_pattern_is_refused(glob: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a pattern of file names"):
        name_pattern(glob)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/data/in", "/data/in"),
        (" /data//in/ ", "/data/in"),
        ("file:///data/in", "/data/in"),
        ("file:/data/./in", "/data/in"),
        ("/.data/in", "/.data/in"),
        ("/../data/in", "/data/in"),
        ("s3a://bucket/in/", "s3a://bucket/in"),
    ],
)
def test_folder_has_one_name_however_it_is_spelt(text: str, uri: str) -> None:
    assert folder_uri(text) == uri


@pytest.mark.parametrize("text", ["", "in", "catalog.table", "/", "file:///", "s3a:///in", "s3a:"])
def test_text_that_does_not_name_a_folder_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a folder that a stream can be on"):
        folder_uri(text)


def test_schemes_of_one_store_share_a_log_and_globs_do_not() -> None:
    aliases = {"s3a": "s3"}
    key = folder_key("s3://bucket/in", None, aliases)
    assert folder_key("s3a://bucket/in", None, aliases) == key
    assert folder_key("s3a://bucket/in", "*.csv", aliases) != key
    assert folder_key("/s3a:/in", None, aliases) != folder_key("/s3:/in", None, aliases)


def test_times_are_kept_to_the_nanosecond() -> None:
    moment = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**9 + 123_456_789
    file = FolderFile("a", 1, moment, "a mark")
    content = refresh_commit(Log().state, {"a": file}, NOON)
    assert content is not None
    (found,) = parse_commit(1, content).adds
    assert FolderFile.of(found) == file


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/in/a b%20.csv", "file:/in/a%20b%2520.csv"),
        ("s3a://bucket/k=ü/[x]*.csv", "s3a://bucket/k=ü/%5Bx%5D*.csv"),
        ("/in/\u00a0#?.csv", "file:/in/%C2%A0%23%3F.csv"),
    ],
)
def test_uris_are_encoded_as_java_does(path: str, uri: str) -> None:
    assert uri_as_spark_shows(path) == uri
