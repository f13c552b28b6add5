"""Random rounds from a seed, beside the real koord-scheduler, and what came of them.

A round makes jobs, pods at the queue's gate and pods that no queue knows, edits quotas and labels,
resizes and fails pods, and restarts programs. Then it drains: the pods that no queue knows go, the
quotas are as they were, and every unit has to end. The seed decides what is done, not how fast the
cluster follows.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.cluster.observer import PATHS, Observer
from tests.cluster.program_process import CONTROLLERS, SCHEDULER
from tests.cluster.queue_world import QUOTA_LABEL
from tests.controlplane.api_client import ApiError
from tests.koordinator.koordinator_world import NODES, KoordinatorWorld, is_bound
from tests.koordinator.quota_shapes import (
    CPU_MILLI,
    Amounts,
    ClusterShape,
    QuotaShape,
    random_cluster,
    random_request,
    texts_of,
)
from tests.koordinator.round_judge import (
    Refusal,
    RoundHistory,
    Verdict,
    is_held,
    judge,
    refusal_message,
    requests_of,
)
from tests.object_states import is_admitted, is_living, phase_of

Json = dict[str, Any]

ACTIONS: Final = (10, 18)
"""Fewest and most of a round."""
LONGEST_PAUSE_SECONDS: Final = 0.6
RUN_SECONDS: Final = (1.0, 6.0)
HELD_SECONDS: Final = 25.0
"""Without any progress, after which pods at the gate may be what the others wait for; they go."""
STUCK_SECONDS: Final = 75.0
"""Without any progress, after which what is left is stuck: more than any backoff or minute."""
LOOK_SECONDS: Final = 0.25
ENDED: Final = frozenset(("Succeed", "Failed"))


@dataclass
class SeedReport:
    """What came of one seed."""

    seed: int
    rounds: int = 0
    units: int = 0
    released: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    held_deleted: int = 0
    """Pods at the gate that were deleted, since nothing moved beside them."""
    done: Counter[str] = field(default_factory=Counter)
    """Number of actions of each kind."""

    def count(self, verdict: Verdict) -> int:
        """Return the number of refusals of one verdict."""
        return sum(each.verdict is verdict for each in self.refusals)

    @property
    def is_good(self) -> bool:
        """Whether every refusal is explained, and nothing is stuck."""
        return not self.stuck and not self.count(Verdict.UNEXPLAINED)

    def lines(self) -> Iterator[str]:
        """Yield the report, one line and the faults."""
        refused = ", ".join(f"{self.count(each)} {each}" for each in Verdict)
        yield (
            f"seed {self.seed}: {self.rounds} rounds, {self.units} units, {self.released}"
            f" released, {len(self.refusals)} pods refused ({refused}), {len(self.stuck)} stuck,"
            f" {self.held_deleted} held pods deleted"
        )
        for each in self.refusals:
            if each.verdict is Verdict.UNEXPLAINED:
                yield f"  unexplained: {each.pod} in {each.quota}: {each.message[:240]}"
                yield from (f"    {line}" for line in each.cluster)
        for text in self.stuck:
            yield f"  stuck: {text}"


def play_seed(world: KoordinatorWorld, seed: int, rounds: int) -> SeedReport:
    """Play the rounds of a seed in a new cluster, judge them, and return what came of it."""
    rng = random.Random(seed)
    shape = random_cluster(rng)
    bodies = [each.body() for each in shape.quotas]
    world.reset(texts_of(shape.node), bodies, has_trees=shape.has_trees)
    report = SeedReport(seed)
    player = RoundPlayer(world, rng, shape, report)
    with Observer(world.api, {**PATHS, "nodes": NODES}) as observer:
        for _ in range(rounds):
            player.play()
            report.rounds += 1
            world.check_alive()
            if report.stuck:
                break
    history = RoundHistory(observer.seen)
    report.refusals = judge(history)
    admitted = {each.body["metadata"]["uid"] for each in history.admissions()}
    report.released = len(admitted)
    return report


class RoundPlayer:
    """Plays rounds in one cluster."""

    def __init__(
        self,
        world: KoordinatorWorld,
        rng: random.Random,
        shape: ClusterShape,
        report: SeedReport,
    ) -> None:
        self._world = world
        self._rng = rng
        self._shape = shape
        self._report = report
        self._number = 0
        self._table: list[tuple[int, Callable[[], None]]] = [
            (50, self._job),
            (18, self._held_pod),
            (6, self._foreign_pod),
            (6, self._pod_of_no_quota),
            (6, self._edit_quota),
            (3, self._move_label),
            (3, self._resize_pod),
            (4, self._fail_pod),
            (3, self._delete_something),
            (2, self._restart),
        ]

    def play(self) -> None:
        """Play one round, and drain it."""
        weights = [weight for weight, _ in self._table]
        for _ in range(self._rng.randint(*ACTIONS)):
            ((_, act),) = self._rng.choices(self._table, weights)
            try:
                act()
            except ApiError as error:
                # What it was about has ended meanwhile.
                self._report.done[f"{error.status}"] += 1
            self._report.done[act.__name__.strip("_")] += 1
            time.sleep(self._rng.random() * LONGEST_PAUSE_SECONDS)
        self._drain()

    # --- actions ------------------------------------------------------------------------------

    def _new_name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def _leaf(self) -> QuotaShape:
        return self._rng.choice(self._shape.leaves)

    def _job(self) -> None:
        leaf = self._leaf()
        most, labels = self._shape.most(leaf), {}
        if leaf.min and self._rng.random() < 0.15:
            labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
            most = {key: min(each, leaf.min.get(key, each)) for key, each in most.items()}
        pods = self._rng.randint(1, 3)
        request = random_request(self._rng, {key: each // pods for key, each in most.items()})
        if not request or not self._shape.runs_alone(leaf, request, pods):
            return
        self._world.create_job(
            self._new_name("job"),
            leaf.name,
            texts_of(request),
            labels=labels,
            run_seconds=self._run_seconds(),
            parallelism=pods,
            # Later pods come when users have edited quotas since the release.
            completions=pods + self._rng.choice((0, 0, 1, 3)),
        )
        self._report.units += 1

    def _held_pod(self) -> None:
        leaf = self._leaf()
        request = random_request(self._rng, self._shape.most(leaf))
        if request and self._shape.runs_alone(leaf, request, 1):
            name, seconds = self._new_name("held"), self._run_seconds()
            self._world.create_pod(
                name, leaf.name, texts_of(request), gated=True, run_seconds=seconds
            )
            self._report.units += 1

    def _foreign_pod(self) -> None:
        """Create a pod that no queue knows; it may ask for more than can ever run there."""
        leaf = self._leaf()
        request = random_request(self._rng, leaf.max)
        self._world.create_pod(self._new_name("foreign"), leaf.name, texts_of(request))

    def _pod_of_no_quota(self) -> None:
        node, name = self._shape.node, self._new_name("none")
        match self._rng.randint(0, 3):
            case 0:
                self._world.create_pod(name, "", texts_of({"cpu": 2 * node["cpu"]}))
            case 1:
                request = texts_of({"cpu": node["cpu"] // 2})
                self._world.create_pod(name, "", request, nodeSelector={"no": "such-node"})
            case _:
                self._world.create_pod(name, "", texts_of(random_request(self._rng, node)))

    def _edit_quota(self) -> None:
        quota = self._rng.choice(self._shape.quotas)
        factor = self._rng.choice((0.5, 0.75, 1.5))
        if quota.total is not None:
            self._resize_tree(quota, quota.total, factor)
            return
        part = self._rng.choice(("max", "min") if quota.min and not quota.parent else ("max",))
        amounts = {
            key: max(int(each * factor) // 1000 * 1000 if key == "cpu" else int(each * factor), 0)
            for key, each in getattr(quota, part).items()
        }
        if part == "max":
            amounts = {key: max(each, quota.min.get(key, 0)) for key, each in amounts.items()}
        else:
            amounts = {key: min(each, quota.max[key]) for key, each in amounts.items()}
        self._world.patch_quota(quota.name, {"spec": {part: texts_of(amounts)}})

    def _resize_tree(self, root: QuotaShape, total: Amounts, factor: float) -> None:
        """Give a tree another total, as the profile controller does when nodes come or go."""
        changed = {key: int(each * factor) // 1000 * 1000 for key, each in total.items()}
        body = replace(root, total=changed, min=changed).body()
        self._world.patch_quota(root.name, _edit_of(body))

    def _move_label(self) -> None:
        if pod := self._some_running_pod():
            labels = {QUOTA_LABEL: self._leaf().name}
            self._world.cluster.patch_pod(pod["metadata"]["name"], {"metadata": {"labels": labels}})

    def _resize_pod(self) -> None:
        pod = self._some_running_pod()
        if pod and "cpu" in requests_of(pod):
            self._world.resize_pod(pod, f"{self._rng.choice(CPU_MILLI)}m")

    def _fail_pod(self) -> None:
        if pod := self._some_running_pod():
            self._world.cluster.end_pod(pod["metadata"]["name"], "Failed")

    def _some_running_pod(self) -> Json | None:
        pods = [
            each
            for each in self._world.pods()
            if is_living(each)
            and is_bound(each)
            and "job-name" in each["metadata"].get("labels", {})
        ]
        return self._rng.choice(pods) if pods else None

    def _delete_something(self) -> None:
        units = [each for each in self._world.cluster.units() if phase_of(each) not in ENDED]
        if not units:
            return
        consumer = self._rng.choice(units)["spec"]["consumerRef"]
        if consumer["kind"] == "Job":
            self._world.cluster.delete_job(consumer["name"])
        else:
            self._world.delete_pod(consumer["name"])

    def _restart(self) -> None:
        match self._rng.randint(0, 2):
            case 0:
                self._world.koord.restart()
            case number:
                self._world.restart((SCHEDULER, CONTROLLERS)[number - 1])

    def _run_seconds(self) -> float:
        return round(self._rng.uniform(*RUN_SECONDS), 1)

    # --- the end of a round -------------------------------------------------------------------

    def _drain(self) -> None:
        """Take away what no queue knows; return when all units have ended, or some are stuck."""
        for each in self._shape.quotas:
            self._world.patch_quota(each.name, _edit_of(each.body()))
        for pod in self._world.pods():
            if pod["metadata"]["name"].startswith(("foreign-", "none-")):
                self._world.delete_pod(pod["metadata"]["name"])
        last, since, may_be_held = self._progress(), time.monotonic(), True
        while last[0]:
            time.sleep(LOOK_SECONDS)
            now, still = self._progress(), time.monotonic() - since
            if now != last:
                last, since = now, time.monotonic()
            elif may_be_held and still > HELD_SECONDS:
                may_be_held = False
                self._delete_held_pods()
            elif still > STUCK_SECONDS:
                self._report.stuck = [self._describe(each) for each in self._left()]
                return

    def _left(self) -> list[Json]:
        return [each for each in self._world.cluster.units() if phase_of(each) not in ENDED]

    def _progress(self) -> tuple[int, tuple[str, ...]]:
        """Return the number of units left, and everything that changes with progress."""
        units = self._left()
        jobs = self._world.api.request("GET", PATHS["jobs"])["items"]
        waiting = [each for each in jobs if not each["status"].get("completionTime")]
        states = [f"{each['metadata']['name']} {phase_of(each)}" for each in units]
        pods = [
            f"{each['metadata']['name']} {each['status'].get('phase')}"
            for each in self._world.pods()
        ]
        return len(units) + len(waiting), tuple(sorted((*states, *pods)))

    def _delete_held_pods(self) -> None:
        for pod in self._world.pods():
            if is_held(pod):
                self._world.delete_pod(pod["metadata"]["name"])
                self._report.held_deleted += 1

    def _describe(self, unit: Json) -> str:
        name = unit["spec"].get("consumerRef", {}).get("name", unit["metadata"]["name"])
        pods = [each for each in self._world.pods_of(name) if is_living(each)]
        said = [message for each in pods if (message := refusal_message(each))]
        state = "admitted" if is_admitted(unit) else "waiting"
        condition = unit.get("status", {}).get("conditions") or [{}]
        why = said[0] if said else str(condition[-1].get("message", ""))
        return f"{name} ({phase_of(unit)}, {state}, {len(pods)} pods): {why[:240]}"


def _edit_of(quota: Json) -> Json:
    """Return a patch that gives a quota the content of this one."""
    annotations = quota["metadata"]["annotations"]
    return {"metadata": {"annotations": annotations}, "spec": quota["spec"]}
