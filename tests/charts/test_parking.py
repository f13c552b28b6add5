"""The quota for pods at the gate, and the policies that go with it, as the chart renders them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.render import GUARD_V1, NAMESPACE, SERVED, HelmFailed, render
from tests.charts.values_table import GATED, values_with

Json = Any

PARKING = {"admissionPolicy": {"parkingQuota": "parked"}}


def named(objects: list[Json], word: str) -> list[Json]:
    return [each for each in objects if word in each["metadata"]["name"]]


def expression(policy: Json) -> str:
    (mutation,) = policy["spec"]["mutations"]
    found: str = mutation["applyConfiguration"]["expression"]
    return found


def test_it_is_off_by_default() -> None:
    objects = render(values_with(*GATED))
    assert not [each for each in objects if each["kind"] == "ElasticQuota"]
    assert not named(objects, "park")
    assert all("parked-in" not in str(each) for each in objects)


def test_the_quota_limits_nothing_and_outlives_the_release() -> None:
    (quota,) = named(render(values_with(*GATED, **PARKING)), "parked")
    assert (quota["kind"], quota["metadata"]["namespace"]) == ("ElasticQuota", NAMESPACE)
    assert quota["spec"] == {"min": {}, "max": {}}
    labels, annotations = quota["metadata"]["labels"], quota["metadata"]["annotations"]
    assert labels["koord-queue/parking-quota"] == "true"
    assert labels["quota.scheduling.koordinator.sh/is-parent"] == "false"
    assert annotations["helm.sh/resource-policy"] == "keep"


def test_the_policies_that_park_depend_on_the_quota() -> None:
    objects = render(values_with(*GATED, **PARKING))
    parks = named(objects, "-park-pods")
    assert len(parks) == 5, "two policies, three bindings"
    for each in parks:
        spec = each["spec"]
        if "policyName" in spec:
            param = {"name": "parked", "namespace": NAMESPACE, "parameterNotFoundAction": "Allow"}
            assert spec["paramRef"] == param
        else:
            assert spec["paramKind"]["kind"] == "ElasticQuota"
            assert "'koord-queue/parked-from': string(variables.ownQuota)" in expression(each)
            assert "name: 'koord-queue/admission'" in expression(each), "gate and label go together"
    for each in named(objects, "-hold-pods"):
        assert not {"paramKind", "paramRef"} & each["spec"].keys()


def test_the_label_of_the_gate_goes_with_that_of_the_quota() -> None:
    config = {"config": {"scheduleAdmissionLabel": True}}
    objects = render(values_with(*GATED, **PARKING, controllers=config))
    for each in named(objects, "-park-pods"):
        if "mutations" in each["spec"]:
            assert "'alibabacloud.com/schedule-admission': 'false'" in expression(each)


def test_only_objects_that_name_the_quota_are_guarded() -> None:
    objects = named(render(values_with("batchjob", *GATED, **PARKING)), "-name-parking")
    policy = next(each for each in objects if "validations" in each["spec"])
    match = policy["spec"]["matchConstraints"]
    assert match["objectSelector"] == {
        "matchLabels": {"quota.scheduling.koordinator.sh/name": "parked"}
    }
    assert [rule["resources"] for rule in match["resourceRules"]] == [["pods"], ["jobs"]]
    assert "namespaceSelector" not in match, "a pod of any namespace would be charged nowhere"


@pytest.mark.parametrize(
    ("values", "served", "want"),
    [
        pytest.param({"parkingQuota": NAMESPACE}, None, "other pods", id="the namespace's own"),
        pytest.param(
            {"parkingQuota": "koordinator-default-quota"}, None, "other pods", id="the default one"
        ),
        pytest.param({"parkingQuota": "parked"}, [], "ValidatingAdmission", id="no guard"),
        pytest.param({"parkingQuota": "A b"}, None, "parkingQuota", id="no name"),
    ],
)
def test_what_is_refused(values: Json, served: list[str] | None, want: str) -> None:
    versions = SERVED if served is None else served
    with pytest.raises(HelmFailed, match=want):
        render(values_with(*GATED, admissionPolicy=values), api_versions=versions)


def test_it_needs_elastic_quotas() -> None:
    plugins = {"plugins": [{"name": "Priority"}, {"name": "ElasticQuota"}]}
    with pytest.raises(HelmFailed, match="ElasticQuotaV2"):
        render(values_with(*GATED, **PARKING, pluginConfigs=plugins))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"admissionPolicy": {"parkingQuota": "parked", "enabled": False}}, id="none"),
        pytest.param({**PARKING, "shadow": {"enabled": True}}, id="a shadow only reads"),
    ],
)
def test_without_policies_nothing_is_parked(values: Json) -> None:
    objects = render(values_with("pod", **values), api_versions=[GUARD_V1])
    assert not named(objects, "park")


def test_what_a_parked_pod_names_is_its_own_quota() -> None:
    listed = {"admissionPolicy": {"parkingQuota": "parked", "quotasFrom": ["quotas"]}}
    objects = render(values_with(*GATED, **listed, quotaNamespaces="listed"))
    (policy,) = (each for each in named(objects, "-name-quotas") if "variables" in each["spec"])
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert "object.metadata.annotations['koord-queue/parked-from']" in variables["named"]
    assert "oldObject.metadata.annotations['koord-queue/parked-from']" in variables["wasNamed"]
