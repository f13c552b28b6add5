"""An admission over its quota is excused by what its writer could not know, and by nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shared_api.testing.object_builders import (
    elastic_quota_body,
    pod_body,
    queue_unit_body,
)
from shared_api.well_known_labels import QUOTA_NAME, QUOTA_TREE_ID, RELATED_QUEUE_UNIT
from tests.simulation.account_judge import NEVER_OVER
from tests.simulation.stepped_programs import Process
from tests.simulation.world import World
from tests.simulation.world_plan import Plan

pytestmark = pytest.mark.simulation


def seed_of(*, has_trees: bool) -> int:
    """Return the seed of a world with one scheduler, in which the max of a quota is the limit."""
    return next(
        seed
        for seed in range(1000)
        for plan in [Plan.draw(random.Random(seed))]
        if plan.mode == "max" and not plan.elects and plan.has_trees is has_trees
    )


class Court:
    """A world without turns; its one scheduler writes what a test says."""

    def __init__(self, *, has_trees: bool = False) -> None:
        self.world = World(seed_of(has_trees=has_trees))
        self.make_quota("mid", parent="")
        self.make_quota("a")
        self.world.run(1, 0.0)  # all processes start

    @property
    def scheduler(self) -> Process:
        """The one that runs now."""
        return next(each for each in self.world.processes if each.scheduler is not None)

    def restart_scheduler(self) -> None:
        """Restart the scheduler, and let it see all objects."""
        self.world.crash("scheduler-0")
        self.world.run(1, 0.0)
        self.see()

    def see(self, *plurals: str) -> None:
        """Let the scheduler's caches follow, all or those of some kinds."""
        for follower in self.scheduler.work.followers:
            for _ in range(3):  # a list, a watch, and its changes
                if not plurals or follower.plural in plurals:
                    follower.informer.step()

    def make_quota(self, name: str, parent: str = "mid") -> None:
        """Make a quota of two CPUs."""
        body = elastic_quota_body(name, namespace="team", parent=parent, max={"cpu": "2"})
        self.world.feed.actor = "user"
        self.world.direct.create(body)

    def move_to_tree(self, quota: str, **most: str) -> None:
        """Have a quota name a tree of its own, with another max in the same edit."""
        self.world.feed.actor = "user"
        patch: dict[str, Any] = {"metadata": {"labels": {QUOTA_TREE_ID: "x"}}}
        if most:
            patch["spec"] = {"max": most}
        self.world.direct.patch("elasticquotas", quota, patch, namespace="team")

    def make_unit(self, name: str, quota: str = "a", job: str = "") -> str:
        """Make a unit of two CPUs, by hand or for the uid of a job; return its own uid."""
        body = queue_unit_body(name, namespace="team", quota=quota, requests={"cpu": "2"})
        if job:
            kind = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team"}
            body["spec"]["consumerRef"] = {**kind, "name": name, "uid": job}
        self.world.feed.actor = "user"
        self.world.direct.create(body)
        uid: str = self.world.all("queueunits")[f"team/{name}"]["metadata"]["uid"]
        return uid

    def make_pod(self, unit: str, uid: str, quota: str = "") -> None:
        """Make a pod of a unit, of two CPUs, with the uid of its controller."""
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
        body["spec"]["nodeName"] = "node-0"  # a pod without a node is deleted at once
        self.world.feed.actor = "user"
        self.world.direct.create(body)

    def end_pod(self, unit: str) -> None:
        """Have the pod of a unit terminate."""
        self.world.feed.actor = "user"
        self.world.direct.delete("pods", f"{unit}-pod", "team")

    def put_under(self, unit: str, quota: str) -> None:
        """Move a unit to another quota."""
        self.world.feed.actor = "user"
        patch = {"metadata": {"labels": {QUOTA_NAME: quota}}}
        self.world.direct.patch("queueunits", unit, patch, namespace="team")

    def delete_unit(self, name: str) -> None:
        """Delete a unit; its pods stay."""
        self.world.feed.actor = "user"
        self.world.direct.delete("queueunits", name, "team")

    def is_over(self, name: str) -> bool:
        """Let the scheduler admit a unit by what it has seen; return whether that was wrong."""
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


def test_unseen_pods_excuse_an_admission() -> None:
    court = Court()
    uid = court.make_unit("h0")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    assert not court.is_over("h1")


@pytest.mark.parametrize("is_seen", [False, True])
def test_only_the_unseen_end_of_a_pod_excuses_an_admission(*, is_seen: bool) -> None:
    """The pod is one of those granted, as long as it is not known to end."""
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.see()
    court.end_pod("h0")
    court.see(*(["pods"] if is_seen else ["nodes"]))
    assert court.is_over("h0") is is_seen


def test_unseen_pods_excuse_an_admission_under_an_ancestor_added_later() -> None:
    court = Court()
    uid = court.make_unit("h0", quota="b")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    court.make_quota("b")
    court.see("elasticquotas")
    assert not court.is_over("h1")


def test_seen_pods_excuse_no_admission_under_an_ancestor_added_later() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.make_quota("b")
    court.see()
    assert court.is_over("h1")


def test_an_unseen_move_of_a_unit_with_pods_excuses_an_admission() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.see()
    court.put_under("h0", "a")
    assert not court.is_over("h1")


def test_a_seen_move_of_a_unit_with_pods_excuses_no_admission() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.put_under("h0", "a")
    court.see()
    assert court.is_over("h1")


def test_a_process_that_saw_a_unit_and_its_pods_knows_their_quota_after_deletion() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.make_unit("h1")
    court.see()
    court.delete_unit("h0")
    court.see()
    assert court.is_over("h1")


def test_a_process_started_later_does_not_know_it() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"))
    court.make_unit("h1")
    court.see()
    court.delete_unit("h0")
    court.restart_scheduler()
    assert not court.is_over("h1")


def test_a_process_started_later_knows_the_quota_that_pods_name() -> None:
    court = Court()
    court.make_pod("h0", court.make_unit("h0"), quota="a")
    court.make_unit("h1")
    court.delete_unit("h0")
    court.restart_scheduler()
    assert court.is_over("h1")


def test_a_process_that_saw_the_pods_after_their_unit_was_deleted_does_not_know_it() -> None:
    court = Court()
    uid = court.make_unit("h0")
    court.make_unit("h1")
    court.see()
    court.make_pod("h0", uid)
    court.delete_unit("h0")
    court.see()
    assert not court.is_over("h1")


def test_the_quota_that_a_recreated_unit_names_is_known() -> None:
    court = Court()
    job = "4f1c"
    court.make_pod("h0", job)
    court.make_unit("h0", job=job)
    court.make_unit("h1")
    court.delete_unit("h0")
    court.make_unit("h0", job=job)
    court.restart_scheduler()
    assert court.is_over("h1")


def test_a_quota_moved_to_another_tree_counts_as_before_that_edit() -> None:
    court = Court(has_trees=True)
    court.make_unit("h1")
    court.see()
    court.move_to_tree("a", cpu="1")
    court.see()
    assert not court.is_over("h1")


def test_a_process_started_later_counts_it_as_it_is() -> None:
    court = Court(has_trees=True)
    court.make_unit("h1")
    court.see()
    court.move_to_tree("a", cpu="1")
    court.restart_scheduler()
    assert court.is_over("h1")


def test_a_quota_moved_to_another_tree_still_counts_under_its_parent() -> None:
    court = Court(has_trees=True)
    court.make_quota("b")
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.see()
    court.move_to_tree("a")
    court.see()
    assert court.is_over("h1")


def test_a_process_started_later_counts_it_under_no_parent() -> None:
    court = Court(has_trees=True)
    court.make_quota("b")
    court.make_pod("h0", court.make_unit("h0", quota="b"))
    court.make_unit("h1")
    court.see()
    court.move_to_tree("a")
    court.restart_scheduler()
    assert not court.is_over("h1")
