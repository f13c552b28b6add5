"""Which policies prove who submits jobs, what they cover, and what the scheduler is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.charts.render import (
    GUARD_V1,
    POLICY_V1,
    POLICY_V1BETA1,
    SERVED,
    HelmFailed,
    of_kind,
    render,
)
from tests.charts.test_chart import containers
from tests.charts.test_kinds import ADAPTERS
from tests.charts.values_table import GATED, SWITCHES, WIDGET, values_with

Json = Any

USERS: Final = {"admissionPolicy": {"users": True}}
ALL: Final = values_with(*SWITCHES, *GATED, controllers={"config": {"kinds": [WIDGET]}}, **USERS)
MUTATING, VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
NAMES: Final = {
    MUTATING: {"koord-queue-name-submitters", "koord-queue-name-template-authors"},
    VALIDATING: {"koord-queue-prove-submitters", "koord-queue-prove-template-authors"},
}
ALL_NAMES: Final = NAMES[MUTATING] | NAMES[VALIDATING]


def policies(values: Json, served: Sequence[str] = SERVED) -> dict[str, Json]:
    """Return the policies for users, by name."""
    objects = render(values, api_versions=served)
    both = {**of_kind(objects, MUTATING), **of_kind(objects, VALIDATING)}
    return {name: each for name, each in both.items() if name in ALL_NAMES}


def covered(policy: Json) -> set[str]:
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    return {resource for rule in rules for resource in rule["resources"]}


def test_nothing_is_proved_by_default() -> None:
    assert policies({}) == {}
    assert "--names-are-proved=true" not in containers({})["scheduler"]["args"]


def test_each_policy_is_bound_and_the_scheduler_trusts_it() -> None:
    objects = render(ALL)
    assert policies(ALL).keys() == ALL_NAMES
    for kind, names in NAMES.items():
        bindings = of_kind(objects, f"{kind}Binding").values()
        assert {each["spec"]["policyName"] for each in bindings} >= names
    assert "--names-are-proved=true" in containers(ALL)["scheduler"]["args"]


def test_all_kinds_that_are_queued_are_covered() -> None:
    jobs = {each.kind.plural for each in ADAPTERS.values()} | {"widgets"}
    found = policies(ALL)
    want = {*jobs, "queueunits", "pods"}
    assert covered(found["koord-queue-name-submitters"]) == want
    # Of built-in kinds a write of the status may change metadata.
    updated = {*want, "jobs/status", "pods/status"}
    assert covered(found["koord-queue-prove-submitters"]) == updated


def test_all_that_others_make_jobs_and_pods_from_is_covered() -> None:
    sets = {"daemonsets", "deployments", "replicasets", "statefulsets", "replicationcontrollers"}
    found = policies(ALL)
    assert covered(found["koord-queue-name-template-authors"]) == {"cronjobs", *sets}
    of_operators = {"raycronjobs", "scheduledsparkapplications", "cronworkflows"}
    judged = {"cronjobs", "jobs", *sets, *of_operators}
    assert covered(found["koord-queue-prove-template-authors"]) == judged


@pytest.mark.parametrize(
    ("switch", "want"),
    [("batchjob", {"cronjobs"}), ("argo", {"cronworkflows"}), ("tf", None)],
)
def test_kinds_that_are_not_queued_are_left_alone(switch: str, want: set[str] | None) -> None:
    found = policies(values_with(switch, **USERS))
    templates = found.get("koord-queue-prove-template-authors")
    assert (None if templates is None else covered(templates)) == want
    assert not {"pods", "rayjobs"} & covered(found["koord-queue-prove-submitters"])


@pytest.mark.parametrize(
    ("served", "want"),
    [
        pytest.param([POLICY_V1, GUARD_V1], "v1", id="the newest version"),
        pytest.param([POLICY_V1BETA1, GUARD_V1], "v1beta1", id="an older one"),
        pytest.param([GUARD_V1], None, id="none: false names are denied all the same"),
    ],
)
def test_names_are_written_where_the_cluster_can(served: list[str], want: str | None) -> None:
    found = policies(ALL, served)
    assert found.keys() >= NAMES[VALIDATING]
    versions = {each["apiVersion"] for name, each in found.items() if name in NAMES[MUTATING]}
    assert versions == ({f"admissionregistration.k8s.io/{want}"} if want else set())


@pytest.mark.parametrize(
    ("values", "version", "message"),
    [
        pytest.param(USERS, "1.29.9", "needs Kubernetes 1.30", id="a cluster without policies"),
        pytest.param(
            {"admissionPolicy": {"users": True, "enabled": False}},
            "1.36.3",
            "needs admissionPolicy.enabled",
            id="no policies are wanted",
        ),
    ],
)
def test_names_are_not_trusted_without_a_policy_that_denies_false_ones(
    values: Json, version: str, message: str
) -> None:
    with pytest.raises(HelmFailed, match=message):
        render(values, kube_version=version)


def test_a_shadow_judges_nothing() -> None:
    assert policies({"shadow": {"enabled": True}, **USERS}) == {}
