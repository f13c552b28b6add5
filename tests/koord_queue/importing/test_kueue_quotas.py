"""ClusterQueues and Cohorts become a tree of ElasticQuotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from koord_queue.errors import CommandError
from koord_queue.importing.kueue_objects import read_objects
from koord_queue.importing.kueue_quotas import QuotaTree
from koord_queue.importing.plan import MADE_BY, MADE_BY_VALUE, Plan
from tests.koord_queue.importing.kueue_bodies import (
    cluster_queue,
    cohort,
    flavor,
    group,
    local_queue,
    resource,
)

Json = dict[str, Any]
OWN = {MADE_BY: MADE_BY_VALUE}
PREFIX = "quota.scheduling.koordinator.sh/"
NINE = group(resource("cpu", "9"), resource("memory", "36Gi"))


def plan_of(*bodies: Json) -> Plan:
    return QuotaTree(read_objects(bodies), "koord-queue").plan()


def specs(plan: Plan) -> Json:
    return {each["metadata"]["name"]: each["spec"] for each in plan.objects}


def test_a_queue_without_a_cohort_has_its_nominal_quota_and_no_more() -> None:
    plan = plan_of(cluster_queue("team", NINE))
    (quota,) = plan.objects
    amounts = {"cpu": "9", "memory": "36Gi"}
    assert quota["spec"] == {"min": amounts, "max": amounts}
    assert quota["metadata"] == {"name": "team", "namespace": "koord-queue", "labels": OWN}
    assert plan.lost == ()


def cpu(amount: str, **limits: str) -> Json:
    return group(resource("cpu", amount, **limits))


@pytest.mark.parametrize(
    ("of_team", "want"),
    [
        pytest.param(cpu("9"), "21", id="without a limit it may borrow all of the cohort"),
        pytest.param(cpu("9", borrowing="1"), "10", id="a borrowing limit is added"),
        pytest.param(cpu("9", borrowing="99"), "21", id="no more than the cohort has"),
        pytest.param(cpu("9", borrowing="0"), "9", id="it may borrow nothing"),
    ],
)
def test_what_may_be_borrowed_is_part_of_max(of_team: Json, want: str) -> None:
    of_other = cluster_queue("other", cpu("12"), cohortName="both")
    plan = plan_of(cluster_queue("team", of_team, cohortName="both"), of_other)
    found = specs(plan)
    assert found["team"] == {"min": {"cpu": "9"}, "max": {"cpu": want}}
    assert found["both"] == {"min": {"cpu": "21"}, "max": {"cpu": "21"}}
    names = [each["metadata"]["name"] for each in plan.objects]
    assert names == ["both", "other", "team"]
    labels = plan.objects[2]["metadata"]["labels"]
    assert labels == {**OWN, f"{PREFIX}parent": "both"}
    assert plan.objects[0]["metadata"]["labels"] == {**OWN, f"{PREFIX}is-parent": "true"}


def test_cohorts_form_a_tree_with_quota_of_their_own() -> None:
    plan = plan_of(
        cohort("root", cpu("4")),
        cohort("org", cpu("2", borrowing="3"), parent="root"),
        cluster_queue("team", cpu("10"), cohortName="org"),
        cluster_queue("apart", cpu("5"), cohortName="root"),
    )
    assert specs(plan) == {
        "root": {"min": {"cpu": "21"}, "max": {"cpu": "21"}},
        "org": {"min": {"cpu": "12"}, "max": {"cpu": "15"}},
        "apart": {"min": {"cpu": "5"}, "max": {"cpu": "21"}},
        "team": {"min": {"cpu": "10"}, "max": {"cpu": "21"}},
    }


def test_all_quotas_of_a_tree_name_the_same_resources() -> None:
    plan = plan_of(
        cluster_queue("team", cpu("9"), cohortName="both"),
        cluster_queue("gpus", group(resource("nvidia.com/gpu", "8")), cohortName="both"),
    )
    found = specs(plan)
    assert found["team"]["max"] == {"nvidia.com/gpu": "0", "cpu": "9"}
    assert found["team"]["min"] == {"nvidia.com/gpu": "0", "cpu": "9"}
    assert {tuple(sorted(each["max"])) for each in found.values()} == {("cpu", "nvidia.com/gpu")}


def test_flavors_are_added_up_and_said_so() -> None:
    spot = {"name": "spot", "resources": [resource("cpu", "18")]}
    both = cpu("9")
    both["flavors"].append(spot)
    plan = plan_of(cluster_queue("team", both))
    assert specs(plan)["team"]["min"] == {"cpu": "27"}
    (lost,) = plan.lost
    assert (lost.field, "default-flavor, spot" in lost.why) == (
        "spec.resourceGroups[flavors]",
        True,
    )


@pytest.mark.parametrize(
    ("others", "want"),
    [
        pytest.param(["default-flavor"], [], id="it exists"),
        pytest.param(["other"], ["there is no ResourceFlavor default-flavor"], id="it is missing"),
        pytest.param([], [], id="flavors were not given at all"),
    ],
)
@pytest.mark.parametrize("make", [cluster_queue, cohort], ids=["queue", "cohort"])
def test_a_flavor_that_does_not_exist_is_named(
    make: Callable[[str, Json], Json], others: list[str], want: list[str]
) -> None:
    plan = plan_of(make("team", cpu("9")), *map(flavor, others))
    assert specs(plan)["team"]["min"] == {"cpu": "9"}
    assert [each.why.partition(":")[0] for each in plan.lost] == want


@pytest.mark.parametrize(
    ("lending", "label", "lost"),
    [
        pytest.param({}, None, 0, id="all is lent"),
        pytest.param({"lending": "0"}, "false", 0, id="nothing is lent"),
        pytest.param({"lending": "3"}, None, 1, id="a part is lent: all becomes lent"),
        pytest.param({"lending": "9"}, None, 0, id="a limit that limits nothing"),
    ],
)
def test_lending_is_all_or_nothing(lending: dict[str, str], label: str | None, lost: int) -> None:
    plan = plan_of(cluster_queue("team", cpu("9", **lending), cohortName="both"))
    labels = plan.objects[-1]["metadata"]["labels"]
    assert labels.get(f"{PREFIX}allow-lent-resource") == label
    assert len(plan.lost) == lost


def test_weights_are_shares_among_siblings() -> None:
    plan = plan_of(
        cohort("root"),
        cohort("org", parent="root", fairSharing={"weight": "0.75"}),
        cluster_queue("team", cpu("9"), cohortName="root"),
    )
    weights = {
        each["metadata"]["name"]: each["metadata"]
        .get("annotations", {})
        .get(f"{PREFIX}shared-weight")
        for each in plan.objects
    }
    assert weights == {"root": None, "org": '{"cpu": "750"}', "team": '{"cpu": "1000"}'}


def test_reclaiming_has_the_same_words() -> None:
    preemption = {"reclaimWithinCohort": "Any"}
    plan = plan_of(cluster_queue("team", cpu("9"), cohortName="both", preemption=preemption))
    assert plan.objects[-1]["metadata"]["annotations"] == {"koord-queue/reclaim-policy": "Any"}


def test_a_default_local_queue_makes_the_quota_that_of_its_namespace() -> None:
    plan = plan_of(
        cluster_queue("team", NINE),
        local_queue("a", "default", "team"),
        local_queue("b", "other", "team"),
    )
    annotations = plan.objects[0]["metadata"]["annotations"]
    assert annotations == {f"{PREFIX}namespaces": '["a"]'}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        pytest.param("pods", "spec.resourceGroups[pods]", id="numbers of pods"),
        pytest.param("cpu_credits", "spec.resourceGroups[cpu_credits]", id="Kueue's own resources"),
    ],
)
def test_resources_that_no_quota_limits_are_left_out(name: str, field: str) -> None:
    plan = plan_of(cluster_queue("team", group(resource("cpu", "9"), resource(name, "5"))))
    assert specs(plan)["team"]["min"] == {"cpu": "9"}
    assert [each.field for each in plan.lost] == [field]


def test_a_cohort_named_like_a_queue_gets_another_name() -> None:
    plan = plan_of(cluster_queue("team", cpu("9"), cohortName="team"))
    assert list(specs(plan)) == ["team-cohort", "team"]
    assert plan.objects[1]["metadata"]["labels"][f"{PREFIX}parent"] == "team-cohort"


def test_a_name_that_is_no_label_becomes_nothing() -> None:
    plan = plan_of(cluster_queue("x" * 64, NINE))
    assert plan.objects == ()
    assert [each.field for each in plan.lost] == ["metadata.name"]


@pytest.mark.parametrize(
    ("bodies", "want"),
    [
        pytest.param(
            [cohort("a", parent="b"), cohort("b", parent="a")], "form a cycle", id="a cycle"
        ),
        pytest.param([cluster_queue("t", cpu("nine"))], "ClusterQueue t: cpu", id="no quantity"),
        pytest.param(
            [cluster_queue("t", stopPolicy=7)], "ClusterQueue t cannot be read", id="another type"
        ),
    ],
)
def test_what_cannot_be_read_is_named(bodies: list[Json], want: str) -> None:
    with pytest.raises(CommandError, match=want):
        plan_of(*bodies)
