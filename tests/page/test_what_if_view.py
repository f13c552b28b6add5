"""The form of what-if questions: it asks, shows differences, and applies nothing."""

from __future__ import annotations

from playwright.sync_api import Route

from tests.page.test_views import UNIT, assert_read_on_a_phone, assert_sound
from tests.page.window_kit import Json, Window

SPREAD = {"p10": 600, "p50": 1800, "p90": None}
COMPARISON = {
    "before": SPREAD,
    "after": SPREAD,
    "difference": {"p10": -60, "p50": -30, "p90": -1},
    "compared": 20,
    "isClear": True,
}
NOISE = {**COMPARISON, "isClear": False}
MORE_CPU = {
    **COMPARISON,
    "before": {"p10": 2000, "p50": 3000, "p90": 3000},
    "after": {"p10": 3500, "p50": 3500, "p90": 3500},
    "difference": {"p10": 250, "p50": 500, "p90": 1000},
}
HORIZON = {
    "seconds": 3600,
    "paths": 20,
    "seed": 0,
    "basis": "runs of the last eight days",
    "computedAt": "2026-11-01T10:00:00Z",
    "completed": NOISE,
    "queues": [{"name": "vision", "waitP50": COMPARISON, "waitP90": None, "completed": NOISE}],
    "quotas": [],
    "resources": [{"resource": "cpu", "before": "3", "after": "3500m", "used": MORE_CPU}],
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
    "noHorizon": "there is no forecast yet",
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
    window.sees("Edit 1: the field spec.mox is not read by the scheduler. Is it misspelled?")
    window.page.get_by_role("row", name="Median wait, queue vision 30m 30m -30s").wait_for()
    assert_read_on_a_phone(window, "Differences over time")
    patch = {"spec": {"max": {"cpu": "12"}}}
    edit = {"kind": "ElasticQuota", "name": "vision", "namespace": "default", "patch": patch}
    assert asked == [{"edits": [edit], "horizonSeconds": 3600}]
    command = window.page.get_by_label("as kubectl").inner_text()
    assert command.startswith(
        "kubectl patch elasticquota.v1alpha1.scheduling.sigs.k8s.io vision --namespace default "
    )
    yaml = window.page.get_by_label("as YAML").inner_text().splitlines()
    assert yaml[-3:] == ["spec:", "  max:", '    cpu: "12"']
    assert_sound(window, "what-if-answer")


def look_ahead(window: Window, horizon: Json) -> None:
    answer_with(window, {**NOTHING, "horizon": horizon, "noHorizon": ""})
    window.open("/what-if?quota=vision")
    window.page.get_by_label("New amount").fill("12")
    window.page.get_by_label("How far to look ahead").select_option("One hour")
    window.page.get_by_role("button", name="Show what would change").click()


def test_a_difference_that_is_chance_has_no_row(window: Window) -> None:
    look_ahead(window, HORIZON)
    window.sees("Not shown: 2 differences within chance.")
    rows = window.page.get_by_role("group", name="Differences over time").get_by_role("row")
    assert rows.all_inner_texts()[1:] == [
        "Median wait, queue vision\t30m\t30m\t-30s\t-1m to -1s",
        "cpu used on average\t3\t3.5\t+0.5\t+0.25 to +1",
    ]


def test_a_wait_that_is_not_over_at_the_end_is_longer(window: Window) -> None:
    late = {**COMPARISON, "before": {"p10": 600, "p50": None, "p90": None}}
    queue = {"name": "vision", "waitP50": late, "waitP90": None, "completed": None}
    look_ahead(window, {**HORIZON, "queues": [queue]})
    window.page.get_by_role("row", name="Median wait, queue vision over 1h 30m -30s").wait_for()


def test_where_all_is_chance_there_is_no_table(window: Window) -> None:
    quota = {"name": "vision", "waitP50": NOISE, "waitP90": NOISE, "completed": NOISE}
    look_ahead(window, {**HORIZON, "queues": [], "quotas": [quota], "resources": []})
    window.sees("Nothing differs by more than chance. Compared: 4 numbers.")
    assert window.page.get_by_role("group", name="Differences over time").count() == 0


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
    assert window.page.get_by_text("No look ahead").count() == 0
    page.get_by_label("How far to look ahead").select_option("One hour")
    page.get_by_role("button", name="Show what would change").click()
    window.sees("No look ahead: there is no forecast yet.")
    stop = {"metadata": {"annotations": {"koord-queue/stop-policy": "Hold"}}}
    assert asked[0]["edits"] == [
        {"kind": "Queue", "name": "vision", "namespace": "koord-queue", "patch": stop},
        {"kind": "Node", "name": "node-1", "copies": 3},
    ]
    page.get_by_role("button", name="Remove edit 1").click()
    assert page.get_by_role("group", name="Edit 2").count() == 0


def options_of(window: Window, label: str) -> list[str]:
    """Return what a field offers."""
    field = window.page.get_by_label(label, exact=True)
    # A field offers something once the names have come.
    field.and_(window.page.locator("[list]")).wait_for()
    offered: list[str] = field.evaluate("each => [...each.list.options].map(({ value }) => value)")
    return offered


def test_names_are_offered(window: Window) -> None:
    window.edit("/page/names", lambda body: body.update(nodes=["node-1", "node-2"]))
    window.open("/what-if")
    kind = window.page.get_by_label("Kind")
    assert options_of(window, "Name") == ["org", "speech", "vision"]
    assert options_of(window, "Resource") == ["cpu"]
    kind.select_option("Queue")
    assert options_of(window, "Name") == ["org", "speech", "vision"]
    kind.select_option("Node")
    assert options_of(window, "A node to have more of") == ["node-1", "node-2"]


def test_the_form_knows_what_it_was_opened_from(window: Window) -> None:
    window.open("/quotas/vision")
    window.page.get_by_role("link", name="What if it were different?").click()
    window.page.wait_for_url("**/what-if?quota=vision&resource=cpu")
    window.page.get_by_label("New amount").and_(window.page.locator("[required]")).wait_for()
    window.sees("now 8")
    assert window.page.get_by_label("Namespace").input_value() == "default"
    window.page.get_by_label("Bound").select_option("min")
    window.page.get_by_role("button", name="org").click()
    assert window.page.get_by_label("Name", exact=True).input_value() == "org"
    window.sees("now 16")
    assert_sound(window, "what-if-chain")


def test_a_unit_offers_the_quotas_that_it_is_charged_to(window: Window) -> None:
    window.open(UNIT)
    window.page.get_by_role("link", name="What if its quota were different?").click()
    chain = window.page.get_by_role("group", name="Quotas to choose from")
    chain.get_by_text("default/train-1 is charged to:").wait_for()
    assert chain.get_by_role("button").all_inner_texts() == ["vision", "org"]
    assert window.page.get_by_label("Resource").input_value() == "cpu"


def test_a_name_that_nothing_has_is_said_to_be_new(window: Window) -> None:
    window.open("/what-if")
    assert options_of(window, "Name")
    window.page.get_by_label("Name", exact=True).fill("visoin")
    window.sees("There is no ElasticQuota visoin yet: this would create it.")


def test_a_quota_of_a_tree_is_not_edited_as_another(window: Window) -> None:
    window.edit("/page/names", lambda body: body["quotas"][2].update(editable=False))
    window.open("/what-if?quota=vision")
    window.sees("vision is not an ElasticQuota, so it cannot be edited here")


def test_of_one_name_in_two_namespaces_one_is_chosen(window: Window) -> None:
    def double(body: Json) -> None:
        body["quotas"].append({**body["quotas"][2], "namespace": "other"})

    window.edit("/page/names", double)
    window.open("/what-if?quota=vision")
    assert options_of(window, "Namespace") == ["default", "other"]
    assert window.page.get_by_label("Namespace").input_value() == ""
    asked = answer_with(window, NOTHING)
    window.page.get_by_label("Namespace").fill("other")
    window.page.get_by_label("New amount").fill("9")
    window.page.get_by_role("button", name="Show what would change").click()
    window.sees("Nothing: the same units start and wait.")
    assert asked[0]["edits"][0]["namespace"] == "other"


def test_a_wrong_amount_is_a_sentence(window: Window) -> None:
    window.open("/what-if?quota=vision")
    window.page.get_by_label("New amount").fill("many")
    window.page.get_by_role("button", name="Show what would change").click()
    words = "Edit 1 (ElasticQuota vision): the max of cpu: 'many' is not a quantity"
    window.page.get_by_role("alert").get_by_text(words).wait_for()


def test_an_earlier_time_is_said_not_to_be_shown(window: Window) -> None:
    window.open("/what-if?at=2026-11-01T10:00:00Z")
    window.sees("This view is about now: it cannot be shown for")
    window.page.get_by_role("button", name="Show how it is now").click()
    window.page.wait_for_url("**/what-if")
