"""Each commit of a consumption says which versions of its sources it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scenes import DIM, LOG, NUMBERS, TRACKED
from stream_lab import StreamLab

from airflow_provider_cdc.engine import InvalidRange, StatementFailed, TableNotFound
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def metadata(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(USER_METADATA)


def held(lab: StreamLab, target: str, version: int | None = None) -> list[str]:
    """The sources of a target by the names of their folders, each with its versions."""
    found = lab.engine.provenance(lab.path(target), version)
    return [
        f"{Path(each.source.strip('`')).name} {', '.join(map(str, each.spans))}"
        for each in found.sources
    ]


def test_provenance_follows_statements_undos_and_restores(three: StreamLab) -> None:
    three.consume("INSERT INTO {sums} SELECT 1, count(*) FROM s", DIM)
    assert (held(three, "sums"), held(three, "other")) == (["src 1 to 2"], ["dim 1"])

    three.sql("INSERT INTO {src} VALUES (4, 'y')")
    with pytest.raises(StatementFailed):
        three.consume("INSERT INTO {sums} SELECT 1, count(*) FROM s", NUMBERS)
    undone_at = three.version("sums")
    assert held(three, "sums") == ["src 1 to 2"]

    three.consume("INSERT INTO {sums} SELECT 1, count(*) FROM s", consumer="again")
    assert held(three, "sums") == ["src 1 to 3"]
    assert held(three, "sums", undone_at) == ["src 1 to 2"]

    moment = three.committed_at("sums", undone_at)
    three.sql(f"RESTORE {{sums}} TO TIMESTAMP AS OF '{moment:%Y-%m-%d %H:%M:%S.%f%z}'")
    assert held(three, "sums") == ["src 1 to 2"]


@pytest.mark.usefixtures("metadata")
def test_note_of_a_commit_keeps_the_metadata_of_the_session(lab: StreamLab) -> None:
    lab.spark.conf.set(USER_METADATA, '{"run": 7}')
    lab.consume(LOG)
    log = DeltaLog(lab.path("log"), Files())
    assert json.loads(log.commit(1).user_metadata or "")["run"] == 7
    assert held(lab, "log") == ["src 1"]

    lab.spark.conf.set(USER_METADATA, "nightly load")
    lab.sql("INSERT INTO {src} VALUES (9, 'z')")
    lab.consume(LOG)
    assert log.commit(2).user_metadata == lab.spark.conf.get(USER_METADATA) == "nightly load"
    assert lab.engine.provenance(lab.path("log")).unknown_versions == (2,)


def test_provenance_of_a_target_with_all_rows_begins_at_the_first_version(lab: StreamLab) -> None:
    lab.engine.create_stream("all", on_table=lab.path("src"), show_initial_rows=True)
    lab.consume("CREATE TABLE {made} USING delta AS SELECT id, v FROM all")

    assert held(lab, "made") == ["src 0 to 1"]
    with lab.engine.transaction(consumer="tx") as transaction:
        transaction.write(transaction.stream("s").select("id", "v"), lab.path("made"))
    (through_all, through_s) = lab.engine.provenance(lab.path("made")).sources
    assert (through_all.stream, through_s.stream) == ("all", "s")


def test_delete_that_matches_no_row_is_noted(lab: StreamLab) -> None:
    lab.consume("DELETE FROM {log} WHERE id IN (SELECT id + 100 FROM s)")

    assert held(lab, "log") == ["src 1"]


def test_provenance_after_a_recovery_has_all_versions_of_the_new_source(lab: StreamLab) -> None:
    lab.make("copy", "id INT, v STRING")
    lab.consume("INSERT INTO {copy} SELECT id, v FROM s")
    shutil.rmtree(lab.path("src"))
    lab.make("src", "id INT, v STRING", "INSERT INTO {t} VALUES (7, 'new')", properties=TRACKED)
    lab.engine.recover_stream("s", lab.path("copy"), "id", consumer="repair")

    assert lab.rows("copy") == [(7, "new")]
    _, found = lab.engine.provenance(lab.path("copy")).sources
    assert str(*found.spans) == "0 to 1"


def test_provenance_of_what_does_not_exist_is_refused(lab: StreamLab) -> None:
    with pytest.raises(TableNotFound):
        lab.engine.provenance(lab.path("missing"))
    with pytest.raises(InvalidRange, match=r"its log holds versions 0 to 0"):
        lab.engine.provenance(lab.path("log"), 3)
    with pytest.raises(InvalidRange, match=r"expected 0 or more, found -1"):
        lab.engine.provenance(lab.path("log"), -1)
