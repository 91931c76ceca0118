"""The page of streams in Chromium, within the UI of a real Airflow below a path."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow_fixtures import BASE_PATH
from axe_playwright_python.sync_playwright import Axe
from page_site import HOSTILE, PageSite
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from status_lines import new_line, new_snapshot

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.monitoring.conditions import Condition

# Airflow's UI may take long to load on a busy machine.
PATIENCE_MILLISECONDS = 60_000
SIZES = {"wide": (1280, 900), "narrow": (400, 800)}
SERIOUS = {"serious", "critical"}
# In these conditions an operator has nothing to do.
QUIET = {Condition.CONSUMING, Condition.WAITING, Condition.CURRENT}
PAGE = f"{BASE_PATH}/plugin/cdc-streams{BASE_PATH}/cdc/"
# Where `make screenshots` wants them.
SHOTS = os.environ.get("CDC_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the system."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed, and .ci/chromium could not install it")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        found = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="module")
def sessions(browser: Browser, running_airflow) -> dict[str, Any]:
    """The cookies of an admin and of a viewer who have logged in."""
    server = running_airflow.server
    passwords = json.loads(
        (server.home / "simple_auth_manager_passwords.json.generated").read_text()
    )

    def logged_in(user: str) -> Any:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.goto(f"{server.url}/")
        page.get_by_label("Username").fill(user)
        page.get_by_label("Password").fill(passwords[user])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Browse").wait_for()
        state = page.context.storage_state()
        page.context.close()
        return state

    return {user: logged_in(user) for user in ("admin", "viewer")}


@pytest.fixture
def new_page(browser: Browser, sessions, running_airflow):
    """Opens a page as one of the users."""
    opened = []

    def open_page(size: str = "wide", scheme: str = "light", user: str = "viewer") -> Page:
        width, height = SIZES[size]
        context = browser.new_context(
            storage_state=sessions[user],
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            base_url=f"http://127.0.0.1:{running_airflow.server.port}",
        )
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        return page

    yield open_page
    for context in opened:
        context.close()


def keep_picture(page: Page, page_site: PageSite, file: Path) -> None:
    """Keep a picture of a page for the docs, without the paths of this machine."""
    page.evaluate(
        """root => {
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                texts.currentNode.data = texts.currentNode.data.replaceAll(root, "/data/lake");
            }
        }""",
        str(page_site.root),
    )
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    picture.convert("RGB").quantize(64).save(file, optimize=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_have_no_serious_fault_of_accessibility(
    new_page, page_site: PageSite, size: str, scheme: str
) -> None:
    page_site.check()
    page = new_page(size, scheme)
    others = ("upsert-tables", "change-streams", "targets", "alerts")
    views = {"streams": "", "stream": "&stream=at_risk", "consumed": "&stream=waiting"}
    views |= {view: f"&view={view}" for view in others}
    for name, query in views.items():
        page.goto(f"{BASE_PATH}/cdc/?connection=cdc_page{query}")
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["help"]) for each in found if each["impact"] in SERIOUS] == []
        if SHOTS:
            keep_picture(page, page_site, Path(SHOTS) / f"{name}-{size}-{scheme}.png")


def test_stream_in_each_condition_says_what_to_do(new_page, page_site: PageSite) -> None:
    page_site.check()
    page = new_page()
    lines = page_site.newest.lines
    assert {line.condition for line in lines} == set(Condition)
    for line in lines:
        page.goto(f"{BASE_PATH}/cdc/?connection=cdc_page&stream={line.name}")
        expect(page.get_by_role("heading", name=line.name, exact=True)).to_be_visible()
        is_quiet = line.condition in QUIET
        expect(page.locator(".advice")).to_have_count(0 if is_quiet else 1)
        if line.advice is not None:
            expect(page.locator(".advice")).to_contain_text(line.advice.text)


def test_late_stream_recovers_when_its_advice_is_followed(
    new_page, page_site: PageSite, running_airflow
) -> None:
    server = running_airflow.server
    server.wait_dag("cdc_page_consumer")
    page_site.check()
    page = new_page()
    page.goto(f"{BASE_PATH}/")
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Streams").click()
    frame = page.frame_locator("iframe")
    frame.get_by_label("Connection").select_option("cdc_page")
    rows = frame.locator(".streams tbody tr")
    expect(rows.first).to_contain_text("Stale", timeout=PATIENCE_MILLISECONDS)
    frame.get_by_role("button", name="Late 1").click()
    frame.get_by_role("link", name="late", exact=True).click()
    expect(frame.get_by_role("heading", name="late", exact=True)).to_be_visible()
    origin = server.url.removesuffix(BASE_PATH)
    expect(page).to_have_url(f"{origin}{PAGE}?connection=cdc_page&stream=id+of+late")
    command = frame.locator(".advice code").inner_text()
    assert command == "airflow dags trigger cdc_page_consumer"

    subprocess.run(shlex.split(command), env=server.environment(), check=True, capture_output=True)
    (run,) = server.api("GET", "/dags/cdc_page_consumer/dagRuns")["dag_runs"]
    server.wait_success("cdc_page_consumer", run["dag_run_id"])
    page_site.check()
    frame.get_by_role("button", name="Refresh").click()
    expect(frame.locator(".stream > p .condition")).to_have_text("Current")
    expect(frame.locator(".advice")).to_have_count(0)

    links = server.api(
        "GET", f"/dags/cdc_page_consumer/dagRuns/{run['dag_run_id']}/taskInstances/advance/links"
    )["extra_links"]
    assert links == {"Stream": f"{PAGE}?connection=cdc_page&stream=late"}
    page.goto(links["Stream"])
    expect(frame.get_by_role("heading", name="late", exact=True)).to_be_visible()

    frame.get_by_role("link", name="cdc_page_consumer/advance").first.click()
    expect(page).to_have_url(f"{server.url}/dags/cdc_page_consumer/tasks/advance")


def test_hostile_name_is_shown_as_text(new_page, page_site: PageSite) -> None:
    page_site.check()
    page = new_page()
    page.goto(f"{BASE_PATH}/cdc/?connection=cdc_page")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_action_asks_and_then_starts_the_run_for_those_with_the_right(
    new_page, page_site: PageSite, running_airflow
) -> None:
    server = running_airflow.server
    server.wait_dag("stream_actions-cdc_page.rewind")
    page_site.check()
    address = f"{BASE_PATH}/cdc/?connection=cdc_page&stream=current"
    viewer = new_page()
    viewer.goto(address)
    expect(viewer.get_by_role("heading", name="current", exact=True)).to_be_visible()
    expect(viewer.get_by_role("heading", name="Actions")).to_have_count(0)

    page = new_page(user="admin")
    page.goto(address)
    page.get_by_role("button", name="Rewind").click()
    page.get_by_label("Version", exact=True).fill("first")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("Version: enter a value.")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Advance").click()
    page.get_by_role("button", name="Start the run").click()
    started = page.locator(".actions a")
    expect(started).to_contain_text("stream_actions-cdc_page.advance, ")
    run_id = started.inner_text().partition(", ")[2]
    server.wait_success("stream_actions-cdc_page.advance", run_id)
    assert server.api("GET", "/dags/stream_actions-cdc_page.rewind/dagRuns")["dag_runs"] == []


def test_page_is_used_by_the_keyboard_alone(new_page, page_site: PageSite) -> None:
    page_site.check()
    page = new_page()
    page.goto(f"{BASE_PATH}/cdc/?connection=cdc_page")
    expect(page.locator(".streams tbody tr").first).to_be_visible()

    def press_until(selector: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        pytest.fail(f"{selector} cannot be reached")

    press_until("#search")
    page.keyboard.type("at_risk")
    expect(page.locator(".count")).to_have_text("1 of 12 streams")
    press_until(".streams a")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="at_risk", exact=True)).to_be_visible()


def test_thousand_streams_are_shown_and_filtered(new_page, page_site: PageSite) -> None:
    lines = [replace(new_line(f"stream_{number}"), stream_id=f"{number}") for number in range(1000)]
    page_site.snapshots.save(new_snapshot(*lines, as_of=utc_now()))
    page = new_page()
    page.goto(f"{BASE_PATH}/cdc/?connection=cdc_page")
    expect(page.locator(".count")).to_have_text("1,000 streams")
    milliseconds = page.evaluate("performance.now()")
    print(f"1,000 streams are shown {milliseconds:.0f} ms after the request for the page")
    last = page.get_by_role("link", name="stream_999", exact=True)
    for _ in range(50):
        page.keyboard.press("End")
        page.wait_for_timeout(100)
        if last.count():
            break
    page.keyboard.press("End")
    expect(last).to_be_in_viewport()
    page.get_by_role("button", name="Refresh").click()
    expect(last).to_be_in_viewport()
    page.get_by_label("Search").fill("stream_99")
    expect(page.locator(".count")).to_have_text("11 of 1,000 streams")
    expect(page.locator(".streams tbody tr")).to_have_count(11)


def test_page_says_how_to_switch_a_monitor_on(new_page) -> None:
    page = new_page()
    page.goto(f"{BASE_PATH}/cdc/?connection=cdc_unwatched")
    expect(page.get_by_role("alert")).to_contain_text("stale_stream_monitor")
