"""Change sets of tables on S3, read by the executors of a cluster."""

from __future__ import annotations

import random

import pytest
from cluster_lab import ClusterLab

WRITES = 8


def a_write(chance: random.Random) -> str:
    key = chance.randrange(60)
    return chance.choice(
        [
            f"INSERT INTO {{t}} SELECT CAST(id AS INT), 'new' FROM range({60 + key}, {70 + key})",
            f"UPDATE {{t}} SET v = concat(v, '+') WHERE id % 7 = {key % 7}",
            f"DELETE FROM {{t}} WHERE id BETWEEN {key} AND {key + 3}",
            f"MERGE INTO {{t}} t USING (SELECT CAST(id AS INT) id FROM range({key}, {key + 9})) c"
            " ON t.id = c.id WHEN MATCHED AND c.id % 2 = 0 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = 'merged'"
            " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (c.id, 'added')",
            "OPTIMIZE {t}",
        ]
    )


@pytest.mark.in_ci("true")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_change_set_on_s3_is_the_difference_of_versions(lab: ClusterLab, vectors: str) -> None:
    chance = random.Random(f"s3 {vectors}")
    lab.sql(
        "CREATE TABLE {t} (id INT, v STRING) USING delta TBLPROPERTIES ("
        f"'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = '{vectors}')",
        "INSERT INTO {t} SELECT CAST(id AS INT), 'old' FROM range(0, 60, 1, 4)",
    )
    lab.engine.create_stream("s", on_table=lab.path("t"))
    after = lab.version("t")

    lab.sql(*(a_write(chance) for _ in range(WRITES)))

    expected = lab.expected_changes("t", after, lab.version("t"))
    assert len(expected) > WRITES
    assert lab.changes("s") == expected
