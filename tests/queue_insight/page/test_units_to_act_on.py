"""Units that need a user, and those in no queue, as an engine has them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from queue_insight.page.page_app import Pages
from queue_insight.page.units_to_act_on import (
    UnitGroup,
    find_long_without_pods,
    find_pods_not_running,
    find_units_to_act_on,
    find_unqueued,
)
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import queue
from shared_api.timestamps import rfc3339
from tests.queue_insight.page.page_kit import PageWorld
from tests.queue_insight.page.test_hidden_sums import add
from tests.queue_insight.page.test_known_state import ROOT
from tests.queue_scheduler.shell_kit import ShellKit


def found(kit: ShellKit) -> tuple[UnitGroup, ...]:
    late = find_long_without_pods(find_pods_not_running(kit.engine), kit.clock.now())
    return (*find_units_to_act_on(kit.engine), *late)


def test_units_are_grouped_by_their_reason(kit: ShellKit) -> None:
    add(kit, "b", "default", "none", cpu=1)
    add(kit, "a", "other", "none", cpu=1)
    add(kit, "z", "default", cpu=1, queue="nowhere")
    add(kit, "waits", "default", cpu=1)
    assert found(kit) == (
        UnitGroup("NoQueue", False, ("default/z",)),  # noqa: FBT003 - a struct of three
        UnitGroup("NoQuota", False, ("default/b", "other/a")),  # noqa: FBT003 - the same
    )
    assert find_unqueued(kit.engine) == ("default/b", "default/z", "other/a")


def test_what_waits_for_room_needs_nobody(kit: ShellKit) -> None:
    add(kit, "runs", "default", cpu=3)
    kit.dequeue()
    add(kit, "waits", "default", cpu=2)
    kit.decide()
    assert (found(kit), find_unqueued(kit.engine)) == ((), ())


def test_one_class_of_units_is_of_one_reason(kit: ShellKit) -> None:
    for name in ("x", "y"):
        add(kit, name, "default", cpu=64)
    kit.decide()
    (group,) = found(kit)
    assert (group.reason, group.keys) == ("ExceedsQuota", ("default/x", "default/y"))
    assert find_unqueued(kit.engine) == (), "they stand in their queue"


def test_units_of_a_stopped_queue_stand_in_it(kit: ShellKit) -> None:
    meta = {"annotations": {"koord-queue/stop-policy": "Hold"}, "resourceVersion": "99"}
    kit.shared.apply(Engine.on_queue, queue("team", metadata=meta))
    add(kit, "a", "default", cpu=1)
    assert [each.reason for each in found(kit)] == ["StoppedQueue"]
    assert find_unqueued(kit.engine) == ()


def admit(kit: ShellKit, reason: str, minutes: float) -> None:
    """Admit a unit whose pods have not run for so long."""
    since = rfc3339(kit.clock.now() - timedelta(minutes=minutes))
    admitted = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}
    ready = {"type": "PodsReady", "status": "False", "reason": reason, "message": ""}
    conditions: list[Any] = [{**each, "lastTransitionTime": since} for each in (admitted, ready)]
    kit.add_unit("stuck")
    admissions = [{"name": "main", "replicas": 1, "running": 0}]
    status = {"phase": "Dequeued", "admissions": admissions, "conditions": conditions}
    kit.direct.patch(
        "queueunits", "stuck", {"status": status}, namespace="default", subresource="status"
    )
    kit.learn("stuck")


@pytest.mark.parametrize(
    ("minutes", "want"),
    [
        pytest.param(6, [("PodsUnschedulable", True)], id="for long"),
        pytest.param(4, [], id="not for long"),
    ],
)
def test_admitted_units_whose_pods_do_not_run(
    kit: ShellKit, minutes: int, want: list[tuple[str, bool]]
) -> None:
    admit(kit, "PodsUnschedulable", minutes)
    assert [(each.reason, each.is_admitted) for each in found(kit)] == want


def test_time_alone_makes_a_unit_without_pods_need_a_user(kit: ShellKit) -> None:
    """The state of the page stays the same: nothing has changed in the engine."""
    admit(kit, "NoPods", 0)
    world = PageWorld(kit.shared, kit.clock)
    pages = Pages(world.sources()._replace(number=lambda: 1))
    assert problems(pages) == []
    kit.clock.advance(360.0)
    (problem,) = problems(pages)
    message = "1 unit is admitted for more than 5 minutes, NoPods."
    assert (problem["message"], problem["units"]) == (message, ["default/stuck"])


def problems(pages: Pages) -> list[dict[str, Any]]:
    answer = pages.overview(ROOT, None)
    got: list[dict[str, Any]] = msgspec.json.decode(bytes(answer.body))["problems"]
    return got
