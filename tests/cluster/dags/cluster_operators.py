"""Every operator once, and jobs of spark-submit; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, chain

from airflow_provider_cdc.operators.archives import ArchiveChanges
from airflow_provider_cdc.operators.change_streams import (
    AdvanceChangeStream,
    AlterChangeStream,
    CreateChangeStream,
    DropChangeStream,
)
from airflow_provider_cdc.operators.change_tracking import EnableChangeTracking
from airflow_provider_cdc.operators.changes import ExportChanges
from airflow_provider_cdc.operators.consumptions import ConsumeStreams
from airflow_provider_cdc.operators.history import ApplyChanges, RebuildHistory
from airflow_provider_cdc.operators.maintenance import MaintainStreams, RecoverStream
from airflow_provider_cdc.operators.monitor import CheckStreams
from airflow_provider_cdc.operators.partitions import (
    ListPartitions,
    ReadPartition,
    SettlePartitions,
)
from airflow_provider_cdc.operators.stream import (
    AdvanceStream,
    ConsumeStream,
    CreateStream,
    DropStream,
)
from airflow_provider_cdc.operators.stream_administration import (
    AbortConsumption,
    AlterStream,
    CloneStream,
    RewindStream,
    UndropStream,
)
from airflow_provider_cdc.operators.upsert_tables import (
    AddColumns,
    AlterUpsertTable,
    CreateUpsertTable,
    DropUpsertTable,
)
from airflow_provider_cdc.operators.upserts import (
    ApplyUpserts,
    ExportTable,
    RedriveChanges,
    WriteChanges,
)
from airflow_provider_cdc.operators.verification import VerifyTarget
from airflow_provider_cdc.sensors.change_streams import PartitionsReadySensor
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")
SOURCE, COPY, HISTORY = f"{TABLES}/src", f"{TABLES}/copy", f"{TABLES}/history"
ARCHIVE, UPSERTS = f"{TABLES}/archive", f"{TABLES}/upserts"
FIVE = "INSERT INTO delta.`{target}` SELECT id, v FROM {stream}"
# An attempt of any task may fail on a busy machine; its changes still apply exactly once.
RETRIES = {"retries": 1, "retry_delay": timedelta(seconds=1)}


def copied(stream: str, target: str) -> str:
    """The statement that appends the inserted rows of ``stream``."""
    return FIVE.format(stream=stream, target=f"{TABLES}/{target}")


with DAG("cluster_streams", schedule=None, default_args=RETRIES):
    chain(
        EnableChangeTracking(task_id="track", table=SOURCE),
        CreateStream(task_id="create", stream="s", on_table=SOURCE, show_initial_rows=True),
        CloneStream(task_id="clone", stream="s_clone", of="s"),
        CloneStream(task_id="clone_again", stream="s_many", of="s"),
        AlterStream(task_id="alter", stream="s_clone", comment="a clone"),
        StreamHasDataSensor(task_id="wait", stream="s", deferrable=True, poke_interval=5),
        ConsumeStream(task_id="consume", stream="s", sql=copied("s", "consumed")),
        ConsumeStreams(
            task_id="consume_many",
            consumptions=[{"stream": "s_many", "sql": copied("s_many", "consumed_many")}],
        ),
        AdvanceStream(task_id="advance", stream="s_clone"),
        RewindStream(task_id="rewind", stream="s_clone", to={"version": 1}),
        DropStream(task_id="drop", stream="s_clone"),
        UndropStream(task_id="undrop", stream="s_clone"),
        ExportChanges(
            task_id="export", source=SOURCE, target=f"{TABLES}/exported", at={"version": 0}
        ),
        CheckStreams(task_id="check", notifiers=[]),
        MaintainStreams(task_id="maintain"),
        AbortConsumption(task_id="abort", stream="s"),
    )

with DAG("cluster_targets", schedule=None, default_args=RETRIES):
    chain(
        CreateStream(task_id="create", stream="c", on_table=SOURCE, show_initial_rows=True),
        ApplyChanges(task_id="copy", stream="c", target=COPY, keys=["id"]),
        VerifyTarget(task_id="verify", stream="c", target=COPY, key="id"),
        RecoverStream(task_id="recover", stream="c", target=COPY, key="id"),
        ArchiveChanges(task_id="archive", table=SOURCE, archive=ARCHIVE),
        CreateStream(
            task_id="create_feed",
            stream="h",
            on_table=SOURCE,
            mode="feed",
            show_initial_rows=True,
        ),
        ApplyChanges(task_id="history", stream="h", target=HISTORY, keys=["id"], scd_type=2),
        RebuildHistory(task_id="rebuild", target=HISTORY, archive=ARCHIVE, stream="h"),
    )

with DAG("cluster_upserts", schedule=None, default_args=RETRIES):
    chain(
        CreateUpsertTable(
            task_id="create", table=UPSERTS, schema="id INT, v STRING", primary_key="id"
        ),
        WriteChanges(
            task_id="write",
            table=UPSERTS,
            query=f"SELECT id, v, 'UPSERT' AS _CHANGE_TYPE FROM delta.`{SOURCE}`",
        ),
        ApplyUpserts(task_id="apply", table=UPSERTS),
        AddColumns(task_id="add", table=UPSERTS, schema="phone STRING"),
        AlterUpsertTable(task_id="alter", table=UPSERTS, max_staleness="PT1H"),
        RedriveChanges(task_id="redrive", table=UPSERTS),
        ExportTable(task_id="export", table=UPSERTS, target=f"{TABLES}/upserts_exported"),
        DropUpsertTable(task_id="drop", table=UPSERTS),
    )

with DAG("cluster_change_streams", schedule=None, default_args=RETRIES):
    watched = {f"{TABLES}/watched": {"keys": ["id"], "columns": "ALL"}}
    partitions = ListPartitions(task_id="list", change_stream="cs", consumer="reader")
    chain(
        CreateChangeStream(task_id="create", change_stream="cs", tables=watched),
        AlterChangeStream(task_id="alter", change_stream="cs", comment="on a cluster"),
        CreateStream(task_id="create_source", stream="w", on_table=SOURCE, show_initial_rows=True),
        ConsumeStream(task_id="change", stream="w", sql=copied("w", "watched")),
        AdvanceChangeStream(task_id="advance", change_stream="cs"),
        PartitionsReadySensor(
            task_id="ready", change_stream="cs", consumer="reader", poke_interval=5
        ),
        partitions,
        ReadPartition.partial(
            task_id="read",
            change_stream="cs",
            consumer="reader",
            sql=f"INSERT INTO delta.`{TABLES}/mods` SELECT mod_type FROM mods",
        ).expand(token=partitions.output),
        SettlePartitions(task_id="settle", change_stream="cs", consumer="reader"),
        DropChangeStream(task_id="drop", change_stream="cs"),
    )

with DAG("cluster_submit", schedule=None, default_args={**RETRIES, "conn_id": "cdc_cluster"}):
    chain(
        CreateStream(task_id="create", stream="p", on_table=SOURCE, show_initial_rows=True),
        ConsumeStream(task_id="consume", stream="p", sql=copied("p", "submitted")),
        ApplyChanges(
            task_id="copy",
            query=f"SELECT id, v, 1 AS seq FROM delta.`{SOURCE}`",
            target=f"{TABLES}/submitted_copy",
            keys=["id"],
            sequence_by="seq",
        ),
    )
