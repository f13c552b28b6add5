"""Invariants under flapping checks, edited queues, and lost answers.

No unit is admitted while a check that it needs is not Ready, at the version that was decided on; no
booking is lost; and when every check is Ready at last, every unit is admitted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle
from queue_scheduler.unit_controllers.eviction import UnitEvictions
from queue_scheduler.unit_controllers.requeue import BackoffRequeue
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.write_dispatcher import Outcome, Write
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from tests.properties.engine_kit import build_check
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, UNIT_STATUS, Json, Line, ShellKit
from tests.queue_scheduler.unit_news import UnitNews, access_of
from tests.stepped_host import exhaust

pytestmark = [pytest.mark.properties, pytest.mark.timeout(1500)]

CHECKS = ("a", "b", "c")
STATES = ("Ready", "Ready", "Ready", "Pending", "Retry", "Rejected")
UNITS = ("u0", "u1", "u2", "u3")
ROOM = 2
"""How many of the units fit the quota."""
RED = {"matchLabels": {"team": "red"}}
TIMEOUT = 120.0
LONG_SECONDS = 3000.0
"""Longer than any backoff and timeout set here."""


class Witness:
    """A `WriteSink` that judges every admission by the objects it was decided on."""

    def __init__(self, kit: ShellKit) -> None:
        self._kit = kit

    def submit(self, write: Write[Any], on_outcome: Callable[[Outcome[Any]], None]) -> None:
        if write.body["status"].get("phase") == "Dequeued":
            record = self._kit.engine.record(f"{write.namespace}/{write.name}")
            queue = self._kit.engine.queues.queue("team")
            assert record is not None
            assert queue is not None
            assert record.unit.metadata.resource_version == guard_of(write)
            inactive = set(self._kit.engine.units.checks.inactive)
            unready = unready_checks(record.unit, queue, inactive)
            assert not unready, f"{write.name} is admitted while {unready} are not Ready"
        self._kit.dispatcher.submit(write, on_outcome)


def guard_of(write: Write[Any]) -> str:
    """Return the version that guards a write."""
    return str(write.body["metadata"]["resourceVersion"])


def unready_checks(unit: QueueUnit, queue: Queue, inactive: set[str]) -> set[str]:
    """Return the checks that a unit needs and that are not Ready, in the simplest way."""
    red = unit.metadata.labels.get("team") == "red"
    needed = {c.name for c in queue.spec.admission_checks if c.label_selector is None or red}
    said = {s.name for s in unit.status.admission_checks if s.state == "Ready"}
    return needed - (said - inactive)


class World:
    """Shells over one engine and server, and what may happen to them."""

    def __init__(self) -> None:
        self.kit = ShellKit()
        self.kit.add_quota("team", ROOM)
        self.line = Line(self.kit, Witness(self.kit))
        self.news = UnitNews(self.kit)
        self.active = dict.fromkeys(CHECKS, True)
        self.restart()
        for n, name in enumerate(UNITS):
            labels = {"team": "red"} if n % 2 else {}
            self.kit.add_unit(name, metadata={"labels": labels})

    def restart(self, *_: int) -> None:
        """Start anew from the objects; writes in flight are settled."""
        kit, rng = self.kit, random.Random(1)

        def access() -> Any:
            return access_of(kit, writes=Witness(kit))

        self.checks = AdmissionCheckCycle(access(), kit.clock, rng, TIMEOUT, self)
        self.shells = (
            self.checks,
            BackoffRequeue(access(), kit.clock),
            UnitEvictions(access(), kit.clock, rng),
        )
        self.news.forget()

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count (`CheckObserver`)."""

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count (`CheckObserver`)."""
        assert check in CHECKS
        assert why in Shortfall

    # --- the acts ---------------------------------------------------------------------------

    def say(self, a: int, b: int) -> None:
        """Let a check answer, or change its answer."""
        name, state = UNITS[a % len(UNITS)], STATES[b % len(STATES)]
        entries = self.kit.unit(name)["status"].get("admissionChecks", [])
        if entries:
            entries[b % len(entries)]["state"] = state
            self.patch(name, {"admissionChecks": entries})

    def ask(self, a: int, b: int) -> None:
        """Let the queue list other checks."""
        listed: list[Json] = [{"name": name} for i, name in enumerate(CHECKS) if a >> i & 1]
        listed += [
            {"name": name, "labelSelector": RED} for i, name in enumerate(CHECKS) if b >> i & 1
        ]
        self.list_checks(listed)

    def list_checks(self, listed: list[Json]) -> None:
        before = self.kit.engine.queues.queue("team")
        spec = {"spec": {"admissionChecks": listed}}
        self.kit.direct.patch("queues", "team", spec, namespace=QUEUE_NAMESPACE)
        self.kit.learn_queue("team")
        self.checks.on_queue(before, self.kit.engine.queues.queue("team"))

    def relabel(self, a: int, b: int) -> None:
        """Set or remove the label of a unit that checks select by."""
        labels = {"metadata": {"labels": {"team": "red" if b % 2 else None}}}
        self.kit.direct.patch("queueunits", UNITS[a % len(UNITS)], labels, namespace="default")

    def activate(self, a: int, b: int) -> None:
        """Let an AdmissionCheck become active, or inactive."""
        name = CHECKS[a % len(CHECKS)]
        self.active[name] = bool(b % 2)
        check = build_check(name, "True" if b % 2 else "False")
        self.kit.shared.apply(Engine.on_admission_check, check)
        self.checks.on_admission_check(None, check)

    def hear(self, *_: int) -> None:
        """Let the informer deliver changes."""
        self.news.hear(self)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Pass on what the informer delivers."""
        for shell in self.shells:
            shell.on_queue_unit(old, new)

    def work(self, *_a: int) -> None:
        """Let every shell do what there is to do."""
        for _ in range(len(UNITS)):
            decision = self.kit.decide()
            if isinstance(decision, Dequeue):
                self.line.cycle.carry_out(decision)
        for shell in self.shells:
            exhaust(shell.step)
        self.kit.send()
        exhaust(self.line.cycle.step)

    def look(self, *_: int) -> None:
        """Decide about the checks, and send the decision later."""
        exhaust(self.checks.step)

    def fail(self, a: int, _b: int) -> None:
        """Let the next write fail, or its answer be lost."""
        faults = self.kit.server.faults
        if a % 3:
            faults.fail((409, 500)[a % 2], times=1, match=UNIT_STATUS)
        else:
            faults.lose_answer(times=1, match=UNIT_STATUS)

    def wait(self, a: int, b: int) -> None:
        """Time passes."""
        self.kit.clock.advance(float(a % 7 * (b % 30)))

    def patch(self, name: str, status: Json) -> None:
        self.kit.direct.patch(
            "queueunits", name, {"status": status}, namespace="default", subresource="status"
        )

    # --- what must hold ---------------------------------------------------------------------

    def check(self) -> None:
        """Check after every act that the booked units are charged, and no other."""
        engine = self.kit.engine
        engine.validate()
        assert self.kit.used() <= ROOM * 1000
        for unit in self.listed():
            record = engine.record(unit.metadata.key)
            assert record is not None
            charge = engine.usage.charge_of(unit.metadata.uid)
            if record.version == int(unit.metadata.resource_version):
                is_charged = occupies_quota(unit) or record.state is UnitState.ASSUMED
                assert (charge is not None) is is_charged, record

    def listed(self) -> list[QueueUnit]:
        """Return all units as the server has them."""
        items = self.kit.client.list_page(QUEUE_UNITS).items
        return [unit for unit in items if isinstance(unit, QueueUnit)]

    def come_to_rest(self) -> None:
        """Let all checks become Ready, and running units end: every unit is admitted once."""
        self.kit.server.faults.clear()
        for n in range(len(CHECKS)):
            self.activate(n, 1)
        admitted: set[str] = set()
        begun = self.kit.clock.monotonic()
        while len(admitted) < len(UNITS):
            assert self.kit.clock.monotonic() < begun + LONG_SECONDS, f"stuck: {self.story()}"
            for name in UNITS:
                admitted |= self.answer(name)
            self.hear()
            self.work()
            self.check()
            self.kit.clock.advance(5.0)

    def answer(self, name: str) -> set[str]:
        """Let the checks of a unit become Ready; end it, and return its name, if it is admitted."""
        status = self.kit.unit(name)["status"]
        if status["phase"] == "Dequeued":
            self.patch(name, {"phase": "Succeed", "admissions": []})
            return {name}
        entries = [{**entry, "state": "Ready"} for entry in status.get("admissionChecks", [])]
        if status["phase"] == "Reserved" and entries != status.get("admissionChecks", []):
            self.patch(name, {"admissionChecks": entries})
        return set()

    def story(self) -> list[str]:
        return [
            f"{unit.metadata.name} {unit.status.phase} {unit.status.requeue_state}"
            f" {[(s.name, s.state) for s in unit.status.admission_checks]}"
            for unit in self.listed()
        ]


ACTS = ("say", "say", "say", "ask", "relabel", "activate", "fail", "wait", "restart")
STEPS = ("hear", "hear", "work", "work", "look")
numbers = st.integers(0, 99)
acts = st.tuples(st.sampled_from((*ACTS, *STEPS)), numbers, numbers)


@given(st.lists(acts, min_size=5, max_size=40))
def test_no_unit_is_admitted_unchecked_and_every_unit_in_the_end(
    story: list[tuple[str, int, int]],
) -> None:
    world = World()
    world.list_checks([{"name": "a"}, {"name": "b", "labelSelector": RED}])
    world.work()
    world.check()
    for act, a, b in story:
        getattr(world, act)(a, b)
        world.check()
    world.come_to_rest()
