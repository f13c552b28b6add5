"""A running unit is granted its growth, once, and only where there is room."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.scale_up import AGAIN_SECONDS, ScaleUp
from shared_api.client.errors import Conflict, ConnectionLost, Forbidden
from shared_api.client.write_dispatcher import Outcome, Unknown
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import build_pod
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.shell_kit import HeldWrites, ShellKit, rejected
from tests.queue_scheduler.unit_news import access_of
from tests.stepped_host import exhaust

LATER = 11 * 3600
"""Second of the day: after the units of these tests were created."""


class Nursery:
    """A running unit of one CPU, in a quota of four, and the cycle."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        kit.add_quota("team", cpu=4)
        kit.add_unit("a")
        self.restart()
        self._run("a")

    def restart(self, writes: Any = None) -> None:
        kit = self.kit
        self.due = kit.work_queue()
        sink = kit.dispatcher if writes is None else writes
        self.cycle = ScaleUp(access_of(kit, writes=sink), kit.clock)

    def _run(self, name: str) -> None:
        """Have the unit admitted and running, as both programs write it."""
        status = {
            "phase": "Running",
            "admissions": [
                {"name": "main", "replicas": 1, "running": 1, "resources": {"cpu": "1"}}
            ],
        }
        self.write(name, {"status": status}, subresource="status")

    def write(self, name: str, body: dict[str, Any], *, subresource: str = "") -> None:
        patch = {"namespace": "default", "subresource": subresource}
        self.kit.direct.patch("queueunits", name, body, **patch)
        self.hear(name)

    def hear(self, name: str = "a") -> None:
        new = self.kit.learn(name)
        self.cycle.on_queue_unit(None, new)

    def grow(self, count: int) -> None:
        pod_sets = self.kit.unit("a")["spec"]["podSet"]
        self.write("a", {"spec": {"podSet": [{**pod_sets[0], "count": count}]}})

    def work(self, seconds: float = 0.0) -> None:
        self.kit.clock.advance(seconds)
        exhaust(self.cycle.step)
        self.kit.send()
        exhaust(self.cycle.step)

    def granted(self) -> tuple[int, str]:
        (admission,) = self.kit.unit("a")["status"]["admissions"]
        return admission["replicas"], admission["resources"]["cpu"]


@pytest.fixture
def nursery() -> Nursery:
    return Nursery(ShellKit())


def test_growth_that_fits_is_granted_and_charged(nursery: Nursery) -> None:
    nursery.grow(3)
    nursery.work()
    assert nursery.granted() == (3, "3")
    assert nursery.kit.used() == 3000
    assert nursery.kit.unit("a")["status"]["admissions"][0]["running"] == 1
    writes = nursery.kit.writes()
    nursery.hear()
    nursery.work(60.0)
    assert nursery.kit.writes() == writes, "it is granted once"


def test_growth_is_charged_before_it_is_written(nursery: Nursery) -> None:
    nursery.grow(4)
    exhaust(nursery.cycle.step)
    nursery.kit.add_unit("b")
    assert nursery.kit.decide().refusal.quota == "team"
    nursery.kit.send()
    assert nursery.granted() == (4, "4")


def test_growth_that_does_not_fit_waits_for_room(nursery: Nursery) -> None:
    nursery.kit.add_unit("b", cpu=3)
    nursery.kit.dequeue()
    nursery.grow(2)
    nursery.work()
    assert nursery.granted() == (1, "1")
    refusal = nursery.kit.engine.growths.refusal_of("default/a")
    assert refusal is not None
    assert (refusal.limit, refusal.used, refusal.requested) == (4000, 3000, 2000)
    nursery.kit.shared.apply(Engine.on_queue_unit_gone, nursery.kit.learn("b"))
    nursery.work(AGAIN_SECONDS)
    assert nursery.granted() == (2, "2")


def test_existing_pods_are_granted_only_what_the_quota_has(nursery: Nursery) -> None:
    for name in ("x", "y", "z"):
        pod = build_pod(name, unit="default/a", namespace="default", quota="team", created=LATER)
        nursery.kit.shared.apply(Engine.on_pod, pod)
    assert nursery.kit.used() == 3000
    nursery.grow(3)
    nursery.work()
    assert nursery.granted() == (3, "3")
    nursery.grow(5)
    nursery.work()
    assert nursery.granted() == (3, "3"), "five are more than the quota has"


def test_a_unit_that_gives_everything_back_is_granted_nothing(nursery: Nursery) -> None:
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
    evicted["lastTransitionTime"] = "2026-11-01T09:00:00Z"
    nursery.write("a", {"status": {"conditions": [evicted]}}, subresource="status")
    nursery.grow(3)
    nursery.work()
    assert nursery.granted() == (1, "1")


def test_a_deactivated_unit_is_granted_nothing(nursery: Nursery) -> None:
    """It is asked to leave, by another thread or another program."""
    nursery.write("a", {"spec": {"active": False}})
    nursery.grow(3)
    nursery.work()
    assert nursery.granted() == (1, "1")


def test_writes_of_others_meanwhile_are_not_lost(nursery: Nursery) -> None:
    nursery.grow(3)
    exhaust(nursery.cycle.step)
    status = nursery.kit.unit("a")["status"]
    status["admissions"][0]["running"] = 0
    nursery.kit.direct.patch(
        "queueunits", "a", {"status": status}, namespace="default", subresource="status"
    )
    nursery.kit.send()
    assert nursery.granted() == (1, "1"), "the write met a conflict"
    nursery.hear()
    assert nursery.kit.used() == 1000, "and is no longer charged"
    nursery.work(1.0)
    assert nursery.granted() == (3, "3")
    assert nursery.kit.unit("a")["status"]["admissions"][0]["running"] == 0


def test_a_starting_process_finds_grown_units(nursery: Nursery) -> None:
    nursery.kit.leads = False
    nursery.grow(2)
    nursery.restart()
    nursery.work()
    assert nursery.granted() == (1, "1"), "it does not lead"
    nursery.kit.leads = True
    nursery.work()
    assert nursery.granted() == (2, "2")


@pytest.mark.parametrize("landed", [True, False])
def test_after_a_lost_answer_the_unit_is_read(nursery: Nursery, *, landed: bool) -> None:
    held = HeldWrites()
    nursery.restart(held)
    nursery.grow(2)
    exhaust(nursery.cycle.step)
    (write,) = held.writes
    if landed:
        nursery.kit.direct.patch(
            "queueunits", "a", write.body, namespace="default", subresource="status"
        )
    held.settle(Unknown(ConnectionLost("no answer", sent=True)))
    assert nursery.kit.used() == 2000, "it may have been written"
    nursery.kit.clock.advance(1.0)
    exhaust(nursery.cycle.step)
    assert nursery.kit.used() == 2000
    assert len(held.writes) == (1 if landed else 2)


@pytest.mark.parametrize(
    "outcome",
    [rejected(Conflict(409, "newer")), rejected(Forbidden(403, "no"))],
    ids=["conflict", "refused"],
)
@pytest.mark.parametrize("is_gone", [True, False])
def test_unwritten_growth_is_not_charged(
    nursery: Nursery, outcome: Outcome[QueueUnit], *, is_gone: bool
) -> None:
    held = HeldWrites()
    nursery.restart(held)
    nursery.grow(2)
    exhaust(nursery.cycle.step)
    held.settle(outcome)
    nursery.kit.engine.validate()
    nursery.kit.add_unit("b", cpu=3)
    if is_gone:
        nursery.kit.direct.delete("queueunits", "a", "default")
    nursery.kit.clock.advance(1.0)
    exhaust(nursery.cycle.step)
    assert nursery.kit.used() == (1000 if is_gone else 2000)
    assert len(held.writes) == (1 if is_gone else 2), "a unit that still exists is retried"


def test_charged_growth_is_settled_whatever_raises(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    nursery.grow(3)
    raise_once(monkeypatch, nursery.kit.engine.growths, "record_of")
    assert nursery.cycle.step() == 0.0
    nursery.work(AGAIN_SECONDS)
    nursery.work(AGAIN_SECONDS)
    assert nursery.granted() == (3, "3")
