"""Jobs that come to another quota between two runs, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queue_controllers.conftest import evict_after_release

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
    world.admit()
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
