"""Two drivers of different consumers at once: one wins, and every change is applied once."""

from __future__ import annotations

import pytest
from drivers import DRIVER_SECONDS, Workshop, running

pytestmark = pytest.mark.timeout(2 * DRIVER_SECONDS)


def test_two_drivers_of_two_consumers_at_once_apply_every_change_once(workshop: Workshop) -> None:
    site = workshop.site()
    drivers = [workshop.driver(name, {site: None}, waits=True) for name in ("one", "two")]
    with running(*drivers):
        for driver in drivers:
            assert driver.line() == {"kind": "waiting"}
        for driver in drivers:
            driver.go()
        printed = [line for driver in drivers for line in driver.end()]

    kinds = sorted(line["kind"] for line in printed)
    assert kinds in (["committed", "stream_conflict"], ["committed", "committed"]), printed
    site.check()
