"""ElasticQuota (trees): the scenario of upstream's unit test, number by number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.framework.extension_points import Supposed
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts
from shared_api.testing.object_builders import tree_node
from tests.queue_scheduler.quota_source_kit import MAX_JOBS as JOBS
from tests.queue_scheduler.quota_source_kit import cpus, info, tree

SCENARIO = tree(
    tree_node(
        "child1",
        tree_node("child1_1", namespaces=["quota-1-1"], **cpus(10)),
        tree_node("child1_2", namespaces=["quota-1-2"], **cpus(5)),
        **cpus(15),
    ),
    tree_node(
        "child2",
        tree_node("child2_1", **cpus(3, jobs=2)),
        tree_node("child2_2", **cpus(3, jobs=1)),
        **cpus(6, jobs=2),
    ),
    **cpus(21),
)
LEAVES = ("root/child1/child1_1", "root/child1/child1_2", "root/child2/child2_1",
          "root/child2/child2_2")  # fmt: skip


class Scenario:
    """One job of two pods with one CPU each in every leaf."""

    def __init__(self) -> None:
        self.plugin = ElasticQuotaTreePlugin(Fraction(1))
        self.plugin.on_quota_source(SCENARIO)
        for number, leaf in enumerate(LEAVES):
            assert self.plugin.reserve(info(leaf, 2000, f"job-{number}")) is None

    def used(self, path: str) -> Amounts:
        view = self.plugin.quotas.view(path)
        assert view is not None
        return {key: view.used.get(key, 0) for key in ("cpu", JOBS)}


def test_tree_unit_scenario_a_job_is_one_in_its_leaf_and_above() -> None:
    scenario = Scenario()
    assert all(scenario.used(leaf) == {"cpu": 2000, JOBS: 1} for leaf in LEAVES)
    assert scenario.used("root/child2") == {"cpu": 4000, JOBS: 2}
    assert scenario.used("root") == {"cpu": 8000, JOBS: 4}


@pytest.mark.parametrize(
    ("leaf", "cpu", "want"),
    [
        pytest.param(
            "root/child1/child1_2",
            4,
            (Reason.OVER_QUOTA_MAX, "root/child1/child1_2", "cpu", 5000, 2000, 4000),
            id="cpu: request 4, max 5, used 2",
        ),
        pytest.param(
            "root/child2/child2_2",
            1,
            (Reason.OVER_MAX_JOBS, "root/child2/child2_2", JOBS, 1, 1, 1),
            id="jobs of its own: request 1, max 1, used 1",
        ),
        pytest.param(
            "root/child2/child2_1",
            1,
            (Reason.OVER_MAX_JOBS, "root/child2", JOBS, 2, 2, 1),
            id="jobs of its parent: request 1, max 2, used 2",
        ),
    ],
)
def test_tree_unit_scenario_refusals(leaf: str, cpu: int, want: tuple[Any, ...]) -> None:
    refusal = Scenario().plugin.check(info(leaf, cpu * 1000))
    assert refusal is not None
    got = (refusal.reason, refusal.quota, refusal.resource)
    assert (*got, refusal.limit, refusal.used, refusal.requested) == want


def test_tree_unit_scenario_unreserve_and_resize() -> None:
    scenario, leaf = Scenario(), LEAVES[0]
    scenario.plugin.unreserve(Uid("job-0"))
    assert scenario.used(leaf) == {"cpu": 0, JOBS: 0}
    for pods in (4, 2):
        scenario.plugin.resize(
            Uid("job-0"), leaf, {"cpu": pods * 1000}, non_preemptible=False, pods=1
        )
    assert scenario.used(leaf) == {"cpu": 2000, JOBS: 1}
    scenario.plugin.resize(Uid("job-0"), leaf, {}, non_preemptible=False, pods=1)
    scenario.plugin.resize(Uid("job-0"), leaf, {"cpu": 2000}, non_preemptible=False, pods=1)
    assert scenario.used(leaf) == {"cpu": 2000, JOBS: 1}


def test_tree_unit_scenario_a_recreated_tree_finds_its_bookings() -> None:
    scenario = Scenario()
    scenario.plugin.on_quota_source_gone(SCENARIO)
    assert not scenario.plugin.knows_quota(LEAVES[0])
    assert scenario.plugin.quotas.stated.names() == ()
    scenario.plugin.on_quota_source(SCENARIO)
    assert scenario.used("root") == {"cpu": 8000, JOBS: 4}
    assert scenario.plugin.reserve(info(LEAVES[0], 1000)) is None
    assert scenario.used(LEAVES[0]) == {"cpu": 3000, JOBS: 2}


def test_tree_unit_scenario_a_job_fits_where_another_is_gone() -> None:
    plugin, asked = Scenario().plugin, info(LEAVES[3], 1000)
    refusal = plugin.check_without(asked, [Uid("job-0")])
    assert refusal is not None
    assert refusal.reason is Reason.OVER_MAX_JOBS
    assert plugin.check_without(asked, [Uid("job-3")]) is None
    refusal = plugin.check_without(asked, [Uid("job-3")], [Supposed(LEAVES[2], {"cpu": 1})])
    assert refusal is not None
    assert (refusal.reason, refusal.quota) == (Reason.OVER_MAX_JOBS, "root/child2")
    assert plugin.check_without(info("of another plugin", 1), []) is None
