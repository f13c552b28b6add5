"""Fixed scenarios beside the real koord-scheduler: what it makes of what the queue releases.

Each takes a world, plays its story in it, and returns what became of every job. None of them may
be refused for good: what koord-scheduler would refuse has to wait in the queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.cluster.queue_world import MERGE, PODS, QUOTA_LABEL, reason_of
from tests.koordinator.koordinator_world import (
    KoordinatorWorld,
    is_bound,
    pod_body,
    quota_body,
)
from tests.koordinator.round_judge import refusal_message
from tests.object_states import condition_of, is_admitted, is_living
from tests.waiting import until, within

Json = dict[str, Any]

SETTLE_SECONDS: Final = 20.0
"""After which a refusal is for good: an attempt that lost a race is repeated within ten."""
SEEN_SECONDS: Final = 1.0
"""For koord-scheduler and the queue to see a write of a test's own."""
GPU: Final = "nvidia.com/gpu"
WEIGHT: Final = "quota.scheduling.koordinator.sh/shared-weight"
PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"
RUNS: Final = "runs"
WAITS: Final = "waits"
REFUSED: Final = "refused"
STUCK: Final = "stuck"


class Fate(NamedTuple):
    """What became of a job: RUNS, WAITS, REFUSED or STUCK, and why."""

    name: str
    state: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.state}{f': {self.why}' if self.why else ''}"


Scenario = Callable[[KoordinatorWorld], list[Fate]]


def fate_of(world: KoordinatorWorld, name: str) -> Fate:
    """Return what has become of a Job, or of a pod that is queued by itself."""
    pods = [each for each in world.pods_of(name) if is_living(each)]
    gated = [each for each in pods if each["spec"].get("schedulingGates")]
    refused = [message for each in pods if (message := refusal_message(each))]
    if refused:
        return Fate(name, REFUSED, refused[0].partition(" preemption:")[0])
    if pods and all(map(is_bound, pods)):
        return Fate(name, RUNS)
    unit = _unit_of(world, name)
    if pods == gated and not is_admitted(unit):
        return Fate(name, WAITS, reason_of(unit))
    said = [str(condition_of(each, "PodScheduled").get("message", "")) for each in pods]
    return Fate(name, STUCK, "; ".join(each or "not tried" for each in said) or "it has no pods")


def _unit_of(world: KoordinatorWorld, name: str) -> Json:
    for unit in world.cluster.units():
        if unit["spec"].get("consumerRef", {}).get("name") == name:
            return unit
    return {}


def settled(world: KoordinatorWorld, *names: str) -> list[Fate]:
    """Return the fates of these jobs when all run, or when time is up."""
    within(SETTLE_SECONDS, lambda: all(fate_of(world, name).state == RUNS for name in names))
    return [fate_of(world, name) for name in names]


def await_run(world: KoordinatorWorld, *names: str) -> None:
    """Wait until these jobs run, on which the rest of a story depends."""
    until(lambda: all(fate_of(world, name).state == RUNS for name in names))


# --- the stories ----------------------------------------------------------------------------------


def held_pod_of_another_quota(world: KoordinatorWorld) -> list[Fate]:
    """A pod of 9 CPUs behind the queue's gate in b counts as b's request, while 2 run in a."""
    world.reset({"cpu": "10"}, [quota_body(name, {"cpu": 10}) for name in "ab"])
    world.create_job("two", "a", {"cpu": 2})
    await_run(world, "two")
    world.create_pod("nine", "b", {"cpu": 9}, gated=True)
    until(lambda: reason_of(_unit_of(world, "nine")))
    world.create_job("six", "a", {"cpu": 6})
    return settled(world, "six")


def three_devices_by_weight(world: KoordinatorWorld) -> list[Fate]:
    """Three GPUs, weights 7, 7 and 1, one job of one GPU each: rounding gives the third none."""
    world.reset({"cpu": "10", GPU: "3"}, _weighted_quotas())
    for name in "abc":
        world.create_job(f"job-{name}", name, {GPU: 1})
        time.sleep(SEEN_SECONDS)
    return settled(world, "job-a", "job-b", "job-c")


def three_devices_the_lightest_first(world: KoordinatorWorld) -> list[Fate]:
    """The third quota takes its GPU first; once two more ask, it is over its runtime.

    Then koord-scheduler refuses all of its pods, also those that ask for no GPU.
    """
    world.reset({"cpu": "10", GPU: "3"}, _weighted_quotas())
    for name in "ca":
        world.create_job(f"job-{name}", name, {GPU: 1})
        await_run(world, f"job-{name}")
    world.create_job("job-b", "b", {GPU: 1})
    settled(world, "job-b")
    world.create_job("cpu-alone", "c", {"cpu": 1})
    return settled(world, "job-a", "job-b", "job-c", "cpu-alone")


def _weighted_quotas() -> list[Json]:
    return [
        quota_body(
            name,
            {"cpu": 10, GPU: 3},
            annotations={WEIGHT: f'{{"cpu":{weight},"{GPU}":{weight}}}'},
        )
        for name, weight in (("a", 7), ("b", 7), ("c", 1))
    ]


def min_lowered_below_non_preemptible(world: KoordinatorWorld) -> list[Fate]:
    """Non-preemptible pods use 3 CPUs, min is lowered to 2, and the next asks for memory alone."""
    quota = quota_body("a", {"cpu": 10, "memory": "10Gi"}, {"cpu": 4, "memory": "4Gi"})
    world.reset({"cpu": "10"}, [quota])
    labels = {PREEMPTIBLE: "false"}
    world.create_job("three", "a", {"cpu": 3}, labels=labels)
    await_run(world, "three")
    world.patch_quota("a", {"spec": {"min": {"cpu": "2"}}})
    time.sleep(SEEN_SECONDS)
    world.create_job("memory", "a", {"memory": "1Gi"}, labels=labels)
    return settled(world, "memory")


def bare_pod_that_no_node_has_room_for(world: KoordinatorWorld) -> list[Fate]:
    """A pod of no quota asks for more than the node has: koord-scheduler goes on without it."""
    return _beside_pending(world, {"cpu": 20})


def bare_pod_that_no_node_matches(world: KoordinatorWorld) -> list[Fate]:
    """A pod of no quota whose node selector matches no node, and that asks for all there is."""
    return _beside_pending(world, {"cpu": 10}, nodeSelector={"no": "such-node"})


def _beside_pending(
    world: KoordinatorWorld, requests: Mapping[str, int], **spec: Json
) -> list[Fate]:
    """Return the fates of a bare pod with a quota, and of a job, beside a pending pod of none."""
    world.reset({"cpu": "10"}, [quota_body("a", {"cpu": 10})])
    world.create_pod("pending", "", requests, **spec)
    time.sleep(SEEN_SECONDS)
    world.create_pod("bare", "a", {"cpu": 1})
    world.create_job("job", "a", {"cpu": 1})
    within(SETTLE_SECONDS, lambda: fate_of(world, "job").state == RUNS)
    fates = [fate_of(world, name) for name in ("bare", "job")]
    return [each._replace(state=STUCK) if each.state == WAITS else each for each in fates]


def living_pod_whose_label_is_changed(world: KoordinatorWorld) -> list[Fate]:
    """A running pod of 4 CPUs gets b's label: koord-scheduler charges b, of max 10."""
    world.reset({"cpu": "30"}, [quota_body(name, {"cpu": 10}) for name in "ab"])
    world.create_job("moved", "a", {"cpu": 4})
    await_run(world, "moved")
    (pod,) = world.pods_of("moved")
    labels = {"metadata": {"labels": {QUOTA_LABEL: "b"}}}
    world.cluster.patch_pod(pod["metadata"]["name"], labels)
    time.sleep(SEEN_SECONDS)
    world.create_job("eight", "b", {"cpu": 8})
    return settled(world, "eight", "moved")


def resized_pod_beside_a_failed_one(world: KoordinatorWorld) -> list[Fate]:
    """Of two pods of 1 CPU in a max of 4, one is resized to 2, the other fails: 3 will live."""
    world.reset({"cpu": "10"}, [quota_body("a", {"cpu": 4})])
    world.create_job("pair", "a", {"cpu": 1}, parallelism=2, completions=2)
    until(lambda: len([each for each in world.pods_of("pair") if is_bound(each)]) == 2)
    first, second = world.pods_of("pair")
    world.resize_pod(first, "2")
    time.sleep(SEEN_SECONDS)
    world.create_job("waiting", "a", {"cpu": 2})
    until(lambda: fate_of(world, "waiting").why == "OverQuotaMax")
    world.cluster.end_pod(second["metadata"]["name"], "Failed")
    until(lambda: len([each for each in world.pods_of("pair") if is_living(each)]) == 2)
    return settled(world, "pair", "waiting")


def parked_pods(world: KoordinatorWorld) -> list[Fate]:
    """Held pods whose label names a quota that governs nothing press on none, until released.

    The labels are written by hand here, and the gate is one that the programs leave alone. The
    release lifts the gate and restores the label at once.
    """
    quotas = [*(quota_body(name, {"cpu": 10}) for name in "ab"), quota_body("parked", {})]
    world.reset({"cpu": "10"}, quotas)
    body = pod_body("nine", "parked", {"cpu": 9}, schedulingGates=[{"name": "test/held"}])
    world.api.request("POST", PODS, body)
    world.create_job("two", "a", {"cpu": 2})
    world.create_job("six", "a", {"cpu": 6})
    fates = settled(world, "two", "six")
    for job in ("two", "six"):
        world.cluster.delete_job(job)
    until(lambda: not world.pods_of("two") and not world.pods_of("six"))
    release = {"metadata": {"labels": {QUOTA_LABEL: "b"}}, "spec": {"schedulingGates": None}}
    world.api.request("PATCH", f"{PODS}/nine", release, content_type=MERGE)
    fates += settled(world, "nine")
    used = world.koord.quota("b").get("used", {}).get("cpu")
    return [*fates, Fate("charge of nine", RUNS if used == "9" else STUCK, f"b uses {used}")]


def held_pods_of_two_quotas(world: KoordinatorWorld) -> list[Fate]:
    """6 CPUs wait at the gate in a and 9 in b, on 10; only where they are parked do they start.

    Elsewhere each has 5 of the 10, as pods without a gate would: waiting is right, and nothing else
    is. Parked, one runs, and the other follows when it has ended.
    """
    world.reset({"cpu": "10"}, [quota_body(name, {"cpu": 10}) for name in "ab"])
    for name, quota, cpu in (("six", "a", 6), ("nine", "b", 9)):
        world.create_pod(name, quota, {"cpu": cpu}, gated=True)
    if not world.parks:
        return settled(world, "six", "nine")
    pods = ("six", "nine")
    until(lambda: any(fate_of(world, each).state == RUNS for each in pods))
    first = next(each for each in pods if fate_of(world, each).state == RUNS)
    fates = [fate_of(world, each) for each in pods]
    world.delete_pod(first)
    (second,) = set(pods) - {first}
    await_run(world, second)
    return fates


SCENARIOS: Final[Sequence[Scenario]] = (
    held_pod_of_another_quota,
    three_devices_by_weight,
    three_devices_the_lightest_first,
    min_lowered_below_non_preemptible,
    bare_pod_that_no_node_has_room_for,
    bare_pod_that_no_node_matches,
    living_pod_whose_label_is_changed,
    resized_pod_beside_a_failed_one,
    parked_pods,
    held_pods_of_two_quotas,
)


def is_good(fates: Sequence[Fate]) -> bool:
    """Return whether nothing was refused for good, and nothing that has room is stuck."""
    return all(each.state in {RUNS, WAITS} for each in fates)
