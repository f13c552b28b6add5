"""From a unit to amounts, and what of it was granted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.unit_demand import (
    InvalidDemandError,
    build_demand,
    build_grants,
    granted_by,
)
from queue_scheduler.decision import Grant
from shared_api.objects.pod import Container, PodSpec, PodTemplate, ResourceRequirements
from shared_api.objects.queue_unit import (
    DEFAULT_REQUIREMENT,
    Admission,
    PodSet,
    QueueUnit,
    QueueUnitSpec,
    ReclaimablePod,
    SalvagedUnit,
)
from shared_api.resource_list import Amounts
from tests.properties.engine_kit import build_unit, changed

PODS = build_unit("u", pods=(("main", 2, 3), ("worker", 4, 1)))
TOTAL = build_unit("u", cpu="1500m")


def unit_of(**spec: Any) -> QueueUnit:
    return replace(PODS, spec=QueueUnitSpec(**spec))


def test_an_unreadable_demand_says_where_it_is_broken() -> None:
    with pytest.raises(InvalidDemandError, match=r"odd - at \$\.spec"):
        build_demand(SalvagedUnit(unreadable="odd - at $.spec"))


def pod_set(name: str = "main", count: int = 1, **requests: Any) -> PodSet:
    container = Container(resources=ResourceRequirements(requests=requests))
    return PodSet(
        name=name, count=count, template=PodTemplate(spec=PodSpec(containers=(container,)))
    )


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(PODS, {"cpu": 10_000}, id="pod sets, added up"),
        pytest.param(TOTAL, {"cpu": 1500}, id="a total"),
        pytest.param(unit_of(resource={"memory": "1Ki"}), {"memory": 1024}, id="the old total"),
        pytest.param(
            unit_of(pod_set=(pod_set(cpu="1"),), request={"cpu": "9"}, resource={"cpu": "8"}),
            {"cpu": 1000},
            id="pod sets come first",
        ),
        pytest.param(
            unit_of(request={"kubernetes.io/gpu": 1, "koordinator.sh/batch-cpu": 2}),
            {"koordinator.sh/gpu": 1, "kubernetes.io/batch-cpu": 2},
            id="a total by deprecated names",
        ),
        pytest.param(
            unit_of(request={"cpu": "2"}, resource={"cpu": "8"}), {"cpu": 2000}, id="then request"
        ),
        pytest.param(unit_of(pod_set=(pod_set(count=0, cpu=1),)), {"cpu": 0}, id="no pods"),
    ],
)
def test_the_demand_of_a_unit(unit: QueueUnit, want: Amounts) -> None:
    assert build_demand(unit).total == want


def test_pod_sets_are_kept_apart() -> None:
    got = [(each.name, each.count, each.per_pod) for each in build_demand(PODS).pod_sets]
    assert got == [("main", 2, {"cpu": 3000}), ("worker", 4, {"cpu": 1000})]


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(unit_of(), "no demand", id="nothing"),
        pytest.param(unit_of(request={"cpu": "-1"}), "spec.request: cpu", id="negative"),
        pytest.param(unit_of(resource={"cpu": "x"}), "spec.resource: cpu", id="not a quantity"),
        pytest.param(
            unit_of(pod_set=(pod_set(), pod_set(cpu="1x"))),
            r"spec.podSet\[1\].template: containers\[0\]",
            id="a pod's request",
        ),
        pytest.param(
            unit_of(pod_set=(pod_set(cpu="-1"),)),
            r"spec.podSet\[0\].template.*negative",
            id="a pod's negative request",
        ),
        pytest.param(
            unit_of(pod_set=(pod_set(count=-1, cpu=1),)),
            r"spec.podSet\[0\].count: -1 is negative",
            id="a negative count",
        ),
        pytest.param(
            unit_of(pod_set=tuple(pod_set(f"s{n}") for n in range(33))),
            "33 entries, at most 32",
            id="too many pod sets",
        ),
    ],
)
def test_an_unreadable_demand(unit: QueueUnit, want: str) -> None:
    with pytest.raises(InvalidDemandError, match=want):
        build_demand(unit)


def test_the_whole_demand_is_granted() -> None:
    assert build_grants(build_demand(PODS)) == (
        Grant("main", 2, {"cpu": 6000}),
        Grant("worker", 4, {"cpu": 4000}),
    )
    assert build_grants(build_demand(TOTAL)) == (Grant(DEFAULT_REQUIREMENT, 1, {"cpu": 1500}),)


WHOLE = (Admission(name="main", replicas=2), Admission(name="worker", replicas=4))


@pytest.mark.parametrize(
    ("unit", "status", "want"),
    [
        pytest.param(PODS, {}, 10_000, id="no admissions, as old versions left it"),
        pytest.param(
            PODS,
            {"reclaimable_pods": (ReclaimablePod(name="worker", count=3),)},
            7_000,
            id="no admissions, as an adopted unit has none: less what was given back",
        ),
        pytest.param(
            TOTAL,
            {"reclaimable_pods": (ReclaimablePod(name="worker", count=3),)},
            1500,
            id="no admissions and no pods: the total",
        ),
        pytest.param(PODS, {"admissions": WHOLE}, 10_000, id="everything"),
        pytest.param(PODS, {"admissions": WHOLE[:1]}, 6_000, id="one pod set"),
        pytest.param(
            PODS, {"admissions": (Admission(name="worker", replicas=9),)}, 9_000, id="more pods"
        ),
        pytest.param(
            PODS,
            {"admissions": WHOLE, "reclaimable_pods": (ReclaimablePod(name="worker", count=3),)},
            7_000,
            id="less what was given back",
        ),
        pytest.param(
            PODS,
            {"admissions": WHOLE, "reclaimable_pods": (ReclaimablePod(name="worker", count=9),)},
            6_000,
            id="no more than all is given back",
        ),
        pytest.param(
            PODS,
            {"admissions": WHOLE, "reclaimable_pods": (ReclaimablePod(name="worker", count=-9),)},
            10_000,
            id="less than nothing is not given back",
        ),
        pytest.param(
            TOTAL,
            {"admissions": (Admission(name=DEFAULT_REQUIREMENT, replicas=1),)},
            1500,
            id="the whole of a total",
        ),
        pytest.param(
            PODS,
            {"admissions": (*WHOLE, Admission(name="gone", replicas=7, resources={"cpu": "2"}))},
            12_000,
            id="a deleted pod set: what was recorded",
        ),
        pytest.param(
            PODS,
            {"admissions": (Admission(name="main", replicas=2, resources={"cpu": "5"}),)},
            5_000,
            id="what was recorded, whatever the spec says",
        ),
        pytest.param(
            PODS,
            {
                "admissions": (Admission(name="main", replicas=3, resources={"cpu": "1"}),),
                "reclaimable_pods": (ReclaimablePod(name="main", count=1),),
            },
            667,
            id="less what was given back of a record, rounded up",
        ),
        pytest.param(
            PODS,
            {
                "admissions": (*WHOLE, Admission(name="gone", replicas=2, resources={"cpu": "1"})),
                "reclaimable_pods": (ReclaimablePod(name="gone", count=2),),
            },
            10_000,
            id="a record of which all is given back",
        ),
        pytest.param(
            PODS,
            {"admissions": (*WHOLE, Admission(name="gone", resources={"cpu": "1"}))},
            10_000,
            id="a record of no pods",
        ),
        pytest.param(
            PODS,
            {"admissions": (*WHOLE, Admission(name="gone", resources={"cpu": "x"}))},
            10_000,
            id="a record that cannot be read",
        ),
        pytest.param(
            PODS,
            {"admissions": (*WHOLE, Admission(name="gone", resources={"cpu": "-2"}))},
            10_000,
            id="a negative record frees nothing",
        ),
    ],
)
def test_the_granted_amount(unit: QueueUnit, status: dict[str, Any], want: int) -> None:
    got = granted_by(changed(unit, 2, "Running", **status), build_demand(unit))
    assert got.occupancy.amounts == {"cpu": want}


@pytest.mark.parametrize(
    ("unit", "status", "want"),
    [
        pytest.param(PODS, {}, 6, id="no admissions: what it asks for"),
        pytest.param(TOTAL, {}, 1, id="only a total"),
        pytest.param(
            TOTAL,
            {"admissions": (Admission(name=DEFAULT_REQUIREMENT, replicas=1),)},
            1,
            id="its one",
        ),
        pytest.param(PODS, {"admissions": WHOLE[:1]}, 2, id="fewer than it asks for"),
        pytest.param(
            PODS,
            {"admissions": WHOLE, "reclaimable_pods": (ReclaimablePod(name="worker", count=3),)},
            3,
            id="less what was given back",
        ),
        pytest.param(
            PODS,
            {"reclaimable_pods": (ReclaimablePod(name="worker", count=9),)},
            2,
            id="more given back than there were",
        ),
        pytest.param(
            PODS,
            {"admissions": (Admission(name="gone", replicas=3, resources={"cpu": "1"}),)},
            3,
            id="of a deleted pod set",
        ),
    ],
)
def test_how_many_pods_were_granted(unit: QueueUnit, status: dict[str, Any], want: int) -> None:
    got = granted_by(changed(unit, 2, "Running", **status), build_demand(unit))
    assert got.occupancy.pods == want


def test_a_record_of_an_older_version_is_charged_by_its_current_name() -> None:
    admission = Admission(name="main", replicas=2, resources={"koordinator.sh/batch-cpu": "5"})
    unit = changed(PODS, 2, "Running", admissions=(admission,))
    assert granted_by(unit, build_demand(unit)).occupancy.amounts == {"kubernetes.io/batch-cpu": 5}
