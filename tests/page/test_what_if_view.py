"""The form of what-if questions: it asks, shows differences, and applies nothing."""

from __future__ import annotations

from playwright.sync_api import Route

from tests.page.test_views import assert_sound
from tests.page.window_kit import Json, Window

SPREAD = {"p10": 600, "p50": 1800, "p90": None}
COMPARISON = {
    "before": SPREAD,
    "after": SPREAD,
    "difference": {"p10": -60, "p50": -30, "p90": -1},
    "compared": 20,
    "isClear": True,
}
HORIZON = {
    "seconds": 3600,
    "paths": 20,
    "seed": 0,
    "basis": "runs of the last eight days",
    "computedAt": "2026-11-01T10:00:00Z",
    "completed": {**COMPARISON, "isClear": False},
    "queues": [{"name": "vision", "waitP50": COMPARISON, "waitP90": None, "completed": None}],
    "quotas": [],
    "resources": [],
}
ANSWER = {
    "leader": True,
    "validated": False,
    "complete": True,
    "started": [{"unit": "default/train-4", "queue": "vision", "quota": "vision", "before": None}],
    "startedCount": 3,
    "refused": [],
    "refusedCount": 0,
    "evicted": [
        {"unit": "default/old", "reason": "Reclaimed", "forUnit": "", "lostHours": 1.5},
    ],
    "evictedCount": 1,
    "lostHours": 1.5,
    "spared": [],
    "sparedCount": 0,
    "unread": ["edits[0].patch.spec.mox"],
    "withoutPlugins": [],
    "horizon": HORIZON,
    "noHorizon": "",
}
NOTHING = {
    **ANSWER,
    **dict.fromkeys(("startedCount", "refusedCount", "evictedCount", "sparedCount"), 0),
    **dict.fromkeys(("started", "evicted", "unread"), ()),
    "horizon": None,
    "noHorizon": "horizonSeconds was not given",
}


def answer_with(window: Window, body: Json) -> list[Json]:
    """Answer questions with `body`; return the list of the questions that come."""
    asked: list[Json] = []

    def fulfill(route: Route) -> None:
        asked.append(dict(route.request.post_data_json or {}))
        route.fulfill(json=body)

    window.page.route("**/page/what-if", fulfill)
    return asked


def test_an_edit_is_asked_about_and_can_be_copied(window: Window) -> None:
    asked = answer_with(window, ANSWER)
    window.open("/what-if?quota=vision")
    window.page.get_by_label("New amount").fill("12")
    window.page.get_by_label("How far to look ahead").select_option("One hour")
    window.page.get_by_role("button", name="Show what would change").click()
    window.sees("Start: 3")
    window.sees("2 more are not named.")
    window.sees("is it misspelled?")
    window.page.get_by_role("row", name="Median wait, queue vision 30m 30m -30s").wait_for()
    patch = {"spec": {"max": {"cpu": "12"}}}
    edit = {"kind": "ElasticQuota", "name": "vision", "patch": patch}
    assert asked == [{"edits": [edit], "horizonSeconds": 3600}]
    yaml = window.page.get_by_label("as YAML").inner_text().splitlines()
    assert yaml[-3:] == ["spec:", "  max:", '    cpu: "12"']
    assert_sound(window, "what-if-answer")


def test_several_edits_are_one_question(window: Window) -> None:
    asked = answer_with(window, NOTHING)
    window.open("/what-if")
    page = window.page
    page.get_by_label("Kind").select_option("Queue")
    page.get_by_label("Name", exact=True).fill("vision")
    page.get_by_role("button", name="Add an edit").click()
    second = page.get_by_role("group", name="Edit 2")
    second.get_by_label("Kind").select_option("Node")
    second.get_by_label("A node to have more of").fill("node-1")
    second.get_by_label("How many more").fill("3")
    page.get_by_role("button", name="Show what would change").click()
    window.sees("Nothing: the same units start and wait.")
    window.sees("No look ahead")
    stop = {"metadata": {"annotations": {"koord-queue/stop-policy": "Hold"}}}
    assert asked[0]["edits"] == [
        {"kind": "Queue", "name": "vision", "patch": stop},
        {"kind": "Node", "name": "node-1", "copies": 3},
    ]
    page.get_by_role("button", name="Remove edit 1").click()
    assert page.get_by_role("group", name="Edit 2").count() == 0
