"""The names that the form of what-if questions offers, to whom they are shown."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.page import known_names
from queue_scheduler.engine.engine import Engine
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.testing.object_builders import node
from tests.properties.engine_kit import build_policy
from tests.queue_insight.page.page_kit import ROOT, TENANT, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

ASK = """
import { readFileSync } from "node:fs";
Object.assign(globalThis, {
  window: globalThis,
  document: { addEventListener() {} },
  location: { pathname: "/", search: "" },
  addEventListener() {},
});
const { PolicyFields, editOf } = await import("./app/what_if.js");
const { rows, names } = JSON.parse(readFileSync(0, "utf8"));
const fields = (row) => PolicyFields({ row, names, set: () => () => {} }).map(({ props }) => props);
const found = rows.map((row) => ({ ...editOf(row, names), fields: fields(row) }));
console.log(JSON.stringify(found));
process.exit(0);
"""


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


def test_values_of_policies_are_there_for_who_may_read_everything(world: LoginWorld) -> None:
    limit = UserLimit(users=("ann", "bob"), max={"nvidia.com/gpu": 8}, running=4)
    policy = build_policy("p", ["vision"], limit)
    hours = Budget(resource="cpu", hours="100", period="Day")
    money = Budget(amount=5, price={"cpu": 1}, period="None")
    spec = replace(policy.spec, budgets=(hours, money))
    world.shared.apply(Engine.on_quota_policy, replace(policy, spec=spec))
    (got,) = names_for(world, ROOT)["policies"]
    limits, budgets = "userLimits 0 (users ann, bob)", "/spec/budgets"
    assert (got["name"], got["namespace"]) == ("p", "koord-queue")
    assert [tuple(each.values()) for each in got["values"]] == [
        ("/spec/userLimits/0/max/nvidia.com~1gpu", 8, f"{limits}: nvidia.com/gpu"),
        ("/spec/userLimits/0/running", 4, f"{limits}: running"),
        (f"{budgets}/0/hours", "100", "budgets 0 (Day): hours of cpu"),
        (f"{budgets}/1/amount", 5, "budgets 1 (None): amount"),
    ]
    assert names_for(world, TENANT)["policies"] == []


def test_the_form_makes_the_json_patch_of_a_value(world: LoginWorld, tmp_path: Path) -> None:
    limit = UserLimit(users=("*",), max={"nvidia.com/gpu": 8}, running=4)
    world.shared.apply(Engine.on_quota_policy, build_policy("p", ["vision"], limit))
    names = names_for(world, ROOT)
    static = Path("queue_insight/page/static").resolve()
    for name in ("app", "vendor"):
        shutil.copytree(static / name, tmp_path / name)
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (tmp_path / "ask.mjs").write_text(ASK, encoding="utf-8")
    node_js = shutil.which("node")
    if node_js is None:
        pytest.skip("node is not installed")
    rows = [
        {"kind": "QuotaPolicy", "name": "p", "path": path, "amount": "12"}
        for path in ("", "/spec/userLimits/0/running")
    ]
    asked = json.dumps({"rows": rows, "names": names})
    done = subprocess.run(
        [node_js, tmp_path / "ask.mjs"], input=asked, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    first, running = "/spec/userLimits/0/max/nvidia.com~1gpu", "/spec/userLimits/0/running"
    assert [each["operations"] for each in got] == [
        [
            {"op": "test", "path": first, "value": 8},
            {"op": "replace", "path": first, "value": "12"},
        ],
        [
            {"op": "test", "path": running, "value": 4},
            {"op": "replace", "path": running, "value": 12},
        ],
    ]
    choice, amount = got[1]["fields"]
    assert (choice["value"], amount["hint"], amount["value"]) == (running, "now 4", "12")
    assert [path for path, _ in choice["options"]] == [first, running]
    assert {(each["kind"], each["namespace"]) for each in got} == {("QuotaPolicy", "koord-queue")}
