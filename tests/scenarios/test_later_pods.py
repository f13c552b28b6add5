"""Pods that come after their set or group was admitted; with both programs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from shared_api.objects.pod import PodSpec
from shared_api.pod_requests import pod_requests
from tests.queue_controllers.pod_kit import (
    GATE,
    KINDS,
    evict,
    gates,
    make_pod,
    make_set,
    of_set,
    run,
)

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

MAX_CPU = 4
QUOTA = {"quota.scheduling.koordinator.sh/name": "gold"}
GROUP = {"kueue.x-k8s.io/pod-group-name": "ring", **QUOTA}
OF_TWO = {"kueue.x-k8s.io/pod-group-total-count": "2"}
ROUNDS = 25

Json = dict[str, Any]


@pytest.fixture
def town(bare_town: Town) -> Town:
    """Controllers of pods, and a quota of four cpu."""
    bare_town.jobs.start(KINDS)
    bare_town.scheduling.add_quota("gold", cpu=MAX_CPU)
    bare_town.pass_time(2.0)
    return bare_town


def opened(town: Town) -> int:
    """Return how many milli-cores the pods without the gate ask for."""
    pods = town.jobs.direct.list("pods")
    living = [each for each in pods if each["status"].get("phase") not in {"Failed", "Succeeded"}]
    free = [each for each in living if not has_gate(each)]
    specs = (msgspec.convert(each["spec"], PodSpec) for each in free)
    return sum(pod_requests(each).get("cpu", 0) for each in specs)


def has_gate(pod: Json) -> bool:
    return GATE in [each["name"] for each in pod["spec"].get("schedulingGates", [])]


def test_a_set_is_rolled_and_runs_when_it_is_admitted_anew(town: Town) -> None:
    world = town.jobs
    made = make_set(world, 2)
    for number in range(2):
        of_set(world, made, number, labels=QUOTA)
        town.pass_time(2.0)
        run(world, f"db-{number}")
    world.direct.delete("pods", "db-1", "team")
    of_set(world, made, 1, cpu="2", labels=QUOTA)
    town.pass_time(10.0)
    assert GATE in gates(world, "db-1")
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "4"}
    evict(world, "db-sts-qu")
    town.pass_time(2.0)
    of_set(world, made, 0, cpu="2", labels=QUOTA)
    town.pass_time(10.0)
    assert opened(town) == 4000


@pytest.mark.parametrize("seed", range(4))
def test_pods_without_the_gate_never_ask_for_more_than_the_quota(town: Town, seed: int) -> None:
    """Sets are scaled, rolled, and requeued, and groups get all kinds of replacements."""
    life = _Life(town, random.Random(seed))
    for _ in range(ROUNDS):
        life.act()
        for _ in range(4):
            town.pass_time(0.5)
            assert opened(town) <= MAX_CPU * 1000
        life.run_what_may()
    life.undo()
    town.pass_time(20.0)
    assert opened(town) >= 1000, "nothing is stuck for good"


class _Life:
    """What a user does to one set and one group, whose controllers are played."""

    def __init__(self, town: Town, rng: random.Random) -> None:
        self._town, self._world, self._rng = town, town.jobs, rng
        self._set = make_set(self._world, 2)
        self._replicas, self._cpu, self._count = 2, "1", 0

    def act(self) -> None:
        action = self._rng.choice((self._scale, self._roll, self._fail, self._add, self._evict))
        action()
        self._play_set()

    def undo(self) -> None:
        """Bring the set back to one small pod, and let the group go."""
        for each in self._world.direct.list("pods"):
            self._world.direct.delete("pods", each["metadata"]["name"], "team")
        self._replicas, self._cpu = 1, "1"
        self._town.pass_time(8.0)
        self._scale_to(1)
        self._play_set()

    def run_what_may(self) -> None:
        for each in self._world.direct.list("pods"):
            if not has_gate(each) and each["status"].get("phase", "Pending") == "Pending":
                run(self._world, each["metadata"]["name"])

    def _play_set(self) -> None:
        there = {each["metadata"]["name"] for each in self._world.direct.list("pods")}
        for number in range(self._replicas):
            if f"db-{number}" not in there:
                of_set(self._world, self._set, number, cpu=self._cpu, labels=QUOTA)

    def _scale(self) -> None:
        self._scale_to(self._rng.randint(1, 5))

    def _scale_to(self, replicas: int) -> None:
        for number in range(replicas, self._replicas):
            if self._has(f"db-{number}"):
                self._world.direct.delete("pods", f"db-{number}", "team")
        self._replicas = replicas
        spec = {"spec": {"replicas": replicas}}
        self._world.direct.patch("statefulsets", "db", spec, namespace="team")

    def _roll(self) -> None:
        self._cpu = self._rng.choice(("500m", "1", "2", "3"))
        if self._has(f"db-{self._replicas - 1}"):
            self._world.direct.delete("pods", f"db-{self._replicas - 1}", "team")

    def _fail(self) -> None:
        mine = [each["metadata"]["name"] for each in self._world.direct.list("pods")]
        if members := [name for name in mine if name.startswith("ring")]:
            run(self._world, self._rng.choice(members), phase="Failed")

    def _add(self) -> None:
        self._count += 1
        cpu = self._rng.choice(("1", "1", "2", "9"))
        name = f"ring-{self._count}"
        make_pod(self._world, name, cpu=cpu, labels=GROUP, annotations=OF_TWO)

    def _evict(self) -> None:
        for name in ("db-sts-qu", "ring-pg-qu"):
            if name in self._world.units() and self._world.phase(name) == "Running":
                evict(self._world, name)

    def _has(self, name: str) -> bool:
        return name in [each["metadata"]["name"] for each in self._world.direct.list("pods")]
