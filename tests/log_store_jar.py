"""Makes the jar of the log store for S3: ``python tests/log_store_jar.py``.

Spark ships with the Java compiler Janino, so no JDK is needed.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark.sql import SparkSession
from shared_jvm import session_builder

from airflow_provider_cdc.engine import log_store

SOURCE = Path(log_store.__file__).with_name("ConditionalPutLogStore.java")
_JAVA_VERSION = 8
_EPOCH = (1980, 1, 1, 0, 0, 0)


def classes_in_jar() -> dict[str, bytes]:
    """The content of the jar that the package ships, by name."""
    with zipfile.ZipFile(log_store.jar()) as jar:
        return {name: jar.read(name) for name in jar.namelist()}


def compiled_classes(spark: SparkSession) -> dict[str, bytes]:
    """The classes of :data:`SOURCE`, compiled in the JVM of a classic session with Delta."""
    context = spark.sparkContext
    jvm = context._jvm

    def files(paths: Sequence[str]) -> Any:
        listed = context._gateway.new_array(jvm.java.io.File, len(paths))
        for index, path in enumerate(paths):
            listed[index] = jvm.java.io.File(path)
        return listed

    with tempfile.TemporaryDirectory() as name:
        compiler = jvm.org.codehaus.janino.Compiler()
        compiler.setClassPath(files(_jars(spark)))
        compiler.setDestinationDirectory(jvm.java.io.File(name), False)
        compiler.setSourceVersion(_JAVA_VERSION)
        compiler.setTargetVersion(_JAVA_VERSION)
        compiler.compile(files([str(SOURCE)]))
        folder = Path(name)
        return {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*.class"))
        }


def _jars(spark: SparkSession) -> list[str]:
    """The jars of Spark and of the session."""
    own = spark.sparkContext.getConf().get("spark.jars", "")
    return [
        *map(str, (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")),
        *(unquote(urlsplit(jar).path) for jar in own.split(",")),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as warehouse:
        spark = session_builder(Path(warehouse)).getOrCreate()
        classes = compiled_classes(spark)
        spark.stop()
    with zipfile.ZipFile(log_store.jar(), "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in classes.items():
            jar.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    print(f"{log_store.jar()}: {len(classes)} class(es)")


if __name__ == "__main__":
    main()
