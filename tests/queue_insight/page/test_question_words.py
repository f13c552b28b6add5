"""What is wrong with a question is a sentence in which no path of a field stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.queue_insight.page.page_kit import TENANT, Browser, LoginWorld, PageWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def client(kit: ShellKit) -> Iterator[Browser]:
    with browser(PageWorld(kit.shared, kit.clock)) as client:
        yield client


def quota(**maximum: str) -> dict[str, Any]:
    return {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": maximum}}}


@pytest.mark.parametrize(
    ("edits", "want"),
    [
        pytest.param(
            [quota(cpu="-1")],
            "Edit 1 (ElasticQuota team): the max of cpu must not be negative.",
            id="an amount",
        ),
        pytest.param(
            [quota(cpu="8"), quota(**{"example.com/gpu": "many"})],
            "Edit 2 (ElasticQuota team): the max of example.com/gpu: 'many' is not a quantity such "
            "as 500m, 2Gi or 1e3.",
            id="no amount, in the second edit",
        ),
        pytest.param(
            [{"kind": "Node", "name": "none", "copies": 1}],
            "Edit 1 (Node none): there is no Node 'none'.",
            id="an unknown node",
        ),
        pytest.param(
            [{"kind": "Queue", "patch": {}}],
            "Edit 1 (Queue): the name is required.",
            id="no name",
        ),
        pytest.param(
            [{"kind": "Cow", "name": "a", "patch": {}}],
            "Edit 1 (Cow a): the kind must be one of ",
            id="an unknown kind",
        ),
        pytest.param(
            [{"kind": "Node", "name": "a", "copies": 10_001}],
            "Edit 1: the number of nodes should be less than or equal to 10000.",
            id="too many",
        ),
        pytest.param([{"name": "a"}], "Edit 1: the kind is required.", id="no kind"),
        pytest.param(
            [{"kind": "Node", "legs": 4}],
            "Edit 1: the field legs is not known.",
            id="an unknown field",
        ),
        pytest.param(
            [quota(cpu="1")] * 101,
            "The list of edits should have at most 100 items after validation, not 101.",
            id="too many edits",
        ),
    ],
)
def test_a_wrong_edit(client: Browser, edits: list[Any], want: str) -> None:
    answer = client.post("/page/what-if", json={"edits": edits})
    assert answer.status_code in {400, 422}
    assert answer.json()["detail"].startswith(want)


def test_a_body_that_cannot_be_read(client: Browser) -> None:
    sent = {"content-type": "application/json"}
    answer = client.post("/page/what-if", content="{", headers=sent)
    assert answer.json()["detail"].startswith("The question: Invalid JSON: ")


def test_many_mistakes_are_counted(client: Browser) -> None:
    edits = [{"kind": "Node", "copies": -1}] * 8
    detail = client.post("/page/what-if", json={"edits": edits}).json()["detail"]
    assert detail.count("the number of nodes should be") == 5
    assert detail.endswith(" More mistakes: 3.")


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/page/overview?at=noon", "The time (at) should be a valid datetime"),
        ("/page/queues/team?limit=0", "The number of rows (limit) should be greater than or equal"),
        ("/page/queues/" + "a" * 300, "The name should have at most 253 characters."),
    ],
)
def test_a_wrong_parameter(client: Browser, path: str, want: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(want)


def test_an_edit_of_a_unit_of_others(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    world.askers.add("ann")
    edit = {"kind": "QueueUnit", "namespace": "secret", "name": "a", "end": True}
    with browser(world, TENANT) as client:
        answer = client.post("/page/what-if", json={"edits": [edit]})
    want = "Edit 1 (QueueUnit a): you may not list the units of 'secret'."
    assert (answer.status_code, answer.json()["detail"]) == (403, want)
