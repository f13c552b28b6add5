"""Jobs that come to another quota between two runs, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.queue_controllers.conftest import World

QUOTA = "quota.scheduling.koordinator.sh/name"


@pytest.mark.parametrize("by", ["label", "namespace"])
def test_moved_to_another_quota_after_a_run_its_pods_are_charged_there(
    world: World, by: str
) -> None:
    make_quota(world, "gold", '["team"]')
    make_quota(world, "silver", "[]")
    world.start()
    world.job(labelled=by == "label")
    world.settle()
    evict_after_release(world)
    if by == "label":
        world.patch_job({"metadata": {"labels": {QUOTA: "silver"}}})
    else:
        world.direct.delete("elasticquotas", "gold", "kube-system")
        make_quota(world, "bronze", '["team"]')
    world.settle()
    moved = "silver" if by == "label" else "bronze"
    assert world.get_unit()["spec"]["queue"] == moved
    world.admit()
    world.settle()
    assert not world.is_suspended()
    assert world.get_job()["spec"]["template"]["metadata"]["labels"][QUOTA] == moved


def make_quota(world: World, name: str, namespaces: str) -> None:
    annotations = {"quota.scheduling.koordinator.sh/namespaces": namespaces}
    world.direct.create(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": "kube-system", "annotations": annotations},
            "spec": {},
        }
    )


def evict_after_release(world: World) -> None:
    """Bring a waiting job to its release, and back into line."""
    world.admit()
    world.settle()
    assert not world.is_suspended()
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    world.patch_unit_status({"conditions": [{**asked, "lastTransitionTime": world.now()}]})
    world.settle(2.0)
    world.end_pods(0)
    world.settle()
    assert world.phase() == "Enqueued"
