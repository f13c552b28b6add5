"""What excuses an admission over its quota: what its writer could not know, and nothing else."""

from __future__ import annotations

import random

import pytest

from shared_api.testing.object_builders import (
    elastic_quota_body,
    pod_body,
    queue_unit_body,
)
from shared_api.well_known_labels import QUOTA_NAME, RELATED_QUEUE_UNIT
from tests.simulation.account_judge import NEVER_OVER
from tests.simulation.stepped_programs import Process
from tests.simulation.world import World
from tests.simulation.world_plan import Plan

pytestmark = pytest.mark.simulation

SEED = next(
    seed
    for seed in range(100)
    for plan in [Plan.draw(random.Random(seed))]
    if plan.mode == "max" and not plan.elects
)
"""Of a world with one scheduler, for which the max of a quota is the limit."""


class Court:
    """A world in which nobody gets turns; its one scheduler writes what a test says."""

    def __init__(self) -> None:
        self.world = World(SEED)
        self.make_quota("mid", parent="")
        self.make_quota("a")
        self.world.run(1, 0.0)  # all processes start

    @property
    def scheduler(self) -> Process:
        """The one that runs now."""
        return next(each for each in self.world.processes if each.scheduler is not None)

    def restart_scheduler(self) -> None:
        """Start the scheduler anew, and let it see all that there is."""
        self.world.crash("scheduler-0")
        self.world.run(1, 0.0)
        self.see()

    def see(self, *plurals: str) -> None:
        """Let the scheduler's caches follow, all or those of some kinds."""
        for follower in self.scheduler.work.followers:
            for _ in range(3):  # a list, a watch, and what has come
                if not plurals or follower.plural in plurals:
                    follower.informer.step()

    def make_quota(self, name: str, parent: str = "mid") -> None:
        """Make a quota of two CPUs."""
        body = elastic_quota_body(name, namespace="team", parent=parent, max={"cpu": "2"})
        self.world.feed.actor = "user"
        self.world.direct.create(body)

    def make_unit(self, name: str, quota: str = "a", job: str = "") -> str:
        """Make a unit of two CPUs, by hand or for the uid of a job; return its own."""
        body = queue_unit_body(name, namespace="team", quota=quota, requests={"cpu": "2"})
        if job:
            kind = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team"}
            body["spec"]["consumerRef"] = {**kind, "name": name, "uid": job}
        self.world.feed.actor = "user"
        self.world.direct.create(body)
        uid: str = self.world.all("queueunits")[f"team/{name}"]["metadata"]["uid"]
        return uid

    def make_pod(self, unit: str, uid: str, quota: str = "") -> None:
        """Make a pod of a unit, of two CPUs, whose controller has that uid."""
        owner = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QueueUnit",
            "name": unit,
            "uid": uid,
            "controller": True,
        }
        body = pod_body(
            f"{unit}-pod",
            namespace="team",
            quota=quota,
            requests={"cpu": "2"},
            metadata={"annotations": {RELATED_QUEUE_UNIT: f"team/{unit}"}},
        )
        body["metadata"]["ownerReferences"] = [owner]
        self.world.feed.actor = "user"
        self.world.direct.create(body)

    def put_under(self, unit: str, quota: str) -> None:
        """Put a unit under another quota."""
        self.world.feed.actor = "user"
        patch = {"metadata": {"labels": {QUOTA_NAME: quota}}}
        self.world.direct.patch("queueunits", unit, patch, namespace="team")

    def delete_unit(self, name: str) -> None:
        """Delete a unit; its pods stay."""
        self.world.feed.actor = "user"
        self.world.direct.delete("queueunits", name, "team")

    def is_over(self, name: str) -> bool:
        """Let the scheduler admit a unit by what it has seen; say whether that was wrong."""
        self.scheduler.decided[f"team/{name}"] = self.scheduler.seen()
        self.world.feed.actor = self.scheduler.name
        admission = {"name": "main", "replicas": 1, "running": 0}
        status = {"phase": "Dequeued", "admissions": [admission]}
        self.world.direct.patch(
            "queueunits", name, {"status": status}, namespace="team", subresource="status"
        )
        return any(each.rule == NEVER_OVER for each in self.world.judge.broken)


def test_an_admission_over_what_it_saw_is_broken() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.make_unit("h1")
    court.see()
    assert court.is_over("h1")


def test_pods_that_it_did_not_see_excuse_an_admission() -> None:
    court = Court()
    uid = court.make_unit("h0")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    assert not court.is_over("h1")


def test_they_do_so_above_a_quota_that_was_put_there_later() -> None:
    court = Court()
    uid = court.make_unit("h0", quota="b")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    court.make_quota("b")
    court.see("elasticquotas")
    assert not court.is_over("h1")


def test_pods_that_it_saw_below_a_quota_that_was_put_there_later_do_not() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.make_quota("b")
    court.see()
    assert court.is_over("h1")


def test_a_unit_with_pods_that_was_put_under_the_quota_unseen_excuses_an_admission() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.see()
    court.put_under("h0", "a")
    assert not court.is_over("h1")


def test_one_whose_move_it_saw_does_not() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.put_under("h0", "a")
    court.see()
    assert court.is_over("h1")


def test_whoever_saw_a_unit_and_its_pods_knows_their_quota_when_it_is_gone() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.make_unit("h1")
    court.see()
    court.delete_unit("h0")
    court.see()
    assert court.is_over("h1")


def test_whoever_started_later_does_not_know_it() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.make_unit("h1")
    court.see()
    court.delete_unit("h0")
    court.restart_scheduler()
    assert not court.is_over("h1")


def test_unless_the_pods_name_it() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"), quota="a")
    court.make_unit("h1")
    court.delete_unit("h0")
    court.restart_scheduler()
    assert court.is_over("h1")


def test_whoever_saw_the_pods_when_their_unit_was_gone_does_not_know_it_either() -> None:
    court = Court()
    uid = court.make_unit("h0")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    court.delete_unit("h0")
    court.see()
    assert not court.is_over("h1")


def test_what_a_unit_says_that_is_made_again_is_known() -> None:
    court = Court()
    job = "4f1c"
    court.make_pod("h0", job)
    court.make_unit("h0", job=job)
    court.make_unit("h1")
    court.delete_unit("h0")
    court.make_unit("h0", job=job)
    court.restart_scheduler()
    assert court.is_over("h1")
