"""The log lines of a job's result."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from streams import new_stream

from airflow_provider_cdc.engine.core.errors import InvalidRequest, message_lines
from airflow_provider_cdc.engine.core.model.outcomes import Outcome
from airflow_provider_cdc.engine.core.model.stream_spec import StreamSpec
from airflow_provider_cdc.engine.core.retention.table_retention import Maintenance, SourceRetention
from airflow_provider_cdc.engine.core.upserts.write_result import WriteResult
from airflow_provider_cdc.jobs.answer_lines import answer_lines
from airflow_provider_cdc.jobs.entry_point import keep_jars
from airflow_provider_cdc.jobs.model import (
    Answer,
    ConsumeStream,
    ConsumeStreams,
    ConsumptionResult,
    CreateStream,
    ExportChanges,
    JobError,
    MaintainStreams,
    ReadStream,
    Request,
    StreamHasData,
    StreamRows,
)
from airflow_provider_cdc.jobs.upsert_tasks import (
    ApplyUpserts,
    DropUpsertTable,
    RedriveChanges,
    WriteChanges,
)


def lines_of(task, **answer):
    request = Request("0" * 32, "/state", task)
    return answer_lines(request, Answer(request.request_id, **answer))


@pytest.mark.parametrize(
    ("task", "answer", "line"),
    [
        (StreamHasData("s"), {"has_data": False}, "stream s: has no data"),
        (ReadStream("s", 20), {"rows": StreamRows(("id",), ("{}",))}, "stream s: read 1 row"),
        (ExportChanges("t", "/u", "id"), {}, "changes of t: are written to /u"),
        (
            WriteChanges("t", "SELECT 1", "id"),
            {"written": WriteResult(12, 1, 3, is_repeated=False)},
            "upsert table t: wrote 12 changes, 1 of them bad",
        ),
        (DropUpsertTable("t"), {}, "upsert table t: is dropped"),
        (ApplyUpserts("t"), {}, "upsert table t: no change waits"),
        (RedriveChanges("t"), {"redriven": 1}, "upsert table t: released 1 change from quarantine"),
        (
            CreateStream(StreamSpec(name="s", on_table="flights")),
            {"stream": new_stream("s")},
            "stream s: is on flights, at version 0",
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_job_reports_its_result_in_one_line(task, answer, line):
    assert lines_of(task, **answer) == (line,)


def test_consumption_is_not_reported_twice():
    assert lines_of(ConsumeStream(("INSERT INTO t SELECT * FROM s",), "me")) == ()


def test_many_consumptions_report_how_many_of_them_ended_in_which_way():
    outcome = Outcome("id", "c", (), (), 1.0)
    error = JobError("statement_failed", "failed", True)
    found = (
        ConsumptionResult("a", ("s",), outcome),
        ConsumptionResult("b", ("t",), error=error),
        ConsumptionResult("c", ("u",)),
    )

    assert lines_of(ConsumeStreams(()), consumptions=found) == (
        "3 consumptions: 1 done, 1 without data, 1 failed",
    )
    assert lines_of(ConsumeStreams(()), consumptions=found[:1]) == ("1 consumption: 1 done",)
    assert lines_of(ConsumeStreams(())) == ("0 consumptions: nothing to do",)


def test_maintenance_reports_the_retention_and_streams_of_each_source():
    week, day = timedelta(weeks=1), timedelta(days=1)
    sources = (
        SourceRetention("/a", week, None, (), 0, has_changed=False),
        SourceRetention("/b", week, week + day, ("s", "t"), 3_200_000, has_changed=True),
        SourceRetention("/c", None, None, (), 0, has_changed=False, problem="cannot be altered"),
    )

    assert lines_of(MaintainStreams(day), maintenance=Maintenance(("u",), sources)) == (
        "stream u: has no data, its offset moved",
        "/a: keeps 1 week by itself what its streams need",
        "/b: keeps 1 week by itself, and 1 week 1 day for s, t;"
        " 3.2 MB of removed files are kept for that",
        "/c: cannot be altered",
    )


def test_error_message_has_one_line_each_for_problem_cause_and_fix():
    error = InvalidRequest("stream s", "is\n  stale", cause="expected a\nb", fix="do c")

    assert message_lines(str(error)) == (
        "stream s: is stale.",
        "Cause: expected a b.",
        "Fix: do c.",
    )
    assert message_lines("nothing else") == ("nothing else",)


def test_driver_saves_the_list_of_jars_that_spark_uses(tmp_path, caplog):
    conf = {"spark.jars": "file:///a.jar,file:///b.jar"}
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))

    keep_jars(spark, None)
    assert list(tmp_path.iterdir()) == []

    keep_jars(spark, str(tmp_path / "jars.json"))
    assert json.loads((tmp_path / "jars.json").read_text()) == ["file:///a.jar", "file:///b.jar"]
    assert [file.name for file in tmp_path.iterdir()] == ["jars.json"]

    keep_jars(spark, str(tmp_path / "nowhere" / "jars.json"))
    assert "the next job asks Ivy again" in caplog.text
