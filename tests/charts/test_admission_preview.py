"""The right to create pods, and the policy that confines it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from queue_controllers.watches.preview_changes import FOLLOWED
from tests.charts.render import HelmFailed, of_kind, render, render_notes, rules_of

Json = Any

VALUES: Final = {"controllers": {"config": {"admissionPreview": True}}}
CONTROLLERS: Final = "koord-queue-controllers"
POLICY: Final = "koord-queue-controllers-dry-run-only"


def creates_pods(objects: list[Json]) -> bool:
    rules = rules_of(objects, "ClusterRole", CONTROLLERS)
    return any("pods" in each["resources"] and "create" in each["verbs"] for each in rules)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="by default"),
        pytest.param({"controllers": {"config": {"admissionPreview": False}}}, id="explicitly off"),
    ],
)
def test_without_the_value_no_account_may_create_pods(values: Json) -> None:
    objects = render(values)
    assert not creates_pods(objects)
    assert POLICY not in of_kind(objects, "ValidatingAdmissionPolicy")
    assert "dry run" not in render_notes(values)


def test_the_right_comes_with_the_policy_that_confines_it() -> None:
    objects = render(VALUES)
    assert creates_pods(objects)
    policy = of_kind(objects, "ValidatingAdmissionPolicy")[POLICY]["spec"]
    assert policy["failurePolicy"] == "Fail"
    account = "system:serviceaccount:koord-queue:koord-queue-controllers"
    assert account in policy["matchConditions"][0]["expression"]
    binding = of_kind(objects, "ValidatingAdmissionPolicyBinding")[POLICY]["spec"]
    assert binding == {"policyName": POLICY, "validationActions": ["Deny"]}
    assert POLICY in render_notes(VALUES)


def test_the_account_is_that_of_the_controllers_with_any_name() -> None:
    more = {"controllers": {**VALUES["controllers"], "serviceAccount": {"name": "other"}}}
    policy = of_kind(render(more, namespace="ns"), "ValidatingAdmissionPolicy")[POLICY]
    expression = policy["spec"]["matchConditions"][0]["expression"]
    assert expression == "request.userInfo.username == 'system:serviceaccount:ns:other'"


@pytest.mark.parametrize("version", ["1.29.0", "1.29.14-gke.100"])
def test_the_value_is_refused_if_no_policy_can_confine_the_right(version: str) -> None:
    with pytest.raises(HelmFailed, match=r"admissionPreview needs Kubernetes 1\.30"):
        render(VALUES, kube_version=version)


def test_the_value_is_accepted_from_1_30_on() -> None:
    assert creates_pods(render(VALUES, kube_version="1.30.0-eks-1"))


def test_kinds_that_renew_answers_may_be_watched_only_with_the_value() -> None:
    wanted = {(each.group, each.plural) for each in FOLLOWED}

    def granted(values: Json) -> set[tuple[str, str]]:
        rules = rules_of(render(values), "ClusterRole", CONTROLLERS)
        return {
            (group, resource)
            for each in rules
            if {"list", "watch"} <= set(each["verbs"])
            for group in each["apiGroups"]
            for resource in each["resources"]
        }

    assert wanted <= granted(VALUES)
    assert not wanted & granted({})
