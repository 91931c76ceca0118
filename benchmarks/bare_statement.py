"""An application for spark-submit that runs the statement in its argument and does nothing else."""

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    spark.sql(sys.argv[1])
    spark.stop()
