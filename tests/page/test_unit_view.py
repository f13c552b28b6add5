"""One unit: what would start it, when it starts, and what happened."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from tests.page.test_views import UNIT, assert_sound
from tests.page.window_kit import Window


def test_the_smallest_changes_can_be_copied(window: Window) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open("/units/default/train-4")
    window.find_changes()
    change = window.page.locator(".changes li", has_text="Raise the max of quota vision").first
    change.get_by_role("button", name="Copy as kubectl").click()
    change.get_by_text("Copied").wait_for()
    copied = window.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("kubectl patch elasticquota.v1alpha1.scheduling.sigs.k8s.io vision ")
    assert copied.endswith("""--type merge --patch '{"spec":{"max":{"cpu":"9"}}}'""")
    assert_sound(window, "unit-changes")


def test_what_nobody_can_change_is_a_sentence_and_no_item(window: Window) -> None:
    def leave_nothing(body: dict[str, Any]) -> None:
        fact = {"description": "Nothing is left for it.", "practical": False}
        body["changes"] = [{**body["changes"][0], **fact}]

    window.edit(f"/page{UNIT}/changes", leave_nothing)
    window.open(UNIT)
    window.find_changes()
    window.sees("No change was found that would start it now.")
    window.sees("Nothing is left for it.")
    assert window.page.locator(".changes li").count() == 0


def test_why_no_change_was_looked_for_is_said(window: Window) -> None:
    window.answer(
        f"/page{UNIT}/changes", {"detail": "too many such questions"}, 429, **{"Retry-After": "7"}
    )
    window.open(UNIT)
    window.find_changes()
    window.sees("too many such questions")
    window.sees("Try again in 7 s.")


def test_a_forecast_is_a_picture_and_a_sentence(window: Window) -> None:
    window.edit(f"/page{UNIT}", lambda body: body.update(forecast=_forecast(body["stateAt"])))
    window.open(UNIT)
    picture = window.page.get_by_role("img", name="Chance that it starts")
    words = "less than 90% within seven days. If no more jobs arrived (dashed): 50% before "
    assert words in (picture.get_attribute("aria-label") or "")
    window.sees(words)
    # From the 10th percentile to the end of the picture, since the 90th is beyond it.
    assert float(window.page.locator(".f-band").get_attribute("width") or 0) > 100
    assert_sound(window, "unit-forecast")


def test_a_time_that_has_passed_is_not_told(window: Window) -> None:
    """The forecast is two hours old: its 10th percentile has passed, and its median has not."""

    def grow_old(body: dict[str, Any]) -> None:
        body["forecast"] = _forecast(body["stateAt"]) | {"ageSeconds": 7200.0}

    window.edit(f"/page{UNIT}", grow_old)
    window.open(UNIT)
    caption = window.page.locator("figcaption")
    assert re.match(r"Chance that it starts: 50% before .*, less than 90% ", caption.inner_text())
    assert "10%" not in caption.inner_text()


def test_a_start_that_is_overdue_may_come_at_any_moment(window: Window) -> None:
    def grow_old(body: dict[str, Any]) -> None:
        got = _forecast(body["stateAt"]) | {"ageSeconds": 36_000.0}
        body["forecast"] = got | {"startP90": got["startP50"]}

    window.edit(f"/page{UNIT}", grow_old)
    window.open(UNIT)
    window.sees("It may start at any moment: it is later than forecast.")


def test_before_enough_runs_have_ended_no_time_is_told(window: Window) -> None:
    def forget(body: dict[str, Any]) -> None:
        said = "not known yet: 1 of 5 runs"
        more = {"outlook": "notKnownYet", "noTimes": said, "similarRuns": 1, "neededRuns": 5}
        body["forecast"] = _forecast(body["stateAt"]) | more

    window.edit(f"/page{UNIT}", forget)
    window.open(UNIT)
    window.sees("When it starts is not known yet: 1 of 5 runs.")
    window.sees("Times are shown once 5 runs of its quota, user, kind and request")
    assert window.page.get_by_role("img", name="Chance").count() == 0
    assert_sound(window, "unit-not-known-yet")


def test_what_a_job_that_has_ended_was_granted_is_no_zero(window: Window) -> None:
    def end(body: dict[str, Any]) -> None:
        body["explain"]["verdict"] = "finished"
        pods = {"asked": 2, "granted": None, "givenBack": None, "held": 0}
        body["unit"]["podSets"] = [{"name": "main", **pods}]

    window.edit(f"/page{UNIT}", end)
    window.open(UNIT)
    window.page.get_by_role("row", name="main 2 not known not known 0").wait_for()
    window.sees("what it was granted is no longer in its unit")
    assert_sound(window, "unit-ended")


def test_a_moment_of_the_timeline_is_an_address(window: Window) -> None:
    window.open(UNIT)
    window.page.get_by_role("button", name="Show this moment").click()
    window.page.wait_for_url(f"**{UNIT}?at=*")
    window.sees("This is how it was at")


def later(time: datetime, minutes: int) -> str:
    return (time + timedelta(minutes=minutes)).isoformat()


def test_what_happened_is_a_line_of_time_and_words(window: Window) -> None:
    def live_long(body: dict[str, Any]) -> None:
        start = datetime.fromisoformat(body["unit"]["created"])
        entry = body["log"][0]
        body["log"] = [
            entry
            | {
                "number": number,
                "kind": kind,
                "time": (start + timedelta(minutes=after)).isoformat(),
            }
            for number, kind, after in ((4, "Refused", 50), (3, "Admitted", 20), (2, "Refused", 5))
        ]
        body["stateAt"] = later(start, 60)

    window.edit(f"/page{UNIT}", live_long)
    window.open(UNIT)
    line = window.page.get_by_role("img", name="Line of time")
    said = line.get_attribute("aria-label") or ""
    words = ["waiting for 20m", "admitted for 30m", "waiting for 10m", "3 decisions."]
    assert [each for each in words if each not in said] == []
    widths = line.locator("rect").evaluate_all("all => all.map(each => each.width.baseVal.value)")
    assert [round(each) for each in widths] == [333, 500, 167]
    assert window.page.locator("ol.timeline li").count() == 4
    assert_sound(window, "unit-timeline")


def test_units_ahead_are_links_with_what_puts_them_there(window: Window) -> None:
    window.open(UNIT)
    window.sees("units are ahead of it in queue vision.")
    first = window.page.locator("ol.ahead li").first
    assert re.fullmatch(r"default/train-\d+: its priority is higher: 4", first.inner_text())
    first.get_by_role("link").click()
    window.page.wait_for_url("**/units/default/train-*")


def test_an_age_is_that_of_the_time_that_is_shown(window: Window) -> None:
    age = window.page.locator("dt:text-is('Created') + dd")
    window.open(UNIT)
    assert age.inner_text().endswith("(35m ago)")
    now = window.page.evaluate(f"fetch('/page{UNIT}').then((answer) => answer.json())")
    window.answer(f"/page{UNIT}", now)
    window.open(f"{UNIT}?at=2026-11-01T10:35:00Z")
    assert age.inner_text().endswith("(35m before)")


def test_changes_that_are_known_are_open(window: Window) -> None:
    unit = "/units/default/train-9"
    window.open(unit)
    window.find_changes()
    window.page.locator(".changes li").first.wait_for()
    window.open(unit)
    window.sees("the cluster may have changed since")
    assert window.page.locator(".changes li").count() > 0
    window.page.get_by_role("button", name="Find them again").wait_for()
    assert_sound(window, "unit-changes-known")


def test_a_unit_that_is_gone_leads_back(window: Window) -> None:
    def forget(body: dict[str, Any]) -> None:
        run = {
            "created": "2026-01-01T09:00:00Z",
            "started": "2026-01-01T09:30:00Z",
            "ended": "2026-01-01T10:00:00Z",
            "endedBy": "deleted",
            "kind": "Job",
            "queue": "vision",
            "quota": "vision",
        }
        body |= {"unit": None, "explain": None}
        body["remembered"] = {"seen": "2026-01-01T10:00:00Z", "run": run}

    window.edit(f"/page{UNIT}", forget)
    window.open(UNIT)
    window.sees("The queue has no such unit.")
    window.sees("it was deleted")
    window.page.get_by_role("button", name="Show this moment").wait_for()
    assert window.page.get_by_role("alert").count() == 0
    assert_sound(window, "unit-gone")
    window.page.get_by_role("link", name="Go to queue vision").click()
    window.page.get_by_role("heading", name="Queue vision").wait_for()


def test_a_unit_that_never_was_leads_back(window: Window) -> None:
    window.open("/units/default/never")
    window.sees("Nothing is recorded of it")
    window.page.get_by_role("link", name="Go to the overview").wait_for()
    assert_sound(window, "unit-never")


def test_an_admitted_unit_says_what_could_evict_it(window: Window) -> None:
    window.open("/units/default/train-0")
    window.sees("What it was admitted on")
    window.sees("What could evict it")
    assert window.page.get_by_role("button", name="Find the smallest changes").count() == 0
    assert_sound(window, "unit-admitted")


def _forecast(now: str) -> dict[str, object]:
    times = {"startP10": now.replace("T10:", "T11:"), "startP90": None, "endP50": None}
    times["startP50"] = now.replace("T10:", "T13:")
    return {
        **times,
        "withoutArrivals": times,
        "similarRuns": 1,
        "sample": 40,
        "seed": 0,
        "computedAt": now,
        "ageSeconds": 41.0,
    }
