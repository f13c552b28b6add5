"""Which pods need nodes, and the objects that ask for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_admission_checks.request_plan import (
    MAX_NAME_CHARS,
    PlannedPods,
    RequestPlan,
    attempt_of,
    controller_label,
    plan_pods,
    read_demand,
    request_body,
    template_bodies,
)
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.quantity import QuantityError
from shared_api.testing.object_builders import pod_set, queue_unit_body

PLAN = RequestPlan(
    check="check",
    controller_name="a.b/c",
    class_name="x.y",
    parameters={},
    pods=(PlannedPods("main", 2),),
    attempt="then/0",
    demand="d",
)


def unit_of(*pod_sets: Any, **status: Any) -> QueueUnit:
    body = queue_unit_body("unit", podSet=list(pod_sets))
    return msgspec.convert({**body, "status": status}, QueueUnit)


@pytest.mark.parametrize(
    ("managed", "want"),
    [
        ((), ["gpu", "cpu", "limit", "init"]),
        (("nvidia.com/gpu",), ["gpu", "limit", "init"]),
        (("cpu", "nvidia.com/gpu"), ["gpu", "cpu", "limit", "init"]),
        (("example.com/tpu",), []),
    ],
)
def test_pods_that_ask_for_managed_resources_need_nodes(
    managed: tuple[str, ...], want: list[str]
) -> None:
    limit = pod_set("limit", 1, {})
    limit["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    init = pod_set("init", 1, {})
    needs = {"requests": {"nvidia.com/gpu": "2"}}
    init["template"]["spec"]["initContainers"] = [{"name": "i", "resources": needs}]
    gpu = pod_set("gpu", 3, {"nvidia.com/gpu": "1"})
    cpu = pod_set("cpu", 1, {"cpu": "1", "nvidia.com/gpu": "0"})
    got = plan_pods(unit_of(gpu, cpu, limit, init), frozenset(managed))
    assert [each.pod_set for each in got] == want


@pytest.mark.parametrize("managed", ["kubernetes.io/gpu", "koordinator.sh/gpu"])
@pytest.mark.parametrize("asked", ["kubernetes.io/gpu", "koordinator.sh/gpu"])
def test_a_managed_resource_matches_by_either_name(managed: str, asked: str) -> None:
    got = plan_pods(unit_of(pod_set("gpu", 1, {asked: "1"})), frozenset({managed}))
    assert got == (PlannedPods("gpu", 1),)


def test_only_admitted_pods_are_planned() -> None:
    admitted = [{"name": "a", "replicas": 2, "running": 0}, {"name": "b", "replicas": 0}]
    unit = unit_of(pod_set("a", 5), pod_set("b", 5), pod_set("c", 5), admissions=admitted)
    assert plan_pods(unit, frozenset()) == (PlannedPods("a", 2), PlannedPods("c", 5))


def test_an_unreadable_amount_is_named() -> None:
    with pytest.raises(QuantityError, match=r"containers\[0\]"):
        plan_pods(unit_of(pod_set("a", 1, {"cpu": "much"})), frozenset({"cpu"}))


def test_a_name_is_derived_from_the_request() -> None:
    meta = ObjectMeta(name="unit", uid=Uid("u"))
    name = PLAN.name_for(meta)
    assert name.startswith("unit-check-")
    others = [
        PLAN.name_for(ObjectMeta(name="unit", uid=Uid("v"))),
        *(
            msgspec.structs.replace(PLAN, **change).name_for(meta)
            for change in (
                {"class_name": "z"},
                {"parameters": {"a": "b"}},
                {"pods": (PlannedPods("main", 3),)},
                {"attempt": "then/1"},
                {"demand": "e"},
            )
        ),
    ]
    assert len({name, *others}) == 7
    assert PLAN.name_for(meta) == name


@pytest.mark.parametrize("length", [1, 51, 52, 53, 253])
def test_names_are_bounded_and_valid(length: int) -> None:
    plan = msgspec.structs.replace(PLAN, check="c" * 253)
    for name in ("a" * length, "a." * (length // 2) + "a"):
        got = plan.name_for(ObjectMeta(name=name, uid=Uid("u")))
        assert len(got) <= MAX_NAME_CHARS
        assert ".-" not in got
        assert "--" not in got


def test_only_the_pod_sets_make_the_demand() -> None:
    body = queue_unit_body("unit", podSet=[pod_set("a", 1), pod_set("b", 2)])
    demand = read_demand(body)
    assert set(demand.templates) == {"a", "b"}
    assert demand.templates["a"] == body["spec"]["podSet"][0]["template"]
    body["spec"]["priority"] = 5
    assert read_demand(body).digest == demand.digest
    body["spec"]["podSet"][1]["count"] = 3
    assert read_demand(body).digest != demand.digest
    assert read_demand({}).templates == {}


def test_an_attempt_is_a_reservation_and_a_retry() -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "T1"}
    state = AdmissionCheckState(name="check", retry_count=2)
    with_condition = unit_of(pod_set(), conditions=[reserved], lastAllocateTime="T0")
    assert attempt_of(with_condition, state) == "T1/2"
    assert attempt_of(unit_of(pod_set(), lastAllocateTime="T0"), AdmissionCheckState()) == "T0/0"
    assert attempt_of(unit_of(pod_set()), AdmissionCheckState()) == "/0"


def test_the_objects_name_each_other() -> None:
    body = queue_unit_body("unit", podSet=[pod_set("main", 2)])
    unit = msgspec.convert(body, QueueUnit)
    (template,) = template_bodies(unit, PLAN, read_demand(body))
    request = request_body(unit, PLAN, "autoscaling.x-k8s.io/v1")
    (asked,) = request["spec"]["podSets"]
    assert asked == {"count": 2, "podTemplateRef": {"name": template["metadata"]["name"]}}
    assert "parameters" not in request["spec"]
    for made in (template, request):
        assert made["metadata"]["labels"] == {"koord-queue/check-controller": "a.b.c"}
        marks = made["metadata"]["annotations"]
        assert marks["koord-queue/related-queueunit"] == "default/unit"
        assert marks["koord-queue/admission-check"] == "check"


def test_labels_of_controllers_are_bounded() -> None:
    assert controller_label("koord-queue.sh/provisioning-request") == (
        "koord-queue.sh.provisioning-request"
    )
    long = [controller_label(f"{'a' * 80}.b/{end}") for end in ("c", "d")]
    assert len(set(long)) == 2
    assert all(len(each) <= 63 for each in long)
