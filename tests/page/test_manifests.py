"""The YAML of queues and quotas in the browser: asked for when opened, and only ever text."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.page.test_hostile_text import HOSTILE, assert_only_text
from tests.page.test_unit_objects import VISITOR, open_part, poisoned
from tests.page.test_views import assert_sound
from tests.page.window_kit import Window

QUOTA: Final = "/quotas/vision"
QUEUE: Final = "/queues/vision"
STATED: Final = {
    "/page/manifests/queue/vision": "Queue",
    "/page/manifests/quota/vision": "ElasticQuota",
    "/page/manifests/policy/vision": "QuotaPolicy",
}
POLICY: Final = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "QuotaPolicy",
    "namespace": "koord-queue",
    "name": "of-vision",
}


@pytest.fixture
def visitor(window: Window) -> Window:
    """A tab of somebody who has logged in, where `vision` has a policy."""
    window.answer("/page/session", VISITOR)
    for path, kind in STATED.items():
        manifest = {"kind": kind, "metadata": {"name": "vision"}, "spec": {"priority": 3}}
        window.answer(path, {"manifest": manifest, "problem": ""})
    window.edit(f"/page{QUOTA}", lambda body: body.update(policy=POLICY))
    return window


@pytest.mark.parametrize(
    ("view", "kinds"), [(QUEUE, ["Queue"]), (QUOTA, ["ElasticQuota", "QuotaPolicy"])]
)
def test_yaml_is_asked_for_when_it_is_opened(visitor: Window, view: str, kinds: list[str]) -> None:
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.open(view)
    visitor.sees("Read from the API server with your own token")
    assert not any("/manifests/" in each for each in asked)
    for kind in kinds:
        open_part(visitor, f"YAML of its {kind}")
        text = visitor.page.get_by_label(f"YAML of the {kind}", exact=True).inner_text()
        assert text.startswith(f"kind: {kind}\nmetadata:\n  name: vision\n")
    assert sum("/manifests/" in each for each in asked) == len(kinds)
    assert_sound(visitor, f"stated-{view[1:].replace('/', '-')}")


def test_a_refusal_is_said_and_can_be_asked_again(visitor: Window) -> None:
    refused = "The API server does not let you read this: queues is forbidden"
    visitor.answer("/page/manifests/queue/vision", {"manifest": None, "problem": refused})
    visitor.open(QUEUE)
    open_part(visitor, "YAML of its Queue")
    visitor.sees(refused)
    visitor.answer("/page/manifests/queue/vision", {"manifest": {"kind": "Queue"}, "problem": ""})
    visitor.page.get_by_role("button", name="Read again").click()
    visitor.page.get_by_label("YAML of the Queue", exact=True).wait_for()
    assert visitor.page.get_by_text(refused).count() == 0


def test_without_a_login_there_are_commands_to_copy(window: Window) -> None:
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.edit(f"/page{QUOTA}", lambda body: body.update(policy=POLICY))
    kubectl = {
        "Queue": "queue.v1alpha1.scheduling.x-k8s.io vision --output yaml --namespace koord-queue",
        "ElasticQuota": "elasticquota.v1alpha1.scheduling.sigs.k8s.io vision --output yaml"
        " --namespace default",
        "QuotaPolicy": "quotapolicy.v1alpha1.scheduling.x-k8s.io of-vision --output yaml"
        " --namespace koord-queue",
    }
    for view, kinds in ((QUEUE, ["Queue"]), (QUOTA, ["ElasticQuota", "QuotaPolicy"])):
        window.open(view)
        window.sees("Without a login the page does not ask the API server")
        for kind in kinds:
            open_part(window, f"YAML of its {kind}")
            window.sees(f"kubectl get {kubectl[kind]}")
    assert not any("/manifests/" in each for each in asked)
    assert_sound(window, "stated-local")


def test_an_earlier_time_has_no_objects(window: Window) -> None:
    url = window.url + f"/page{QUOTA}"
    window.page.route(f"**/page{QUOTA}?at=*", lambda route: route.continue_(url=url))
    window.open(f"{QUOTA}?at=2026-11-01T00:00:00Z")
    window.sees("The use over the last day is shown only for now.")
    assert window.page.get_by_text("In the cluster").count() == 0


def test_a_plugins_own_quota_has_no_object(window: Window) -> None:
    window.edit(f"/page{QUOTA}", lambda body: body.update(statedIn=None))
    window.open(QUOTA)
    window.page.get_by_role("heading", name="The last day").wait_for()
    assert window.page.get_by_text("In the cluster").count() == 0


def test_hostile_objects_are_only_text(visitor: Window) -> None:
    manifest: dict[str, Any] = {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}
    for path in STATED:
        visitor.answer(path, {"manifest": manifest, "problem": HOSTILE})
    names = poisoned(POLICY)

    def poison(body: dict[str, Any]) -> None:
        body.update(policy=names, statedIn=names)

    visitor.edit(f"/page{QUOTA}", poison)
    visitor.open(QUOTA)
    for part in visitor.page.locator("summary", has_text="YAML of its").all():
        part.click()
    visitor.page.locator("pre", has_text="onerror").first.wait_for()
    assert_only_text(visitor)
