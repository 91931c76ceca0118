"""A driver that is killed at any point of the protocol loses and doubles nothing."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
from drivers import DRIVER_SECONDS, Point, Site, Workshop, running, selected_points
from stream_lab import Crash, CrashAt, point_name

from airflow_provider_cdc.engine import ProtocolPoint

pytestmark = pytest.mark.timeout(2 * DRIVER_SECONDS)

CONSUMING = [
    (ProtocolPoint.BEFORE_BEGIN, None),
    (ProtocolPoint.AFTER_BEGIN, None),
    (ProtocolPoint.BEFORE_STATEMENT, 0),
    (ProtocolPoint.AFTER_STATEMENT, 0),
    (ProtocolPoint.BEFORE_STATEMENT, 1),
    (ProtocolPoint.AFTER_STATEMENT, 1),
    (ProtocolPoint.BEFORE_COMMIT, None),
    (ProtocolPoint.AFTER_COMMIT, None),
]
RESOLVING = [
    (ProtocolPoint.BEFORE_FENCE, 1),
    (ProtocolPoint.AFTER_FENCE, 1),
    (ProtocolPoint.BEFORE_UNDO, 0),
    (ProtocolPoint.AFTER_UNDO, 0),
]
USES = ("retry", "takeover")
# The tests of the protocol crash at every point, without killing a process.
IN_CI = pytest.mark.in_ci("after_begin", "after_statement 0", "before_commit", "*_undo 0")

Sites = Mapping[tuple[Point, str], Site]


@pytest.fixture(scope="module")
def killed(request: pytest.FixtureRequest, workshop: Workshop) -> Sites:
    """The sites of a killed driver, by the point it had reached on a site and by the site's use.

    The driver consumes all of them at once, and is killed when it has reached the point of each
    one: so a dozen points cost one JVM.
    """
    points = selected_points(request)
    sites = {(point, use): prepared(workshop, point) for point in points for use in USES}
    halts = {site: point for (point, _), site in sites.items()}
    driver = workshop.driver("killed", halts, is_killed=True)
    with running(driver):
        printed = driver.end()
    assert driver.process.returncode == -signal.SIGKILL, (printed, driver.errors())
    assert printed == []
    return sites


def prepared(workshop: Workshop, point: Point) -> Site:
    site = workshop.site()
    if point in RESOLVING:
        lost = site.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 1))
        with pytest.raises(Crash):
            lost.consume(site.texts(), consumer="lost")
    return site


@IN_CI
@pytest.mark.parametrize("point", CONSUMING + RESOLVING, ids=point_name)
def test_driver_killed_and_retried_applies_every_change_once(killed: Sites, point: Point) -> None:
    site = killed[point, "retry"]

    site.consume(*site.texts(), consumer="killed")

    site.check()


@IN_CI
@pytest.mark.parametrize("point", CONSUMING + RESOLVING, ids=point_name)
def test_driver_killed_and_taken_over_applies_every_change_once(
    killed: Sites, point: Point
) -> None:
    site = killed[point, "takeover"]
    another = "lost" if point in RESOLVING else "another"

    site.consume(*site.texts(), consumer=another)

    site.check()
