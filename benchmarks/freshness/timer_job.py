"""The job that a timer submits: it merges what is new in a source, and ends.

Its argument is the name of the source. It is written as one would write it by hand.
"""

import sys

from pyspark.sql import SparkSession


def main(name):
    """Merge all that is new, by a checkpoint."""
    spark = SparkSession.builder.getOrCreate()
    tables = spark.conf.get("spark.benchmark.tables")

    def merge(batch, _):
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{tables}/{name}_copy` AS target USING changes AS change"
            " ON target.id = change.id WHEN MATCHED THEN UPDATE SET name = change.name"
            " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (change.id, change.name)"
        )

    (
        spark.readStream.format("delta")
        .load(f"{tables}/{name}")
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", f"{tables}/{name}_checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
