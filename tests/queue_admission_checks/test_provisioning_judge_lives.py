"""Random lives of units, requests and the program; what must be true whenever all is at rest."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from shared_api.fake_api_server.faults import Match
from shared_api.testing.object_builders import pod_set
from tests.queue_admission_checks.provisioning_world import (
    CONSUME,
    GPU,
    ProvisioningWorld,
)

Json = dict[str, Any]

UNITS: Final = ("a", "b", "c")
BOOKED: Final = frozenset({"Reserved", "Dequeued", "Running"})
ANSWERS: Final = ("Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked")
STEPS: Final = 40


class Lives:
    """A cluster in which anything happens, in an order given by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = ProvisioningWorld()
        self.world.add_config(managedResources=["nvidia.com/gpu"])
        self.world.add_provisioning_check()
        self.world.run()

    def step(self) -> None:
        """Let something happen, and then usually let time pass."""
        self.rng.choice(self._moves())()
        if self.rng.random() < 0.8:
            self.world.settle(self.rng.choice((0.1, 1.0, 10.0)))

    def _moves(self) -> list[Callable[[], None]]:
        name = self.rng.choice(UNITS)
        there = {each["metadata"]["name"] for each in self.world.direct.list("queueunits")}
        if name not in there:
            return [lambda: self._add(name)]
        return [
            self._answer,
            self._answer,
            self._answer,
            lambda: self._schedule(name),
            lambda: self._schedule(name),
            lambda: self._edit(name),
            lambda: self.world.direct.delete("queueunits", name, "default"),
            self._edit_config,
            self._disturb,
            self.world.run,
        ]

    def _add(self, name: str) -> None:
        self.world.add_gpu_unit(name, "check", "slow")

    def _schedule(self, name: str) -> None:
        """Act as the scheduler: let the unit go on when all is well, requeue it when not."""
        unit = self.world.unit(name)["status"]
        states = {each["name"]: each["state"] for each in unit.get("admissionChecks", [])}
        match unit["phase"]:
            case "Reserved" if states["check"] == "Ready":
                self.world.move(name, "Dequeued")
            case "Dequeued" if states["check"] == "Ready":
                self.world.move(name, "Running")
            case "Running" if states["check"] == "Ready":
                self.world.move(name, self.rng.choice(("Succeed", "TimeoutBackoff")))
            case "Reserved" | "Dequeued" | "Running" if states["check"] in {"Retry", "Rejected"}:
                self.world.move(name, "TimeoutBackoff")
            case "TimeoutBackoff":
                self.world.clock.advance(2.0)
                self.world.reserve(name, "check", "slow")
            case _:
                pass  # it waits for a check, or has ended

    def _edit(self, name: str) -> None:
        sets = [pod_set("worker", self.rng.randint(0, 4), GPU), pod_set("launcher", 1)]
        patch = {"spec": {"podSet": sets}}
        self.world.direct.patch("queueunits", name, patch, namespace="default")

    def _edit_config(self) -> None:
        self.world.edit_config(parameters={"n": str(self.rng.randint(0, 2))})

    def _answer(self) -> None:
        """Act as the autoscaler on a request."""
        if requests := self.world.autoscaler.requests():
            said = self.rng.sample(ANSWERS, self.rng.randint(1, 3))
            self.world.autoscaler.say(self.rng.choice(requests), *said)

    def _disturb(self) -> None:
        faults, plural = self.world.server.faults, self.rng.choice(("podtemplates", None))
        match = Match(plural=plural, verb=self.rng.choice(("create", "patch", "delete")))
        refuse = partial(faults.fail, 409)
        self.rng.choice((faults.lose_answer, faults.lose_request, refuse))(times=2, match=match)

    # --- what must be true ---------------------------------------------------------------------

    def check(self) -> None:
        """Check everything, once all is at rest."""
        self.world.server.faults.clear()
        self.world.settle(70.0)
        units = {each["metadata"]["uid"]: each for each in self.world.direct.list("queueunits")}
        requests = self.world.autoscaler.requests()
        for request in requests:
            unit = units[request["metadata"]["ownerReferences"][0]["uid"]]
            assert unit["status"]["phase"] in BOOKED, "a unit without quota keeps objects"
        owners = [each["metadata"]["ownerReferences"][0]["uid"] for each in requests]
        assert len(set(owners)) == len(owners), "one request for a unit"
        for unit in units.values():
            self._check_unit(unit, [r for r in requests if owns(unit, r)])
        named = {s["podTemplateRef"]["name"] for r in requests for s in r["spec"]["podSets"]}
        templates = {each["metadata"]["name"] for each in self.world.direct.list("podtemplates")}
        assert templates == named

    def _check_unit(self, unit: Json, requests: list[Json]) -> None:
        if unit["status"]["phase"] != "Reserved":
            return
        state = next(s for s in unit["status"]["admissionChecks"] if s["name"] == "check")
        wanted = {s["name"]: s["count"] for s in unit["spec"]["podSet"] if s["name"] == "worker"}
        if state["state"] in {"Retry", "Rejected"}:
            return
        if not wanted["worker"]:
            assert (state["state"], requests) == ("Ready", [])
            return
        (request,) = requests
        assert [each["count"] for each in request["spec"]["podSets"]] == [wanted["worker"]]
        true = {
            each["type"]
            for each in request.get("status", {}).get("conditions", [])
            if each["status"] == "True"
        }
        assert not true & {"Failed", "BookingExpired", "CapacityRevoked"}, "it would be evicted"
        assert state["state"] == ("Ready" if "Provisioned" in true else "Pending")
        if state["state"] == "Ready":
            (update,) = state["podSetUpdates"]
            assert update["annotations"][CONSUME] == request["metadata"]["name"]


def owns(unit: Json, request: Json) -> bool:
    uid = request["metadata"]["ownerReferences"][0]["uid"]
    return bool(uid == unit["metadata"]["uid"])


@pytest.mark.parametrize("seed", range(12))
def test_the_invariants_hold_whatever_happens(seed: int) -> None:
    lives = Lives(seed)
    for number in range(STEPS):
        lives.step()
        if number % 10 == 9:
            lives.check()
