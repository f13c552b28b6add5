"""Each view in a real browser: nothing is complained about, and nobody is kept out."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from tests.page.window_kit import DESK, PHONE, Window, opened, started_chromium, without_statuses
from tests.queue_insight.page.page_kit import served_page
from tests.queue_scheduler.shell_kit import ShellKit

UNIT: Final = "/units/default/train-1"
VIEWS: Final = {
    "overview": "/",
    "queue": "/queues/vision",
    "unqueued": "/unqueued",
    "unit": UNIT,
    "quota": "/quotas/org",
    "what-if": "/what-if",
    "jobs": "/jobs",
}
FAR_PIXELS: Final = 60
HIDDEN_TEXT: Final = "it would tell about one or two namespaces"


def assert_sound(window: Window, name: str) -> None:
    """Check a view in both color schemes, and on a phone, and leave pictures of it."""
    for scheme in ("light", "dark"):
        window.page.emulate_media(color_scheme=scheme)
        window.shoot(f"{name}-{scheme}")
        assert window.barriers() == [], (name, scheme)
    window.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    window.shoot(f"{name}-phone")
    assert not window.is_wider_than_screen(), name
    window.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
    assert window.complaints == [], name


def assert_read_on_a_phone(window: Window, label: str) -> None:
    """Check that all of a table is seen on a phone, without scrolling it sideways."""
    table = window.page.get_by_role("group", name=label, exact=True)
    table.wait_for()
    window.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    hidden = table.evaluate("each => each.scrollWidth - each.clientWidth")
    window.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
    assert hidden == 0, label


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_busy_cluster_is_sound(window: Window, name: str) -> None:
    window.listen()
    window.open(VIEWS[name])
    window.sees("Live")
    assert_sound(window, name)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_says_that_the_server_failed(window: Window, name: str) -> None:
    lists = ("/page/queues/vision", "/page/unqueued", "/page/jobs")
    for path in ("/page/overview", *lists, f"/page{UNIT}", "/page/quotas/org"):
        window.answer(path, {"detail": "the state is not there yet"}, 503)
    window.answer("/page/what-if", {"detail": "the state is not there yet"}, 429)
    window.open(VIEWS[name])
    if name == "what-if":
        window.page.get_by_label("Name", exact=True).fill("vision")
        window.page.get_by_label("New amount").fill("9")
        window.page.get_by_role("button", name="Show what would change").click()
    window.page.get_by_role("alert").get_by_text("the state is not there yet").wait_for()
    window.complaints[:] = without_statuses(window.complaints, 429 if name == "what-if" else 503)
    assert_sound(window, f"{name}-error")


def test_the_user_stands_beside_the_keys(window: Window) -> None:
    visitor = {"user": "ann", "login": True, "readsAll": True, "whatIf": True}
    window.answer("/page/session", visitor)
    window.open("/")
    keys = window.page.get_by_role("button", name="Keys").bounding_box()
    user = window.page.locator(".user").bounding_box()
    assert keys is not None
    assert user is not None
    assert user["x"] - (keys["x"] + keys["width"]) < FAR_PIXELS


def test_asking_again_after_a_failure_shows_the_view(window: Window) -> None:
    window.answer("/page/overview", {"detail": "not yet"}, 503)
    window.open("/")
    window.sees("not yet")
    window.page.unroute_all()
    window.send_events()
    window.page.get_by_role("button", name="Try again").click()
    window.page.get_by_role("link", name="vision").first.wait_for()
    assert window.page.get_by_role("alert").count() == 0


def test_an_empty_cluster_says_what_to_do(browser: Browser) -> None:
    with served_page(ShellKit()) as url, opened(browser, url) as window:
        window.open("/")
        window.sees("There are no queues.")
        window.sees("There are no quotas")
        window.sees("No record is kept")
        assert_sound(window, "overview-empty")


def test_a_queue_says_how_many_units_it_admits(window: Window) -> None:
    window.open("/")
    table = window.page.get_by_role("group", name="Queues")
    headings = table.get_by_role("columnheader").all_text_contents()
    row = table.get_by_role("row").filter(has_text="vision").first.get_by_role("cell")
    # The name of a queue is the heading of its row.
    assert row.all_text_contents()[headings.index("Admitted per hour") - 1] == "42"
    window.open("/queues/speech")
    assert window.page.locator("dt:text-is('Admitted per hour') + dd").inner_text() == "2.5"


def test_all_units_are_counted_and_lead_to_their_jobs(window: Window) -> None:
    window.open("/")
    window.page.get_by_role("link", name="1 admitted", exact=True).click()
    window.page.wait_for_url("**/jobs?filter=state%3Aadmitted")
    window.sees("1 job")
    window.page.go_back()
    window.page.get_by_role("link", name="302 units pending").click()
    window.sees("302 jobs")


def test_a_queue_without_units_says_so(window: Window) -> None:
    window.open("/queues/org")
    window.sees("Nothing waits in this queue.")
    assert_sound(window, "queue-empty")


def test_without_a_record_it_is_said_how_to_have_one(browser: Browser) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.add_unit("a", cpu=8)
    with served_page(kit) as url, opened(browser, url) as window:
        window.open("/units/default/a")
        window.sees("It is larger than a limit")
        window.sees("Nothing is recorded.")
        assert_sound(window, "unit-unrecorded")
        window.open("/quotas/team")
        window.sees("No record is kept.")
        assert_sound(window, "quota-unrecorded")


def test_what_would_tell_about_others_is_said_to_be_left_out(window: Window) -> None:
    hidden = {"used": {}, "runtime": {}, "sumsHidden": True}
    window.edit("/page/overview", lambda body: body["quotas"][0].update(hidden))
    window.edit("/page/queues/vision", lambda body: body.update(others=2))
    window.open("/")
    window.sees(HIDDEN_TEXT)
    assert_sound(window, "overview-others")
    window.open("/queues/vision")
    window.sees("2 more units in namespaces whose units you may not list.")
    assert_sound(window, "queue-others")


def test_an_unknown_address_leads_back(window: Window) -> None:
    window.open("/")
    window.page.evaluate(
        "history.pushState(null, '', '/nowhere'); dispatchEvent(new Event('popstate'))"
    )
    window.sees("There is no view at this address.")
    assert_sound(window, "nowhere")
    window.page.get_by_role("link", name="Go to the overview").click()
    window.sees("Needs attention")


@pytest.mark.parametrize("path", ["/nowhere", "/queues", "/queues/vision/", "/units/default"])
def test_an_unknown_address_is_a_page(window: Window, path: str) -> None:
    window.open(path)
    window.sees("There is no view at this address")
    window.has_title("Not found")
    assert without_statuses(window.complaints, 404) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/queues/nowhere", "Queue 'nowhere' is unknown."),
        ("/quotas/nowhere", "Quota 'nowhere' is unknown."),
    ],
)
def test_an_unknown_object_leads_back(window: Window, path: str, words: str) -> None:
    window.open(path)
    window.sees(words)
    window.sees("It may have been deleted, or its name is misspelled.")
    assert window.page.get_by_role("searchbox").count() == 0
    window.complaints[:] = without_statuses(window.complaints, 404)
    assert_sound(window, f"unknown-{path.split('/')[1]}")
    window.page.get_by_role("link", name="Go to the overview").click()
    window.page.get_by_role("heading", name="Overview").wait_for()


def test_the_overview_says_what_is_borrowed_and_free(window: Window) -> None:
    def lend(body: dict[str, Any]) -> None:
        speech, vision = body["quotas"][0]["children"]
        vision["used"], speech["used"] = {"cpu": "10"}, {"cpu": "1"}
        body["quotas"][0]["used"] = {"cpu": "11"}

    window.edit("/page/overview", lend)
    window.open("/")
    table = window.page.get_by_role("group", name="Use of quota trees")
    table.get_by_role("row", name="org cpu 11 2 5 16").wait_for()
    order = ["Needs attention", "How busy it is", "Queues", "Quotas", "What this is based on"]
    assert window.page.locator("main h2").all_inner_texts() == order
    bar = table.locator(".bar span").evaluate_all("all => all.map(each => each.style.width)")
    assert bar == ["56.25%", "12.5%"]
    assert_sound(window, "overview-busy")


def test_quotas_without_a_tree_are_summed_up(window: Window) -> None:
    def flatten(body: dict[str, Any]) -> None:
        body["quotas"] = body["quotas"][0]["children"]

    window.edit("/page/overview", flatten)
    window.open("/")
    table = window.page.get_by_role("group", name="Use of quota trees")
    table.get_by_role("row", name="All quotas cpu 6 6 12").wait_for()


def test_a_stopped_queue_is_said_to_be_stopped(window: Window) -> None:
    window.edit("/page/overview", lambda body: body["queues"][-1].update(stopPolicy="Hold"))
    window.open("/")
    window.page.get_by_role("row", name="vision Stopped (Hold) 300").wait_for()


def test_an_earlier_time_is_asked_for_from_the_overview(window: Window) -> None:
    window.open("/")
    window.page.get_by_label("an earlier time").fill("2026-11-01T10:35:00")
    window.page.get_by_role("button", name="Show it").click()
    window.page.wait_for_url("**/?at=2026-11-01T10%3A35%3A00.000Z")
    window.sees("This is how it was at")


def test_units_that_need_a_user_are_named_first(window: Window) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open("/")
    item = window.page.locator("li.problem", has_text="Units NoQuota")
    item.get_by_text("1 unit waits until a user acts.").wait_for()
    item.get_by_text("To see why the first one waits:").wait_for()
    command = "koord-queue explain unit/lost -n default"
    item.get_by_role("button", name=f"Copy {command}").click()
    item.get_by_text("Copied").wait_for()
    assert window.page.evaluate("navigator.clipboard.readText()") == command
    item.get_by_role("link", name="default/lost").click()
    window.page.get_by_role("heading", name="default/lost").wait_for()
    # What keeps it from starting is known, so it is said that it does not start.
    window.page.get_by_role("heading", name="When it starts").wait_for()
    window.sees("It does not start as things are: ")
    assert_sound(window, "unit-held")


def test_units_in_no_queue_are_found_from_the_overview(window: Window) -> None:
    window.open("/")
    window.page.get_by_role("link", name="1 unit in no queue").click()
    window.has_title("Units in no queue")
    row = window.page.get_by_role("row", name="default/lost")
    row.wait_for()
    assert window.page.get_by_role("columnheader", name="Position").count() == 0
    window.page.get_by_role("searchbox").fill("nothing-like-it")
    window.sees("No unit matches the filter.")


def test_an_empty_list_of_units_in_no_queue_says_so(window: Window) -> None:
    window.edit("/page/unqueued", lambda body: body.update(units=[], total=0, others=3))
    window.open("/unqueued")
    window.sees("Every unit that waits is in a queue.")
    window.sees("3 more units in namespaces whose units you may not list.")
    assert_sound(window, "unqueued-empty")


def test_nothing_is_wrong_where_all_is_well(browser: Browser) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    with served_page(kit) as url, opened(browser, url) as window:
        window.open("/")
        window.sees("Nothing needs attention.")


def test_an_earlier_moment_that_is_not_there_says_why(window: Window) -> None:
    window.open("/queues/vision?at=2020-01-01T00:00:00Z")
    window.sees("nothing is recorded")
    window.complaints[:] = without_statuses(window.complaints, 503)
    assert_sound(window, "queue-past")
    window.page.get_by_role("button", name="Show how it is now").click()
    window.page.get_by_role("link", name="default/train-4", exact=True).wait_for()


def test_without_chromium_the_tests_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="no Chromium"), started_chromium():
        pass
