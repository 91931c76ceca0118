"""A driver that is killed at any point of the protocol loses nothing and doubles nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from drivers import DRIVER_SECONDS, Driver, Site, Workshop, running
from stream_lab import Crash, CrashAt

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
AT_ONCE = 2

Point = tuple[ProtocolPoint, int | None]
Sites = dict[str, Site]


def name(point: Point) -> str:
    return " ".join(str(part) for part in point if part is not None)


@pytest.fixture(scope="module")
def killed(
    request: pytest.FixtureRequest, workshop: Workshop
) -> Iterator[Mapping[Point, Future[Sites]]]:
    """The sites that a driver left when it was killed, by the point where it stood.

    Each driver stands there in two consumptions at once: one site is for the retry, the other for
    the takeover. Drivers start in the background, two at a time.
    """
    points = dict.fromkeys(
        item.callspec.params["point"]
        for item in request.session.items
        if item.module is request.module
    )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        work = {point: prepared(workshop, point) for point in points}
        yield {point: pool.submit(kill, workshop, point, work[point]) for point in points}
        pool.shutdown(cancel_futures=True)


def prepared(workshop: Workshop, point: Point) -> Sites:
    sites = {"retry": workshop.site(), "takeover": workshop.site()}
    if point in RESOLVING:
        for site in sites.values():
            lost = site.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 1))
            with pytest.raises(Crash):
                lost.consume(site.texts(), consumer="lost")
    return sites


def kill(workshop: Workshop, point: Point, sites: Sites) -> Sites:
    driver: Driver = workshop.driver(
        "killed", *sites.values(), point=point[0].value, statement_index=point[1]
    )
    with running(driver):
        printed = driver.end()
        assert printed == [], f"{name(point)} was not reached: {printed}"
        assert driver.process.returncode == -signal.SIGKILL, driver.errors()
    return sites


@pytest.mark.parametrize("point", CONSUMING + RESOLVING, ids=name)
def test_driver_killed_and_retried_applies_every_change_once(
    killed: Mapping[Point, Future[Sites]], point: Point
) -> None:
    site = killed[point].result()["retry"]

    site.consume(*site.texts(), consumer="killed")

    site.check()


@pytest.mark.parametrize("point", CONSUMING + RESOLVING, ids=name)
def test_driver_killed_and_taken_over_applies_every_change_once(
    killed: Mapping[Point, Future[Sites]], point: Point
) -> None:
    site = killed[point].result()["takeover"]
    another = "lost" if point in RESOLVING else "another"

    site.consume(*site.texts(), consumer=another)

    site.check()
