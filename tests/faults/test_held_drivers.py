"""A driver that sleeps while another consumer takes over fails when it wakes up, and changes
nothing.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from drivers import DRIVER_SECONDS, LOG, SUMS, Site, Workshop, running

from airflow_provider_cdc.engine import ProtocolPoint

pytestmark = pytest.mark.timeout(2 * DRIVER_SECONDS)

# This statement runs longer than its driver is held.
SLOW_LOG = (
    LOG.replace("SELECT id,", "SELECT /*+ COALESCE(1) */ id,")
    + " WHERE id < 5 OR reflect('java.lang.Thread', 'sleep', 45000L) IS NULL OR id = 5"
)
_LOOKS = 3000


@pytest.mark.thorough
def test_driver_held_before_or_in_a_statement_changes_nothing_on_waking(
    workshop: Workshop,
) -> None:
    inside = workshop.site()
    points = {workshop.site(): (ProtocolPoint.BEFORE_STATEMENT, index) for index in (0, 1)}
    sites = [*points, inside]
    slow = {inside: [SLOW_LOG, SUMS]}
    known = data_files(inside, "log")
    driver = workshop.driver("sleeper", {**points, inside: None}, statements=slow)
    with running(driver):
        assert driver.line() == {"kind": "waiting"}
        wait_for_another_file(inside, "log", known)
        driver.send(signal.SIGSTOP)
        for site in sites:
            site.consume(*site.texts(), consumer="another")
            site.check()
        driver.send(signal.SIGCONT)
        driver.go()
        printed = driver.end()

    assert [line["kind"] for line in printed] == ["stream_conflict"] * 3, printed
    assert all("of sleeper" in line["message"] for line in printed)
    for site in sites:
        site.check()


def data_files(site: Site, table: str) -> set[Path]:
    return set(Path(site.path(table)).glob("*.parquet"))


def wait_for_another_file(site: Site, table: str, known: set[Path]) -> None:
    """Wait until the statement writes its data: it has read the table's version by then."""
    for _ in range(_LOOKS):
        if data_files(site, table) - known:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"no data file came into {site.path(table)}")
