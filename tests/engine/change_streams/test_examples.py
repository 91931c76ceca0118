"""The examples of Spanner's documentation of change streams."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from change_stream_lab import ChangeStreamLab, children
from pyspark.sql import Row

from airflow_provider_cdc.engine import ALL, Watch

TYPES = [
    {
        "name": "AccountId",
        "type": {"code": "STRING"},
        "is_primary_key": True,
        "ordinal_position": 1,
    },
    {
        "name": "LastUpdate",
        "type": {"code": "TIMESTAMP"},
        "is_primary_key": False,
        "ordinal_position": 2,
    },
    {
        "name": "Balance",
        "type": {"code": "INT"},
        "is_primary_key": False,
        "ordinal_position": 3,
    },
]


def as_json(record: Row) -> dict[str, Any]:
    """A data change record as the documentation prints it."""
    found = record.asDict(recursive=True)
    found["commit_timestamp"] = text(found["commit_timestamp"])
    for column in found["column_types"]:
        column["type"] = json.loads(column["type"])
    found["mods"] = [
        {name: json.loads(value) for name, value in mod.items()} for mod in found["mods"]
    ]
    return found


def text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def written_at(lab: ChangeStreamLab, table: str, moment: datetime) -> None:
    """Let the commits of a table seem to be written one after the other from a time on."""
    for number, path in enumerate(sorted(Path(lab.path(table), "_delta_log").glob("*.json"))):
        seconds = moment.timestamp() + number
        os.utime(path, (seconds, seconds))


def test_transfer_between_two_accounts_gives_the_documented_records(lab: ChangeStreamLab) -> None:
    lab.make(
        "AccountBalance",
        "AccountId STRING, LastUpdate TIMESTAMP, Balance BIGINT",
        "INSERT INTO {t} VALUES"
        " ('Id1', TIMESTAMP'2022-09-26T11:28:00.189413Z', 1500),"
        " ('Id2', TIMESTAMP'2022-01-20T11:25:00.199915Z', 1500)",
        properties="'delta.enableRowTracking' = 'true'",
    )
    # The commit's own time is before the creation, so its stamp is the next microsecond.
    lab.stopped = datetime(2022, 9, 27, 12, 30, 0, 123455, UTC)
    watched = {"AccountBalance": Watch(keys=["AccountId"], columns=ALL)}
    lab.create(watched, partitions=64, int64_as="number")
    lab.sql(
        "UPDATE {AccountBalance} SET LastUpdate = TIMESTAMP'2022-09-27T12:30:00.123456Z',"
        " Balance = CASE AccountId WHEN 'Id1' THEN 1000 ELSE 2000 END"
    )
    written_at(lab, "AccountBalance", lab.stopped - timedelta(minutes=1))
    lab.advance()

    first, second = sorted(
        map(as_json, lab.records()), key=lambda each: each["mods"][0]["keys"]["AccountId"]
    )

    assert {first["record_sequence"], second["record_sequence"]} == {"00000000", "00000001"}
    transaction = first["server_transaction_id"]
    for found, account, balance, old in (
        (first, "Id1", 1000, "2022-09-26T11:28:00.189413Z"),
        (second, "Id2", 2000, "2022-01-20T11:25:00.199915Z"),
    ):
        assert found == {
            "commit_timestamp": "2022-09-27T12:30:00.123456Z",
            "record_sequence": found["record_sequence"],
            "server_transaction_id": transaction,
            "is_last_record_in_transaction_in_partition": True,
            "table_name": lab.path("AccountBalance"),
            "column_types": TYPES,
            "mods": [
                {
                    "keys": {"AccountId": account},
                    "new_values": {
                        "LastUpdate": "2022-09-27T12:30:00.123456Z",
                        "Balance": balance,
                    },
                    "old_values": {"LastUpdate": old, "Balance": 1500},
                }
            ],
            "mod_type": "UPDATE",
            "value_capture_type": "OLD_AND_NEW_VALUES",
            "number_of_records_in_transaction": 2,
            "number_of_partitions_in_transaction": 2,
        }


def test_heartbeat_is_the_documented_one(lab: ChangeStreamLab) -> None:
    lab.stopped = datetime(2022, 9, 27, 12, 30, tzinfo=UTC)
    lab.create({"src": Watch(keys=["id"])})
    (token,) = lab.tokens(lab.stopped)
    lab.stopped = datetime(2022, 9, 27, 12, 35, 0, 312486, UTC)
    lab.advance()

    (row,) = lab.read("2022-09-27T12:30:00Z", partition_token=token)

    (heartbeat,) = row.heartbeat_record
    assert text(heartbeat.timestamp) == "2022-09-27T12:35:00.312486Z"


def test_walk_over_three_partitions_to_a_merge_is_the_documented_one(lab: ChangeStreamLab) -> None:
    lab.stopped = datetime(2022, 5, 1, 9, 0, 1, tzinfo=UTC)
    lab.create({"src": Watch(keys=["id"])}, partitions=3)
    start = "2022-05-01 09:00:01-00:00"
    first, second, third = lab.tokens(lab.stopped)
    lab.stopped = datetime(2022, 5, 1, 9, 30, 15, tzinfo=UTC)
    lab.engine.merge_partitions("cs", [second, third])
    lab.advance()

    of_second, of_third = (lab.read(start, partition_token=token) for token in (second, third))

    assert of_second == of_third
    (row,) = of_second
    (record,) = row.child_partitions_record
    assert text(record.start_timestamp) == "2022-05-01T09:30:15.000000Z"
    (child,) = children(row)
    assert child.parent_partition_tokens == [second, third]
    assert child.token not in (first, second, third)
    (open_one,) = lab.read(start, partition_token=first)
    assert open_one.heartbeat_record is not None
    (begun,) = lab.read("2022-05-01 09:30:15-00:00", partition_token=child.token)
    assert begun.heartbeat_record is not None
