"""The names that the form of what-if questions offers, to whom they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.page import known_names
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import node
from tests.queue_insight.page.page_kit import ROOT, TENANT, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def world() -> LoginWorld:
    kit = ShellKit()
    kit.add_quota("org", 16, is_parent=True)
    kit.add_quota("vision", 8, parent="org")
    for name in ("node-2", "node-1"):
        kit.shared.apply(Engine.on_node, node(name))
    return LoginWorld(kit)


def names_for(world: LoginWorld, token: str) -> dict[str, Any]:
    with browser(world, token) as client:
        found: dict[str, Any] = client.get("/page/names").json()
        return found


def test_all_names_are_there_with_what_an_edit_needs(world: LoginWorld) -> None:
    got = names_for(world, ROOT)
    queues = [{"name": name, "namespace": "koord-queue"} for name in ("org", "vision")]
    assert got["queues"] == queues
    assert got["quotas"][1] == {
        "name": "vision",
        "namespace": "default",
        "parent": "org",
        "editable": True,
        "min": {"cpu": "8"},
        "max": {"cpu": "8"},
    }
    assert (got["nodes"], got["complete"]) == (["node-1", "node-2"], True)


def test_nodes_are_named_to_who_may_read_everything(world: LoginWorld) -> None:
    got = names_for(world, TENANT)
    assert (len(got["queues"]), len(got["quotas"]), got["nodes"]) == (2, 2, [])


def test_lists_are_bounded(world: LoginWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names, "MAX_NAMES", 1)
    got = names_for(world, ROOT)
    assert [each["name"] for each in got["quotas"]] == ["org"]
    assert ([len(got[each]) for each in ("queues", "nodes")], got["complete"]) == ([1, 1], False)
