"""Reading the net changes of every workload in every way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan
from airflow_provider_cdc.engine.spark.session.session_settings import settings

from . import flights, iceberg_process
from .readers import READERS, Reader
from .results import Row
from .shapes import Shape, Workload
from .tables import Bench, Workshop
from .timing import Patience, Timing, read_all, timed_at_best, timed_in_turns


class Measurement:
    """Measures readers on workloads.

    :param part_of_name: only readers whose names contain it
    """

    def __init__(
        self, spark: SparkSession, workshop: Workshop, patience: Patience, part_of_name: str
    ) -> None:
        self._spark = spark
        self._workshop = workshop
        self._patience = patience
        self._readers = [item for item in READERS if part_of_name in item.name]
        self._has_iceberg = part_of_name in iceberg_process.NAME

    def workload(self, workload: Workload) -> Iterator[Row]:
        """Measure every reader on a workload. Iceberg's view cannot read tables with delete files,
        so it reads copy-on-write tables, once for the workload with deletion vectors and the one
        without.
        """

        if self._readers:
            yield from self._rows(workload.name, self._workshop.build(workload))
        if self._has_iceberg and not workload.has_vectors and self._is_worth(workload):
            timing = iceberg_process.measure(workload, self._patience)
            yield Row(workload.name, iceberg_process.NAME, timing)

    def _is_worth(self, workload: Workload) -> bool:
        """Whether to start Iceberg's process. A smoke test starts it only for rows that are
        rewritten and for rows that are reordered, which are the hardest to net.
        """
        return self._patience.is_thorough or workload.shape in {Shape.SPREAD, Shape.OPTIMIZE}

    def flights(self, days: int) -> Iterator[Row]:
        """Measure every reader except Iceberg's on the flights of the first days of 2013."""
        bench = flights.build(self._spark, self._workshop.new_folder(), days)
        yield from self._rows(flights.NAME, bench)

    def _rows(self, name: str, bench: Bench) -> Iterator[Row]:
        touched = bench.touched_bytes

        def read(item: Reader, given: Mapping[str, str]) -> None:
            with settings(self._spark, given):
                read_all(item.read(self._spark, bench))

        in_turns = [item for item in self._readers if item.takes_turns]
        works = [partial(read, item, item.settings[0]) for item in in_turns]
        timings = timed_in_turns(self._spark, works, self._patience)
        for item, timing in zip(in_turns, timings, strict=True):
            yield self._row(name, item, bench, timing, touched)
        for item in self._readers:
            if not item.takes_turns:
                ways = [partial(read, item, given) for given in item.settings]
                timing = timed_at_best(self._spark, ways, self._patience)
                yield self._row(name, item, bench, timing, touched)
        shutil.rmtree(bench.root)
        # Spark removes shuffled data when the JVM has collected the references to it.
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None
        jvm.java.lang.System.gc()

    def _row(self, name: str, item: Reader, bench: Bench, timing: Timing, touched: int) -> Row:
        if not timing.is_lower_bound:
            self._check(item, bench)
        plan = "" if item.plan is None else _plan_text(item.plan(self._spark, bench))
        return Row(name, item.name, timing, touched, plan)

    def _check(self, item: Reader, bench: Bench) -> None:
        if item.counted is None:
            return
        with settings(self._spark, item.settings[0]):
            counted = item.counted(item.read(self._spark, bench))
        if counted != bench.expected:
            raise AssertionError(f"{item.name} found {counted}, expected {bench.expected}")


def _plan_text(plan: ReadPlan) -> str:
    by = plan.strategy.value.replace("_", " ")
    return f"{by}, {plan.file_count:,} files, {plan.size_bytes / 1e6:.1f} MB"
