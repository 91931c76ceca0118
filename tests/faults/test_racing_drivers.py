"""Two drivers of different consumers at once: every change is applied once."""

from __future__ import annotations

from drivers import Workshop, running

ALLOWED = {"committed", "stream_conflict", "consumption_open"}


def test_two_drivers_of_two_consumers_at_once_apply_every_change_once(workshop: Workshop) -> None:
    site = workshop.site()
    drivers = [workshop.driver(name, site, waits=True, insists=True) for name in ("one", "two")]
    with running(*drivers):
        for driver in drivers:
            assert driver.line() == {"kind": "waiting"}
        for driver in drivers:
            driver.go()
        printed = [driver.end() for driver in drivers]

    kinds = [[line["kind"] for line in lines] for lines in printed]
    assert all(set(found) <= ALLOWED for found in kinds), printed
    assert [found[-1] for found in kinds] == ["committed", "committed"], printed
    site.check()
