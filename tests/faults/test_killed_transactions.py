"""A driver killed inside a transaction or a bounded consumption loses and doubles nothing."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
from drivers import CHANGES, DRIVER_SECONDS, Point, Site, Workshop, running, selected_points
from stream_lab import point_name

from airflow_provider_cdc.engine import ProtocolPoint

pytestmark = pytest.mark.timeout(2 * DRIVER_SECONDS)

IN_A_TRANSACTION = [
    (ProtocolPoint.AFTER_BEGIN, None),
    (ProtocolPoint.AFTER_STATEMENT, 0),
    (ProtocolPoint.AFTER_EXTEND, None),
    (ProtocolPoint.AFTER_STATEMENT, 1),
    (ProtocolPoint.BEFORE_COMMIT, None),
    (ProtocolPoint.AFTER_COMMIT, None),
]
IN_A_BATCH = [
    (ProtocolPoint.AFTER_BEGIN, None),
    (ProtocolPoint.AFTER_STATEMENT, 0),
    (ProtocolPoint.BEFORE_COMMIT, None),
]
TRANSACTION_USES = ("transaction retried", "transaction taken over")
BATCH = "batch retried"
TWO_COMMITS = {"max_commits": 2}

Sites = Mapping[tuple[Point, str], Site]


@pytest.fixture(scope="module")
def killed(request: pytest.FixtureRequest, workshop: Workshop) -> Sites:
    """The sites of one killed driver, by the point it had reached on a site and by the site's use.

    The driver consumes all of them at once, and is killed when it has reached the point of each
    one.
    """
    points = selected_points(request)
    wanted = [(point, use) for point in IN_A_TRANSACTION for use in TRANSACTION_USES]
    wanted += [(point, BATCH) for point in IN_A_BATCH]
    wanted = [(point, use) for point, use in wanted if point in points]
    sites = {key: workshop.site() for key in wanted}
    driver = workshop.driver(
        "killed",
        {site: point for (point, _), site in sites.items()},
        transactions={site for (_, use), site in sites.items() if use in TRANSACTION_USES},
        bounds={site: TWO_COMMITS for (_, use), site in sites.items() if use == BATCH},
        is_killed=True,
    )
    with running(driver):
        printed = driver.end()
    assert driver.process.returncode == -signal.SIGKILL, (printed, driver.errors())
    assert printed == []
    return sites


@pytest.mark.in_ci("after_statement 0")
@pytest.mark.parametrize("point", IN_A_TRANSACTION, ids=point_name)
def test_transaction_killed_and_retried_applies_every_change_once(
    killed: Sites, point: Point
) -> None:
    site = killed[point, "transaction retried"]

    with site.engine.transaction(consumer="killed") as transaction:
        for text in site.texts():
            transaction.sql(text)

    site.check()


@pytest.mark.in_ci("after_extend")
@pytest.mark.parametrize("point", IN_A_TRANSACTION, ids=point_name)
def test_transaction_killed_and_taken_over_applies_every_change_once(
    killed: Sites, point: Point
) -> None:
    site = killed[point, "transaction taken over"]

    site.consume(*site.texts(), consumer="another")

    site.check()


@pytest.mark.thorough
@pytest.mark.parametrize("point", IN_A_BATCH, ids=point_name)
def test_batch_killed_and_retried_takes_the_same_commits(killed: Sites, point: Point) -> None:
    site = killed[point, BATCH]
    site.sql("INSERT INTO {src} VALUES (6, 600)", "DELETE FROM {src} WHERE id = 6")

    site.consume(*site.texts(), consumer="killed")

    assert site.rows("log") == sorted([*site.initial_log(), *CHANGES[:3]], key=repr)
    assert site.engine._parts.catalog.get_stream("s").offset.version == 3
    site.consume(*site.texts(), consumer="killed")
    site.check()
