"""A driver that sleeps while another consumer takes over wakes up, fails and changes nothing."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from drivers import DRIVER_SECONDS, LOG, SUMS, Site, Workshop, running

from airflow_provider_cdc.engine import ProtocolPoint

pytestmark = pytest.mark.timeout(2 * DRIVER_SECONDS)

SLOW_LOG = (
    LOG.replace("SELECT id,", "SELECT /*+ COALESCE(1) */ id,")
    + " WHERE id < 5 OR reflect('java.lang.Thread', 'sleep', 10000L) IS NULL OR id = 5"
)
_LOOKS = 3000


def test_driver_stopped_before_a_statement_changes_nothing_when_it_wakes_up(
    workshop: Workshop,
) -> None:
    sites = {workshop.site(): (ProtocolPoint.BEFORE_STATEMENT, index) for index in (0, 1)}
    driver = workshop.driver("sleeper", sites, signal="SIGSTOP")
    with running(driver):
        driver.wait_until_stopped()
        for site in sites:
            site.consume(*site.texts(), consumer="another")
            site.check()
        driver.send(signal.SIGCONT)
        printed = driver.end()

    assert [line["kind"] for line in printed] == ["stream_conflict"] * 2, printed
    assert all("of sleeper" in line["message"] for line in printed)
    for site in sites:
        site.check()


def test_driver_stopped_inside_a_statement_changes_nothing_when_it_wakes_up(
    workshop: Workshop,
) -> None:
    site = workshop.site()
    driver = workshop.driver("sleeper", {site: None}, statements=[SLOW_LOG, SUMS])
    with running(driver):
        wait_for_data_file(site, "log")
        driver.send(signal.SIGSTOP)
        site.consume(*site.texts(), consumer="another")
        site.check()
        driver.send(signal.SIGCONT)
        printed = driver.end()

    assert [line["kind"] for line in printed] == ["stream_conflict"], printed
    site.check()


def wait_for_data_file(site: Site, table: str) -> None:
    """Until the statement writes its data: then it has read the table's version and not
    committed.
    """
    folder = Path(site.path(table))
    known = set(folder.glob("*.parquet"))
    for _ in range(_LOOKS):
        if set(folder.glob("*.parquet")) - known:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"no data file came into {folder}")
