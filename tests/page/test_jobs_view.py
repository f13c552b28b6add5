"""All jobs in a real browser: links that keep the filter, users, states, and a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.page.test_views import assert_sound
from tests.page.window_kit import PHONE, Json, Window, opened, wait_until, without_statuses
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_insight.page.page_kit import PageWorld, served_page
from tests.queue_scheduler.shell_kit import ShellKit

ROWS = "tbody tr"
SAME_LINE = 8
"""Pixels."""
WAITING = 300
"""More than one page of the list."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Jobs of ann, bob and eve in all states; two queues of which one name begins the other's."""
    kit = ShellKit()
    for queue in ("vision", "vision-b"):
        kit.add_quota(queue, 400)
        for name, phase in (("runs", "Running"), ("starts", "Dequeued"), ("checked", "Reserved")):
            tell_unit(kit, f"{name}-{queue}", phase, user="ann", quota=queue)
    for number in range(WAITING):
        user = ("ann", "bob", "eve")[number % 3]
        kind = ("Job", "PyTorchJob", "RayJob")[number % 3]
        reference = {"kind": kind, "name": f"train-{number}"}
        created = f"2026-11-01T09:{number // 60:02}:{number % 60:02}Z"
        tell_unit(
            kit, f"train-{number}", user=user, quota="vision", created=created,
            consumerRef=reference,
        )  # fmt: skip
    tell_unit(kit, "idle", user="eve", active=False)
    tell_unit(kit, "broken", "Failed", user="bob")
    world = PageWorld(kit.shared, kit.clock)
    world.ended.add(run("broken", user="bob", ended_by="failed"))
    for number in range(3):
        world.ended.add(run(f"done-{number}", user="bob", ended=NOW - 60.0 * number))
    world.ended.add(run("gone", user="eve", ended_by="deleted"))
    while world.forecasts.age_seconds() is None:
        world.forecasts.step()
    with served_page(world) as url:
        yield url


@pytest.fixture
def window(browser: Browser, url: str) -> Iterator[Window]:
    with opened(browser, url) as window:
        yield window


def units(window: Window) -> list[str]:
    return window.page.locator(f"{ROWS} td a[href*='/units/']").all_inner_texts()


def test_it_is_sound(window: Window) -> None:
    window.listen()
    window.open("/jobs")
    window.sees("Live")
    window.sees("312 jobs")
    assert_sound(window, "jobs")


def test_jobs_in_all_states_are_sound(window: Window) -> None:
    window.open("/jobs?sort=-state")
    window.page.get_by_text("finished, failed", exact=True).last.wait_for()
    window.page.get_by_text("finished, deleted", exact=True).last.wait_for()
    assert_sound(window, "jobs-states")


def test_admitted_in_the_overview_leads_to_its_jobs(window: Window) -> None:
    window.open("/")
    window.page.get_by_role("link", name="3 admitted units of queue vision", exact=True).click()
    window.sees("3 jobs")
    names = ("runs", "starts", "checked")
    assert {*units(window)} == {f"default/{each}-vision" for each in names}
    window.has_title("Jobs")
    window.page.reload()
    window.sees("3 jobs")
    assert window.page.get_by_role("searchbox").input_value() == "queue=vision state:admitted"
    assert window.page.get_by_label("State").input_value() == "state:admitted"


def test_admitted_in_the_view_of_a_queue_leads_to_its_jobs(window: Window) -> None:
    window.open("/queues/vision-b")
    window.page.get_by_role("link", name="3 admitted units of queue vision-b").click()
    window.sees("3 jobs")
    window.page.get_by_role("link", name="default/runs-vision-b").click()
    window.has_title("default/runs-vision-b")
    window.page.go_back()
    window.sees("3 jobs")


def test_a_unit_has_what_its_row_has(window: Window) -> None:
    window.open("/jobs?filter=runs-vision-b")
    cells = window.page.locator(f"{ROWS} td")
    cells.first.wait_for()
    started, ran, likely = (
        window.page.locator(f"{ROWS} td.c-{each}").inner_text()
        for each in ("started", "ran", "start")
    )
    window.page.get_by_role("link", name="default/runs-vision-b").click()
    facts = window.page.locator(".facts")
    facts.get_by_text("Started").wait_for()
    found = {
        word: facts.locator(f"dt:text-is('{word}') + dd").inner_text()
        for word in ("User", "Started", "Ran", "Likely end")
    }
    assert found["User"] == "ann"
    assert started[-5:] in found["Started"]
    assert found["Ran"] == ran
    assert likely[-5:] in found["Likely end"]
    assert_sound(window, "unit-running")
    facts.get_by_role("link", name="ann").click()
    window.page.wait_for_url("**/jobs?filter=user%3Dann")
    window.open("/units/default/broken")
    facts.get_by_text("Ended").wait_for()


def test_requests_are_short_and_the_hint_has_the_whole_names(window: Window) -> None:
    requests = {"nvidia.com/gpu": "1", "cpu": "4"}
    window.edit("/page/jobs", lambda body: body["units"][0].update(requests=requests))
    window.open("/jobs")
    cell = window.page.locator(f"{ROWS} td.c-requests").first
    cell.wait_for()
    assert cell.inner_text() == "1 gpu, 4 cpu"
    assert cell.get_attribute("title") == "1 nvidia.com/gpu, 4 cpu"


def test_a_filter_a_state_and_a_user_are_words_of_one_filter(window: Window) -> None:
    window.open("/jobs")
    window.page.get_by_role("searchbox").fill("train")
    window.page.wait_for_url("**/jobs?filter=train")
    window.sees("300 jobs")
    window.page.get_by_label("State").select_option("state:waiting")
    window.page.wait_for_url("**/jobs?filter=train+state%3Awaiting")
    assert window.page.get_by_role("searchbox").input_value() == "train state:waiting"
    window.page.get_by_role("link", name="eve", exact=True).first.click()
    window.sees("100 jobs")
    assert window.page.get_by_role("searchbox").input_value() == "train state:waiting user=eve"
    window.page.get_by_label("State").select_option("")
    window.page.wait_for_url("**/jobs?filter=train+user%3Deve")
    window.page.get_by_role("button", name="Queue").click()
    window.page.wait_for_url("**/jobs?filter=train+user%3Deve&sort=queue")
    link = window.page.get_by_role("link", name="Download as CSV").get_attribute("href")
    assert link == "/page/jobs.csv?filter=train+user%3Deve&sort=queue"
    window.page.get_by_role("searchbox").fill("nothing-like-it")
    window.sees("No job matches the filter.")


def test_few_rows_exist_and_all_can_be_reached_by_the_keyboard(window: Window) -> None:
    window.open("/jobs")
    assert window.page.locator(ROWS).count() < 60
    region = window.page.get_by_role("group", name="Jobs")
    region.focus()
    with window.page.expect_request(lambda request: "offset=200" in request.url):
        window.page.keyboard.press("End")
    window.page.locator(f"{ROWS}[aria-rowindex='313'] a").first.wait_for()
    wait_until(window.page, "document.querySelector('.virtual').scrollTop > 0")


def test_on_a_phone_a_job_has_its_name_its_state_and_its_time(browser: Browser, url: str) -> None:
    with opened(browser, url, size=PHONE) as window:
        window.open("/jobs?filter=state:running")
        row = window.page.locator("tbody tr").first
        shown = row.locator("td:visible").evaluate_all("all => all.map(each => each.className)")
        assert {"c-unit", "c-state", "c-ran"} <= set(shown)
        assert not {"c-quota", "c-kind", "c-requests"} & set(shown)
        region = window.page.get_by_role("group", name="Jobs")
        assert region.evaluate("element => element.scrollWidth <= element.clientWidth")
        assert window.complaints == []


def test_on_a_phone_a_job_that_waits_has_its_reason(browser: Browser, url: str) -> None:
    def refuse(body: Json) -> None:
        for unit in body["units"]:
            unit["reason"] = "OverQuotaMax"

    with opened(browser, url, size=PHONE) as window:
        window.edit("/page/jobs", refuse)
        window.open("/jobs?filter=state:waiting")
        row = window.page.locator("tbody tr").first
        middles = {}
        for name in ("unit", "state", "reason", "start", "waited"):
            box = row.locator(f"td.c-{name}").bounding_box()
            assert box is not None, name
            middles[name] = box["y"] + box["height"] / 2
        assert abs(middles["unit"] - middles["state"]) < SAME_LINE
        assert abs(middles["reason"] - middles["start"]) < SAME_LINE
        assert middles["state"] + SAME_LINE < middles["reason"]
        assert middles["reason"] + SAME_LINE < middles["waited"]
        assert row.evaluate("element => element.scrollHeight <= element.clientHeight")
        assert_sound(window, "jobs-phone-waiting")


def test_headings_are_whole_in_a_window_of_a_desk(window: Window) -> None:
    window.open("/jobs")
    window.page.locator("tbody tr").first.wait_for()
    headings = window.page.locator("thead th")
    cut = headings.evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
    )
    assert cut == []


def test_without_jobs_it_says_so(browser: Browser) -> None:
    with served_page(ShellKit()) as url, opened(browser, url) as window:
        window.open("/jobs")
        window.sees("There are no jobs.")
        assert_sound(window, "jobs-empty")


def test_a_visitor_without_jobs_is_told_of_those_of_others(window: Window) -> None:
    window.edit("/page/jobs", lambda body: body.update(units=[], total=0, others=7))
    window.open("/jobs")
    window.sees("There are no jobs in the namespaces whose units you may list.")
    window.sees("7 more units in namespaces whose units you may not list.")
    assert_sound(window, "jobs-others")


def test_an_unknown_word_is_said(window: Window) -> None:
    window.open("/jobs?filter=color:red")
    window.sees("filter: 'color' is none of name, namespace")
    window.complaints[:] = without_statuses(window.complaints, 422)
    assert_sound(window, "jobs-error")
