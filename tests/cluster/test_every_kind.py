"""The whole life of a job of every kind, with its real CRD, on one API server.

Its operator is played (played_operators), all else is real. The lives of all kinds run in parallel,
on a few threads, since most of their time is waiting; each test reports one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final

import pytest

from queue_controllers.extension_list import EXTENSIONS
from shared_api.well_known_labels import PRIORITY
from tests.cluster.kind_table import BY_KEY, ROWS, WIDGET, KindRow
from tests.cluster.kind_table import Path as FieldPath
from tests.cluster.kind_world import HIGH, HIGH_VALUE, JobLife, KindWorld, kind_world
from tests.cluster.played_pods import pods_of_ray_child
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUOTA_LABEL, pod_sets_of, refusal_of
from tests.cluster.served_kinds import install_crds, remove_crd
from tests.controlplane.binaries import is_before
from tests.sample_jobs import crd
from tests.waiting import until

# A test waits for the lives that started before its own.
pytestmark = pytest.mark.timeout(1800)

AT_ONCE: Final = 6
"""Lives in parallel: more would only wait for the processors."""
TINY, HUGE = 1, 200
"""CPUs of a quota that no job fits into, and of one that all fit into."""
FIRST, SECOND = BY_KEY["mpijob"], BY_KEY["mpijobv1"]
MPI_CRD: Final = "mpijobs.kubeflow.org"
SLOW: Final = "workflow"
"""The kind whose operator never reports that a job is suspended: the queue waits a minute."""
BY_ANNOTATION: Final = frozenset(row.key for row in ROWS[::2])
"""Kinds evicted by an annotation of the job; the others are evicted by their unit."""

Json = dict[str, Any]


def whole_life(place: KindWorld, row: KindRow) -> None:
    """Play a job that is held, released, stopped, released again, and ended."""
    quota, by_annotation = place.create_quota(f"whole-{row.key}", TINY), row.key in BY_ANNOTATION
    job = place.job(row, f"{row.key}-whole")
    job.create(quota, suspend=False)
    spec = job.await_held()["spec"]
    assert [(each["name"], each["count"]) for each in spec["podSet"]] == job.sets
    assert spec["request"]["cpu"] == row.cpu
    assert (spec["priorityClassName"], spec["priority"]) == (HIGH, HIGH_VALUE)
    await_refused(place, job, row.cpu)
    place.world.resize_quota(quota, HUGE)
    await_running(place, job, quota)
    job.evict(by_annotation=by_annotation)
    place.await_charged(quota, "0")
    assert job.is_suspended()
    job.let_in_again(by_annotation=by_annotation)
    await_running(place, job, quota)
    if row.ends:
        job.operator.end(job.name, succeeded=True)
        job.await_phase("Succeed")
    else:
        job.delete()
        job.await_gone()
    place.await_charged(quota, "0")
    until(lambda: len(job.releases()) >= 2)
    first, _ = job.releases()
    assert first < job.first_pod()


def life_that_fails(place: KindWorld, row: KindRow) -> None:
    quota = place.create_quota(f"fails-{row.key}", HUGE)
    job = place.job(row, f"{row.key}-fails")
    job.enter(quota)
    job.run()
    job.operator.end(job.name, succeeded=False)
    job.await_phase("Failed")
    place.await_charged(quota, "0")


def life_that_is_deleted(place: KindWorld, row: KindRow) -> None:
    """Delete a job while it runs, and create one of the same name at once."""
    quota = place.create_quota(f"again-{row.key}", HUGE)
    first = place.job(row, f"{row.key}-again")
    first.enter(quota)
    unit = first.run()
    first.delete()
    second = place.job(row, first.name)
    second.enter(quota)
    assert second.uid != first.uid
    first.await_gone()
    assert second.run()["metadata"]["uid"] != unit["metadata"]["uid"]
    place.await_charged(quota, row.cpu)
    second.delete()
    second.await_gone()
    place.await_charged(quota, "0")


def life_in_line(place: KindWorld, row: KindRow) -> None:
    """Edit a job while it waits: its unit follows."""
    quota, other = (place.create_quota(f"{each}-{row.key}", TINY) for each in ("line", "other"))
    job = place.job(row, f"{row.key}-line")
    job.enter(quota)
    job.await_phase("Enqueued")
    await_refused(place, job, row.cpu)
    if row.count:
        job.grow(row.count)
        larger = [(job.name if row.key == "job" else each, count) for each, count in row.larger]
        until(lambda: pod_sets_of(job.unit()) == larger)
    where, cpu = row.requests
    if where:
        job.edit(where, cpu)
    job.operator.hold(job.name)
    await_refused(place, job, row.larger_cpu)
    assert job.unit()["spec"]["request"]["cpu"] == row.larger_cpu
    job.annotate(PRIORITY, "5")
    until(lambda: job.unit()["spec"]["priority"] == 5)
    job.edit(("metadata", "labels", QUOTA_LABEL), other)
    until(lambda: job.unit()["spec"]["queue"] == other)
    assert job.phase() == "Enqueued"
    assert job.releases() == []
    job.delete()
    job.await_gone()


def life_that_its_autoscaler_grows(place: KindWorld, row: KindRow) -> None:
    """Add workers to the RayCluster of a RayJob, whose own spec stays unchanged, as Ray does."""
    quota = place.create_quota("scaled", TINY)
    job = place.job(row, "scaled")
    job.enter(quota)
    job.await_phase("Enqueued")
    group = ("spec", "rayClusterSpec", "workerGroupSpecs", 0)
    for field, number in (("numOfHosts", 1), ("replicas", 0)):
        job.edit((*group, field), number)
    none_yet = [("head", 1), ("gpu", 0), ("submitter", 1)]
    until(lambda: pod_sets_of(job.unit()) == none_yet)
    place.world.resize_quota(quota, HUGE)
    until(lambda: not job.is_suspended())
    job.operator.start(job.name, 2)
    job.await_phase("Running")
    place.await_charged(quota, "1500m")
    objects = job.operator.objects
    (cluster,) = objects.find("rayclusters", job.name)
    cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    _, *workers = pods_of_ray_child(job.body(), cluster)
    for each in workers:
        objects.create(each.path, each.body)
    place.await_charged(quota, "9500m")
    assert pod_sets_of(job.unit()) == none_yet
    job.operator.end(job.name, succeeded=True)
    job.await_phase("Succeed")
    place.await_charged(quota, "0")


def life_without_its_account(place: KindWorld, row: KindRow) -> None:
    """Play a job that waits for its service account, then for its quota."""
    quota, account = place.create_quota(f"account-{row.key}", TINY), f"late-{row.key}"
    job = place.job(row, f"{row.key}-account")
    job.enter(quota)
    await_refused(place, job, row.cpu)
    job.edit(ACCOUNTS[row.key], account)
    missing = f"ServiceAccount {account} does not exist in the job's namespace"
    until(lambda: missing in why_not_reserved(job.unit()))
    place.world.create_service_account(account)
    await_refused(place, job, row.cpu)
    until(lambda: missing not in why_not_reserved(job.unit()))
    assert job.releases() == []
    job.delete()
    job.await_gone()


def why_not_reserved(unit: Json) -> str:
    """Return a unit's message of why it waits, "" for none."""
    conditions = unit.get("status", {}).get("conditions", [])
    return " ".join(each["message"] for each in conditions if each["type"] == "QuotaReserved")


def await_refused(place: KindWorld, job: JobLife, cpu: str) -> None:
    """Wait until a job waits because its request is too large."""
    name = job.unit()["metadata"]["name"]
    until(lambda: refusal_of(place.scheduler, name).get("requested") == cpu)


def await_running(place: KindWorld, job: JobLife, quota: str) -> None:
    """Wait until a job runs, each of its pods is counted, and its request is charged."""
    job.run()
    place.await_charged(quota, job.row.cpu)
    want = {name: job.row.pods or count for name, count in job.sets}

    def counted() -> bool:
        admitted = job.unit()["status"]["admissions"]
        return {each["name"]: each["running"] for each in admitted} == want

    until(counted, OWN_TIMES_SECONDS)


Life = Callable[[KindWorld, KindRow], None]
LIVES: Final[dict[str, Life]] = {
    "whole": whole_life,
    "fails": life_that_fails,
    "deleted": life_that_is_deleted,
    "line": life_in_line,
}


ACCOUNTS: Final[dict[str, FieldPath]] = {
    "sparkapp": ("spec", "executor", "serviceAccount"),
    "workflow": ("spec", "serviceAccountName"),
}
"""Path of the service account of kinds whose pods have no template."""
AUTOSCALED: Final = BY_KEY["rayjob"]


class Lives:
    """All lives of all kinds, in progress.

    The two MPIJobs share a CRD: one has its turn when the other's lives are over.

    Args:
        place: the cluster that they are in.
        pool: the threads that they run on.
    """

    def __init__(self, place: KindWorld, pool: ThreadPoolExecutor) -> None:
        self.observer = place.observer
        self._place, self._pool = place, pool
        self._futures: dict[tuple[str, str], Future[None]] = {}
        for row in sorted(ROWS, key=lambda row: row.key != SLOW):
            if row.key != SECOND.key:
                self._begin(row)
        scaled = pool.submit(life_that_its_autoscaler_grows, place, AUTOSCALED)
        self._futures["autoscaled", AUTOSCALED.key] = scaled
        for key in ACCOUNTS:
            waits = pool.submit(life_without_its_account, place, BY_KEY[key])
            self._futures["account", key] = waits
        before = [each for (_, key), each in self._futures.items() if key == FIRST.key]
        self._begin(SECOND, pool.submit(self._swap, before))

    def _begin(self, row: KindRow, after: Future[None] | None = None) -> None:
        for name, life in LIVES.items():
            if row.ends or name != "fails":
                self._futures[name, row.key] = self._pool.submit(self._live, life, row, after)

    def _live(self, life: Life, row: KindRow, after: Future[None] | None) -> None:
        if after is not None:
            after.result()
        life(self._place, row)

    def _swap(self, before: list[Future[None]]) -> None:
        wait(before)
        plane = self._place.world.plane
        remove_crd(plane, MPI_CRD)
        install_crds(plane, crd(SECOND.crd))

    def await_end(self, name: str, key: str) -> None:
        """Wait for the end of a life; raise its failure."""
        self._futures[name, key].result()

    def await_all(self) -> None:
        """Wait until all have ended, successful or not."""
        wait(self._futures.values())


@pytest.fixture(scope="module")
def lives(controlplane_binaries: Path) -> Iterator[Lives]:
    """All lives, started."""
    with kind_world(controlplane_binaries, ROWS, without=[SECOND]) as place:
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            yield Lives(place, pool)
        finally:
            pool.shutdown(cancel_futures=True)


def test_the_table_has_every_kind() -> None:
    held_by_field = {each.kind.key for each in EXTENSIONS if not each.kind.held_by_gates}
    assert {row.key for row in ROWS} == {*held_by_field, WIDGET}


@pytest.mark.parametrize("key", BY_KEY)
def test_whole_life(lives: Lives, key: str) -> None:
    """Each names a priority class, whose value its unit has."""
    lives.await_end("whole", key)


@pytest.mark.parametrize("key", [row.key for row in ROWS if row.ends])
def test_one_that_fails(lives: Lives, key: str) -> None:
    lives.await_end("fails", key)


@pytest.mark.parametrize("key", BY_KEY)
def test_one_that_is_deleted(lives: Lives, key: str) -> None:
    lives.await_end("deleted", key)


@pytest.mark.parametrize("key", BY_KEY)
def test_one_that_is_edited_in_the_queue(lives: Lives, key: str) -> None:
    if key == "job" and is_before(1, 36):
        pytest.skip("a Job that ran for a moment before it was suspended keeps its template there")
    lives.await_end("line", key)


def test_ctl_55_one_that_grows_without_its_own_spec(lives: Lives) -> None:
    """[ctl-55] Upstream raises the unit's counts; here new pods are charged as they are created."""
    lives.await_end("autoscaled", AUTOSCALED.key)


@pytest.mark.parametrize("key", ACCOUNTS)
def test_one_whose_service_account_is_missing(lives: Lives, key: str) -> None:
    lives.await_end("account", key)


NESTED: Final = {
    ("JobSet", "Job"),
    ("TrainJob", "JobSet"),
    ("MPIJob", "Job"),
    ("RayJob", "RayCluster"),
    ("RayJob", "Job"),
    ("RayService", "RayCluster"),
    ("AppWrapper", "Job"),
}


def test_parts_of_jobs_are_never_queued(lives: Lives) -> None:
    """All jobs of their namespace are managed, yet these have no unit and are not written to."""
    lives.await_all()
    seen, of_kinds = list(lives.observer.seen), {row.key for row in ROWS} | {"jobs"}
    owned = [each.body for each in seen if each.plural in of_kinds and owner_of(each.body)]
    assert {(owner_of(each)["kind"], each["kind"]) for each in owned} == NESTED
    uids = {each["metadata"]["uid"] for each in owned}
    units = [each.body for each in seen if each.plural == "queueunits"]
    assert len(units) > len(ROWS)
    assert [u for u in units if u["spec"]["consumerRef"]["uid"] in uids] == []
    writers = {field["manager"] for each in owned for field in each["metadata"]["managedFields"]}
    assert [each for each in writers if each.startswith("koord-queue")] == []


def owner_of(body: Json) -> Json:
    """Return the controller of an object, {} where it has none."""
    owners = body["metadata"].get("ownerReferences", [])
    return next((each for each in owners if each.get("controller")), {})
