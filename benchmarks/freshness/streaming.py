"""A Structured Streaming job that merges each micro-batch of a source, until its input ends.

Its arguments are the location of the source, the statement, and a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from ..session import new_session

VIEW = "batch_of_changes"


def main(source: str, statement: str, folder: str) -> None:
    """Run the job. A line says that it runs."""
    spark = new_session(Path(folder))

    def merge(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView(VIEW)
        batch.sparkSession.sql(statement)

    query = (
        spark.readStream.format("delta")
        .load(source)
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="1 second")
        .start()
    )
    print("ready", flush=True)
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
