"""What is said to start a job does, once it is applied to the real objects as it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import MERGE, Cluster, Json, QueueWorld, debug, refusal_of, unit_view
from tests.waiting import until

PATHS: Final = {
    "ElasticQuota": "/apis/{api}/namespaces/{namespace}/elasticquotas/{name}",
    "Queue": "/apis/{api}/namespaces/{namespace}/queues/{name}",
    "Job": "/apis/{api}/namespaces/{namespace}/jobs/{name}",
}
LONG: Final = "600"
BLOCK: Final = {"koord-queue/queue-policy": "Block"}


class Scene(NamedTuple):
    """A quota of four cores, and a job in it that waits."""

    world: QueueWorld
    scheduler: ProgramProcess
    quota: str

    def run(self, cpu: int) -> None:
        """Let a job run."""
        name = f"{self.quota}-old"
        self.world.create_job(name, self.quota, cpu=str(cpu), run_seconds=LONG)
        until(lambda: self.world.running_pods(name))

    def put_head(self) -> None:
        """Let a job be refused that is ahead of those of priority 0."""
        name = f"{self.quota}-head"
        priority = {"scheduling.x-k8s.io/priority": "5"}
        self.world.create_job(name, self.quota, cpu="4", annotations=priority)
        until(lambda: refusal_of(self.scheduler, name))

    def wait(self, cpu: int, **more: Any) -> None:
        """Create the job that waits."""
        name = f"{self.quota}-new"
        more = {"run_seconds": LONG, **more}
        self.world.create_job(name, self.quota, cpu=str(cpu), **more)


def too_little(scene: Scene) -> None:
    scene.run(3)
    scene.wait(2)


def below_a_full_parent(scene: Scene) -> None:
    labels = {"quota.scheduling.koordinator.sh/is-parent": "true"}
    scene.world.create_quota(f"{scene.quota}-top", cpu_max=4, labels=labels)
    too_little(scene)


def many_pods(scene: Scene) -> None:
    scene.run(2)
    scene.wait(1, parallelism=4, completions=4)


def behind(scene: Scene) -> None:
    scene.run(3)
    scene.put_head()
    scene.wait(1)


def beside_a_free_quota(scene: Scene) -> None:
    free = f"{scene.quota}-free"
    scene.world.create_quota(free, cpu_max=4)
    until(lambda: scene.world.has_queue(free))
    too_little(scene)


def beside_a_free_queue(scene: Scene) -> None:
    takes = {"koord-queue/available-quota-in-queue": scene.quota}
    scene.world.create_queue(f"{scene.quota}-side", "Priority", takes)
    behind(scene)


def inactive(scene: Scene) -> None:
    scene.wait(1, annotations={"scheduling.x-k8s.io/active": "false"})


def stopped(scene: Scene) -> None:
    until(lambda: scene.world.has_queue(scene.quota))
    scene.world.stop_queue(scene.quota, "Hold")
    scene.wait(1)


@pytest.mark.parametrize(
    ("quota", "waits", "kind"),
    [
        pytest.param("more", too_little, "quotaMax", id="a higher max"),
        pytest.param("both", below_a_full_parent, "several", id="the maxes of it and its parent"),
        pytest.param("ends", too_little, "unitsEnd", id="the end of a job"),
        pytest.param("fewer", many_pods, "count", id="fewer pods"),
        pytest.param("first", behind, "priority", id="a higher priority"),
        pytest.param("policy", behind, "queueOption", id="another policy"),
        pytest.param("aside", beside_a_free_queue, "queue", id="another queue"),
        pytest.param("other", beside_a_free_quota, "quota", id="another quota"),
        pytest.param("active", inactive, "active", id="being active"),
        pytest.param("resume", stopped, "stopPolicy", id="a resumed queue"),
    ],
)
def test_a_named_change_starts_the_job(
    cluster: Cluster, world: QueueWorld, quota: str, waits: Callable[[Scene], None], kind: str
) -> None:
    job = f"{quota}-new"
    world.create_quota(quota, cpu_max=4, labels=_LABELS.get(waits))
    waits(Scene(world, cluster.scheduler, quota))
    change = until(lambda: find(cluster.scheduler, job, kind))
    assert world.is_suspended(job)
    for key in change["units"]:
        world.delete_job(key.partition("/")[2])
    for patch in change["patches"]:
        apply(world, patch)
    assert change["patches"] or change["units"]
    until(lambda: world.running_pods(job))


_LABELS: Final[dict[Callable[[Scene], None], dict[str, str]]] = {
    behind: BLOCK,
    beside_a_free_queue: BLOCK,
    below_a_full_parent: {"quota.scheduling.koordinator.sh/parent": "both-top"},
}


def find(scheduler: ProgramProcess, job: str, kind: str) -> Json:
    """Return the sufficient change of a kind; {} while there is none."""
    if not unit_view(scheduler, job):
        return {}
    got = debug(scheduler, f"/debug/queueunits/default/{job}/explain?changes=true")
    found: list[Json] = [each for each in got["changes"] if each["kind"] == kind]
    return found[0] if found and found[0]["sufficient"] else {}


def apply(world: QueueWorld, patch: Json) -> None:
    """Apply a patch of an answer."""
    path = PATHS[patch["kind"]].format(
        api=patch["apiVersion"], namespace=patch["namespace"], name=patch["name"]
    )
    world.api.request("PATCH", path, patch["patch"], content_type=MERGE)
