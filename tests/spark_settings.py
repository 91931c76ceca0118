"""How Spark is set up in tests: for small tables, many of them, one after the other."""

from __future__ import annotations

# A process of a few seconds runs much code, few times: the JVM's second compiler would cost more
# than it gives. Without that compiler the JVM would reserve too little for compiled code, and stop
# compiling. Sessions of many tests use both: after three minutes a statement takes a third less.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# For any process. Jobs under Airflow and the demo run with Spark's own settings instead.
SHARED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists with it
    "spark.sql.files.openCostInBytes": "65536",
    # Small queries cost more to compile than to run.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "3g",
    # Delta keeps what it knows of a table for an hour: half an hour of tests fills the heap, and
    # collecting it takes a fifth of the time.
    "spark.databricks.delta.delta.log.cacheSize": "50",
    # Each small table that is broadcast takes a page: of 64 MB, were it left to Spark.
    "spark.buffer.pageSize": "1m",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SHORT_LIVED = SHARED | {"spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {FIRST_COMPILER}"}
# For a process that writes its tables alone. Without Hadoop's native library each permission and
# each link costs a process, 10 ms: Delta's own store asks for the links of every file that it
# lists, the checksums of Hadoop and of Delta double the files.
ALONE = SHARED | {
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
