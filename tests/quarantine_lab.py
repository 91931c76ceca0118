"""An upsert table whose bad changes wait in quarantine, for tests."""

from __future__ import annotations

from typing import Any

from upsert_lab import UpsertLab

from airflow_provider_cdc.engine import StreamCatalog

BAD = "no number"
"""Text that is not a sequence number."""


class QuarantineLab(UpsertLab):
    """An upsert table whose bad changes go to quarantine."""

    def send(self, *rows: tuple[Any, ...]) -> None:
        self.engine.write_changes(self.table(), self.frame(rows), on_bad_rows="quarantine")

    def quarantine(self) -> str:
        return f"delta.`{self.table()}/_cdc/quarantine`"

    def held(self) -> list[tuple[Any, ...]]:
        """Key, salary and reason of the changes in quarantine, in the order of their ingestion."""
        found = self.spark.sql(
            f"SELECT ID, Salary, _cdc_reason FROM {self.quarantine()}"
            " WHERE _cdc_redrive IS NULL ORDER BY _cdc_since, _cdc_order"
        )
        return [tuple(row) for row in found.collect()]

    def engine_catalog(self) -> StreamCatalog:
        return StreamCatalog(str(self.root / "state"))

    def counted(self, outcome: Any) -> tuple[int, int]:
        """The numbers of held and of late changes that an apply reports."""
        metrics = outcome.statements[-1].metrics
        return metrics["heldChanges"], metrics["lateChanges"]

    def correct(self, salary: int, number: str | None) -> None:
        value = "NULL" if number is None else f"'{number}'"
        self.sql(
            f"UPDATE {self.quarantine()} SET _CHANGE_SEQUENCE_NUMBER = {value}"
            f" WHERE Salary = {salary}"
        )

    def apply_all(self) -> list[tuple[Any, ...]]:
        """The rows after an apply, once they equal those that a read showed before it."""
        expected = self.read()
        self.apply()
        assert self.read() == self.applied() == expected
        return expected
