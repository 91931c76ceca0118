"""The settings of Spark in tests: for many small tables, one after the other."""

from __future__ import annotations

# A process of a few seconds runs much code, but each part only a few times: the JVM's second
# compiler would cost more than it saves. Without that compiler the JVM reserves too little memory
# for compiled code, and stops compiling. Sessions of many tests use both compilers: after three
# minutes a statement takes a third less time.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Five times the JVM's own thresholds. The second compiler compiles only what is used a lot: in six
# minutes of tests that saves an eighth of the processor time.
LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=25000 -XX:Tier4MinInvocationThreshold=3000"
    " -XX:Tier4CompileThreshold=75000 -XX:Tier4BackEdgeThreshold=200000"
)
# For any process; jobs under Airflow and the demo run with Spark's own settings instead.
SHARED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists with this
    "spark.sql.files.openCostInBytes": "65536",
    # Small queries take longer to compile than to run.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "3g",
    # By default Delta caches a table's state for an hour. Half an hour of tests would fill the
    # heap, and garbage collection would take a fifth of the time.
    "spark.databricks.delta.delta.log.cacheSize": "50",
    # Each small table that is broadcast takes a page, which is 64 MB by default.
    "spark.buffer.pageSize": "1m",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SHORT_LIVED = SHARED | {"spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {FIRST_COMPILER}"}
# For a process that alone writes its tables. Without Hadoop's native library, each permission and
# each link costs a process, 10 ms. Delta's own store reads the links of every file that it lists.
# The checksums of Hadoop and of Delta double the number of files.
ALONE = SHARED | {
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
