"""Functions as users write them, for a job to find by name and to call."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_cdc.engine import Transaction

NOT_A_FUNCTION = 1
# The path of the target, which a test sets.
TARGET: list[str] = []


def join_both(changes: DataFrame, numbers: DataFrame, transaction: Transaction) -> None:
    """Write the join of the change sets of two streams."""
    assert transaction.sql("SELECT count(*) FROM s").collect()[0][0] == 2
    found = changes.join(numbers, "id").selectExpr("id", "v", "CAST(n AS STRING) AS action")
    transaction.write(found, TARGET[0])


def fail(changes: DataFrame, transaction: Transaction) -> None:
    """Write, then fail."""
    rows = changes.selectExpr("id", "v", "`METADATA$ACTION` AS action")
    transaction.write(rows, TARGET[0])
    raise LookupError("no rate for this day")


def misspell(changes: DataFrame, _: Transaction) -> None:
    """Select a column that the changes do not have."""
    changes.select("nope")
