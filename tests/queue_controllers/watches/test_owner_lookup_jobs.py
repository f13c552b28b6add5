"""Owners that are jobs: whether they created their children, over the fake API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from queue_controllers.watches.owner_lookup import (
    MAX_FIELD_CHARS,
    NO_SUCH_OBJECT,
    REFUSED_SECONDS,
)
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_controllers.controllers_world import QUOTA_LABEL
from tests.queue_controllers.owner_kit import make_owner, template, wrap_job
from tests.sample_jobs import crd

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]

API = {
    "jobsets": "jobset.x-k8s.io/v1alpha2/JobSet",
    "mpijobs": "kubeflow.org/v2beta1/MPIJob",
    "rayjobs": "ray.io/v1/RayJob",
    "rayclusters": "ray.io/v1/RayCluster",
    "rayservices": "ray.io/v1/RayService",
    "trainjobs": "trainer.kubeflow.org/v1alpha1/TrainJob",
}
CLUSTER: Json = {
    "headGroupSpec": {"rayStartParams": {}, "template": template()},
    "workerGroupSpecs": [
        {
            "groupName": "w",
            "replicas": 1,
            "minReplicas": 0,
            "maxReplicas": 3,
            "rayStartParams": {},
            "template": template(),
        }
    ],
}
SCALED = {**CLUSTER, "workerGroupSpecs": [{**CLUSTER["workerGroupSpecs"][0], "replicas": 3}]}


class Kid(msgspec.Struct, frozen=True, kw_only=True):
    """A child, as its operator creates it."""

    api: str = "batch/v1/Job"
    name: str
    spec: Json

    def make(self, world: World, owner: Json, **changes: Any) -> None:
        version, _, kind = self.api.rpartition("/")
        name = changes.pop("name", self.name)
        meta = {"name": name, "namespace": "team", "labels": {QUOTA_LABEL: "gold"}}
        body = {"apiVersion": version, "kind": kind, "spec": {**self.spec, **changes}}
        world.direct.create({**body, "metadata": {**meta, "ownerReferences": [owner]}})


def of_job(name: str, *, pods: int = 1, cpu: str = "1") -> Kid:
    spec = {"parallelism": pods, "completions": pods, "template": template(cpu)}
    return Kid(name=name, spec={"suspend": False, **spec})


def own(world: World, plural: str, spec: Json, status: Json | None = None) -> Json:
    return make_owner(world.direct, API[plural], "top", plural, spec, status=status)


def job_set(world: World, **spec: Any) -> Json:
    """Return a JobSet of two Jobs of two pods."""
    of_one = {"parallelism": 2, "completions": 2, "template": template()}
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": of_one}}]
    return own(world, "jobsets", {"suspend": False, "replicatedJobs": jobs, **spec})


def mpi_job(world: World) -> Json:
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    specs = {role: {**said, "template": template()} for role, said in roles.items()}
    return own(world, "mpijobs", {"mpiReplicaSpecs": specs})


def ray_job(world: World, *, named: str = "top-abcde", scales: bool = False) -> Json:
    cluster = {**CLUSTER, "enableInTreeAutoscaling": scales}
    spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    return own(world, "rayjobs", spec, status={"rayClusterName": named})


def ray_service(world: World) -> Json:
    status = {"pendingServiceStatus": {"rayClusterName": "top-abcde"}}
    return own(world, "rayservices", {"rayClusterConfig": CLUSTER}, status=status)


def train_job(world: World) -> Json:
    return own(world, "trainjobs", {"suspend": False, "runtimeRef": {"name": "r"}})


SUBMITTER = Kid(
    name="top",
    spec={
        "suspend": False,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}},
                    }
                ],
            }
        },
    },
)
RAY_CLUSTER = Kid(api=API["rayclusters"], name="top-abcde", spec=CLUSTER)
JOB_SET = Kid(
    api=API["jobsets"],
    name="top",
    spec={
        "suspend": False,
        "replicatedJobs": [
            {"name": "n", "replicas": 1, "template": {"spec": {"template": template()}}}
        ],
    },
)


@pytest.mark.parametrize(
    ("owner", "kid", "kinds"),
    [
        pytest.param(job_set, of_job("top-w-1", pods=2), "job", id="a Job of a JobSet"),
        pytest.param(job_set, of_job("top-w-1", pods=2), "job,jobset", id="the same, queued"),
        pytest.param(mpi_job, of_job("top-launcher"), "job", id="the launcher of an MPIJob"),
        pytest.param(ray_job, SUBMITTER, "job", id="the submitter of a RayJob"),
        pytest.param(ray_job, RAY_CLUSTER, "raycluster", id="the RayCluster of a RayJob"),
        pytest.param(ray_service, RAY_CLUSTER, "raycluster", id="that of a RayService"),
        pytest.param(train_job, JOB_SET, "jobset", id="the JobSet of a TrainJob"),
        pytest.param(
            lambda world: wrap_job(world.direct, "wrapped", pods=3),
            of_job("wrapped", pods=3),
            "job",
            id="a component of an AppWrapper",
        ),
        pytest.param(
            lambda world: ray_job(world, scales=True),
            msgspec.structs.replace(RAY_CLUSTER, spec=SCALED),
            "raycluster",
            id="a RayCluster scaled up to its RayJob's maximum",
        ),
    ],
)
def test_a_child_that_its_owner_has_created_is_left_to_it(
    world: World, owner: Callable[[World], Json], kid: Kid, kinds: str
) -> None:
    install(world, kid.api)
    above = owner(world)
    world.start(f"--enabled-extensions={kinds}")
    before = world.units()
    kid.make(world, above)
    world.settle(15.0)
    assert world.units() == before
    assert "OwnerIgnored" not in world.events()


@pytest.mark.parametrize(
    ("owner", "kid", "why"),
    [
        pytest.param(
            job_set, of_job("top-w-1", pods=40), "cpu 40 of 2", id="a Job of a JobSet, larger"
        ),
        pytest.param(job_set, of_job("top-w-1", cpu="3"), "cpu 3 of 2", id="one with larger pods"),
        pytest.param(job_set, of_job("top-w-2"), "no Job top-w-2", id="one of an index too high"),
        pytest.param(job_set, of_job("top-v-0"), "no Job top-v-0", id="one of no replicated job"),
        pytest.param(job_set, of_job("main"), "INDEX", id="a Job of any name"),
        pytest.param(mpi_job, of_job("top-worker-0"), "MPIJOB-launcher", id="no launcher"),
        pytest.param(mpi_job, of_job("top-launcher", pods=40), "cpu 40 of 1", id="a large one"),
        pytest.param(
            lambda world: own(world, "rayclusters", CLUSTER),
            of_job("main"),
            "redis-cleanup",
            id="a Job under a RayCluster",
        ),
        pytest.param(ray_job, of_job("top", pods=40), "cpu 40 of", id="a large submitter"),
        pytest.param(
            lambda world: {**job_set(world), "name": "no-such"},
            of_job("top-w-1"),
            "no such object is there with this uid",
            id="no owner at all",
        ),
        pytest.param(
            lambda world: job_set(world, managedBy="kueue.x-k8s.io/multikueue"),
            of_job("top-w-1"),
            "spec.managedBy is kueue.x-k8s.io/multikueue",
            id="an owner of another controller",
        ),
    ],
)
def test_any_other_is_queued_as_if_it_had_no_owner(
    world: World, owner: Callable[[World], Json], kid: Kid, why: str
) -> None:
    world.start()
    kid.make(world, owner(world))
    world.settle()
    assert world.units() == [kid.name]
    assert world.is_suspended(kid.name)
    note = note_about_owner(world)
    assert why in note
    assert note.endswith("It is queued as if it had no owner")


def test_a_job_creates_no_jobs(world: World) -> None:
    world.start()
    small = world.job("small")
    world.settle()
    world.admit("small")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "small", "controller": True}
    of_job("large", pods=40).make(world, {**owner, "uid": small["metadata"]["uid"]})
    world.settle()
    assert world.units() == ["large", "small"]
    assert world.is_suspended("large")


def test_an_owner_has_ten_seconds_to_name_its_child(world: World) -> None:
    install(world, RAY_CLUSTER.api)
    above = ray_job(world, named="top-other")
    world.start("--enabled-extensions=raycluster")
    RAY_CLUSTER.make(world, above)
    world.settle(9.0)
    assert world.units() == []
    world.settle(3.0)
    assert world.units() == ["top-abcde-raycluster-qu"]
    assert "OwnerIgnored" in world.events()


def test_a_child_that_runs_though_its_owner_is_held_is_held_with_it(world: World) -> None:
    world.start()
    above = job_set(world, suspend=True)
    of_job("top-w-1", pods=2).make(world, above)
    world.settle(1.0)
    assert not world.is_suspended("top-w-1"), "its operator has a moment"
    world.settle(2.0)
    assert world.is_suspended("top-w-1")
    assert world.units() == []
    assert world.events() == {"OwnerIsHeld"}
    world.direct.patch("jobsets", "top", {"spec": {"suspend": False}}, namespace="team")
    world.direct.patch("jobs", "top-w-1", {"spec": {"suspend": False}}, namespace="team")
    world.settle(15.0)
    assert not world.is_suspended("top-w-1")


def test_an_owner_that_names_it_in_time_has_created_it(world: World) -> None:
    install(world, RAY_CLUSTER.api)
    above = ray_job(world, named="")
    world.start("--enabled-extensions=raycluster")
    RAY_CLUSTER.make(world, above)
    world.settle(5.0)
    status = {"status": {"rayClusterName": "top-abcde"}}
    world.direct.patch("rayjobs", "top", status, namespace="team", subresource="status")
    world.settle(12.0)
    assert world.units() == []
    assert "OwnerIgnored" not in world.events()


def test_a_child_that_grows_by_itself_is_queued_and_held(world: World) -> None:
    world.start()
    of_job("top-w-1", pods=2).make(world, job_set(world), completions=None)
    world.settle()
    world.run_pods(name="top-w-1")
    grown = {"spec": {"parallelism": 40}}
    world.direct.patch("jobs", "top-w-1", grown, namespace="team")
    world.settle()
    assert world.units() == ["top-w-1"]
    assert world.is_suspended("top-w-1"), "it did not run before the queue knew of it"


def test_a_finding_counts_until_the_child_changes(world: World) -> None:
    world.start()
    of_job("top-w-1", pods=2).make(world, job_set(world))
    world.settle()
    said = {"lastTransitionTime": world.now(), "message": "", "reason": "AllJobsCompleted"}
    completed = {"type": "Completed", "status": "True", **said}
    ended = {"status": {"conditions": [completed]}}
    world.direct.patch("jobsets", "top", ended, namespace="team", subresource="status")
    world.settle(2 * REFUSED_SECONDS)
    annotated = {"metadata": {"annotations": {"a": "b"}}}
    world.direct.patch("jobs", "top-w-1", annotated, namespace="team")
    world.settle()
    assert world.units() == [], "an owner may end before its children do"


def test_an_owner_that_may_not_be_read_does_not_count(world: World) -> None:
    world.start()
    world.server.faults.fail(403, times=EVERY_TIME, match=Match(plural="jobsets", verb="get"))
    of_job("top-w-1").make(world, job_set(world))
    world.settle()
    assert world.units() == ["top-w-1"]
    note = note_about_owner(world)
    assert "the controllers may not get jobsets.jobset.x-k8s.io" in note


def test_an_owner_that_cannot_be_is_not_read_and_does_not_count(world: World) -> None:
    world.start()
    of_job("top-w-1").make(
        world, {**job_set(world), "apiVersion": "jobset.x-k8s.io/" + "v" * MAX_FIELD_CHARS}
    )
    world.settle()
    assert world.units() == ["top-w-1"]
    assert NO_SUCH_OBJECT in note_about_owner(world)
    verbs = [each.info.verb for each in world.server.journal if each.info.plural == "jobsets"]
    assert "get" not in verbs


def test_a_remembered_refusal_is_no_longer_than_a_note(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_NOTE_BYTES", 20)
    world.start()
    world.server.faults.fail(403, times=EVERY_TIME, match=Match(plural="jobsets", verb="get"))
    of_job("top-w-1").make(world, job_set(world))
    world.settle()
    assert "but the controllers m…. It is" in note_about_owner(world)


def test_children_that_come_together_cost_one_read(world: World) -> None:
    world.start()
    above = job_set(world)
    for number in range(2):
        of_job(f"top-w-{number}").make(world, above)
    world.settle(3.0)
    gets = [each for each in world.server.journal if each.info.plural == "jobsets"]
    assert [each.info.verb for each in gets if each.info.verb == "get"] == ["get"]


def test_owners_that_were_read_are_bounded_by_their_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED_BYTES", 1)
    world.start()
    of_one = {"parallelism": 2, "completions": 2, "template": template()}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": of_one}}]}
    owners = [make_owner(world.direct, API["jobsets"], name, "jobsets", spec) for name in "abc"]
    for child, owner in zip(
        ("a-w-0", "b-w-0", "c-w-0", "a-w-1"), (*owners, owners[0]), strict=True
    ):
        of_job(child).make(world, owner)
        world.settle(1.0)
    infos = [each.info for each in world.server.journal if each.info.plural == "jobsets"]
    assert [each.name for each in infos if each.verb == "get"] == ["a", "b", "c", "a"]


def test_a_train_job_has_no_more_than_it_was_admitted_with(world: World) -> None:
    install(world, API["jobsets"])
    above = train_job(world)
    labelled = {"metadata": {"labels": {QUOTA_LABEL: "gold"}}}
    world.direct.patch("trainjobs", "top", labelled, namespace="team")
    JOB_SET.make(world, above, suspend=True)
    world.start("--enabled-extensions=jobset,trainjob")
    world.settle(2.0)
    assert world.units() == ["top-train-qu"]
    world.admit_unit("top-train-qu")
    world.settle(2.0)
    world.direct.delete("jobsets", "top", "team")
    large = {"parallelism": 40, "completions": 40, "template": template()}
    jobs = [{"name": "n", "replicas": 1, "template": {"spec": large}}]
    JOB_SET.make(world, above, replicatedJobs=jobs)
    world.settle(2.0)
    assert world.units() == ["top-jobset-qu", "top-train-qu"]


def note_about_owner(world: World) -> str:
    """Return the message of the event on the Job."""
    return world.notes_on_jobs()["OwnerIgnored"]


def install(world: World, api: str) -> None:
    """Have the API server serve a kind of child."""
    plural = next((plural for plural, each in API.items() if each == api), "")
    if plural:
        world.direct.create(crd(plural))
