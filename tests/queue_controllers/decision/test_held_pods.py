"""Which held pods the grant of their unit covers, and what is said about the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.held_pods import SortedPods, describe_beyond, sort_held
from queue_controllers.decision.job_state import count_gated
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.queue_unit import QueueUnit
from tests.queue_controllers.pod_kit import build_pod

ONE_CPU = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def name_of(pod: object) -> str:
    assert isinstance(pod, ScheduledPod)
    return pod.metadata.name.partition("-")[0]


def unit_of(
    *granted: tuple[str, int, dict[str, str]], given_back: int = 0, spec: dict[str, Any] = ONE_CPU
) -> QueueUnit:
    """Return an admitted unit; `granted`: name, pods and recorded resources of each set."""
    sets = [{"name": name, "count": 9, "template": {"spec": spec}} for name in ("a", "b")]
    shares = [
        {"name": name, "replicas": count, "resources": amounts} for name, count, amounts in granted
    ]
    status: dict[str, Any] = {"admissions": shares}
    if given_back:
        status["reclaimablePods"] = [{"name": "a", "count": given_back}]
    meta = {"name": "unit", "namespace": "team"}
    return msgspec.convert(
        {"metadata": meta, "spec": {"podSet": sets}, "status": status}, QueueUnit
    )


def sort(unit: QueueUnit, *pods: ScheduledPod) -> SortedPods:
    return sort_held(unit, count_gated(pods, name_of))


def started(found: SortedPods) -> list[str]:
    return [str(uid).removeprefix("uid-") for uid in found.may_start]


def waiting(found: SortedPods) -> list[str]:
    return [each.pod.name for each in found.beyond]


HELD = build_pod("a-held")
SECOND = build_pod("a-second")
RUNS = build_pod("a-runs", gated=False, phase="Running")
GOING = build_pod("b-going", gated=False, phase="Running", deleted=True)
TWO = ("a", 2, {"cpu": "2"})


@pytest.mark.parametrize(
    ("granted", "pods", "want"),
    [
        pytest.param([("a", 5, {"cpu": "5"})], [HELD, SECOND], ["a-held", "a-second"], id="all"),
        pytest.param([TWO], [HELD, SECOND, RUNS], ["a-held"], id="one place is taken"),
        pytest.param([("a", 1, {"cpu": "1"})], [HELD, RUNS], [], id="no place is left"),
        pytest.param([("b", 1, {"cpu": "1"})], [build_pod("b-held"), GOING], [], id="one goes yet"),
        pytest.param([TWO], [build_pod("b-held")], [], id="a set without an admission"),
        pytest.param([], [HELD], ["a-held"], id="a unit that lists no admissions"),
        pytest.param([TWO], [build_pod("a-small", cpu="500m")], ["a-small"], id="a smaller pod"),
        pytest.param([TWO], [build_pod("a-same", cpu="1000m")], ["a-same"], id="in another unit"),
        pytest.param([TWO], [build_pod("a-more", cpu="1001m")], [], id="larger by a milli"),
        pytest.param(
            [("a", 1, {"cpu": "1"})],
            [build_pod("a-large", cpu="3"), HELD, SECOND],
            ["a-held"],
            id="a larger pod takes no place from those behind it",
        ),
        pytest.param(
            [TWO],
            [build_pod("a-half", cpu="500m", gated=False), build_pod("a-rest", cpu="1500m")],
            [],
            id="what a smaller pod leaves goes to no larger one",
        ),
        pytest.param([("a", 2, {})], [HELD], ["a-held"], id="without record the spec counts"),
        pytest.param([("a", 2, {"cpu": "x"})], [HELD], ["a-held"], id="nor if unreadable"),
        pytest.param([("a", 2, {})], [build_pod("a-large", cpu="3")], [], id="and no more than it"),
        pytest.param(
            [("koord-queue/default-requirement", 1, {"cpu": "9"})], [HELD], [], id="a sum for all"
        ),
    ],
)  # fmt: skip
def test_which_pods_may_start(
    granted: list[Any], pods: list[ScheduledPod], want: list[str]
) -> None:
    got = sort(unit_of(*granted), *pods)
    assert started(got) == want
    assert sorted(started(got) + waiting(got)) == sorted(
        each.metadata.name for each in pods if each.spec.scheduling_gates
    )


def test_what_was_given_back_is_not_granted_any_more() -> None:
    assert started(sort(unit_of(TWO, given_back=1), HELD, SECOND)) == ["a-held"]
    assert started(sort(unit_of(TWO, given_back=1), HELD, RUNS)) == []


def test_a_resource_that_the_grant_does_not_name() -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    gpu = build_pod("a-gpu", containers=[container])
    assert waiting(sort(unit_of(TWO), gpu)) == ["a-gpu"]
    assert started(sort(unit_of(("a", 2, {"nvidia.com/gpu": "2"})), gpu)) == ["a-gpu"]


def test_overhead_counts_as_the_containers_do() -> None:
    pod = build_pod("a-kata", overhead={"cpu": "250m"})
    assert waiting(sort(unit_of(TWO), pod)) == ["a-kata"]
    assert started(sort(unit_of(("a", 2, {"cpu": "2500m"})), pod)) == ["a-kata"]


def test_the_spec_does_not_count_beside_what_was_recorded() -> None:
    """The spec follows the demand, and some users may edit it."""
    larger = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
    found = sort(unit_of(TWO, spec=larger), build_pod("a-large", cpu="3"), HELD)
    assert (started(found), waiting(found)) == (["a-held"], ["a-large"])


def test_a_set_with_too_few_that_started_and_one_with_too_many() -> None:
    """[ctl-61] Of `a` one more may start. Upstream sets the gate of the second of `b` again.

    The API server forbids that: the pod starts and is charged, and no more of `b` start.
    """
    first, second = build_pod("a-1", gated=False), build_pod("a-2")
    others = [build_pod(f"b-{number}", gated=False) for number in (3, 4)]
    granted = unit_of(TWO, ("b", 1, {"cpu": "1"}))
    assert started(sort(granted, first, second, *others, build_pod("b-5"))) == ["a-2"]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [build_pod("a-big", cpu="3")],
            "Pod a-big waits at its gate: it asks for more than was granted for each pod of set a:"
            " cpu 3 instead of 1 (2 more)",
            id="larger",
        ),
        pytest.param(
            [HELD, SECOND, build_pod("a-third")],
            "Pod a-third waits at its gate: 2 pods of set a were granted, and it is one more",
            id="one more",
        ),
        pytest.param(
            [build_pod("b-1"), build_pod("a-big", cpu="1500m"), build_pod("b-2")],
            "Pod b-1 waits at its gate, and so do 2 more: it asks for more than was granted for"
            " pods of its shape: cpu 1 instead of 0 (1 more)",
            id="several",
        ),
    ],
)
def test_what_is_said(pods: list[ScheduledPod], want: str) -> None:
    unit = unit_of(TWO)
    got = describe_beyond(unit, sort(unit, *pods).beyond)
    assert got.startswith(f"{want}. Delete it")
    assert "koord-queue requeue unit --namespace team" in got


def test_amounts_are_told_in_units_that_people_read() -> None:
    unit = unit_of(("a", 2, {"cpu": "2", "memory": "2G"}))
    requests = {"cpu": "1", "memory": "222016770993"}
    held = build_pod("a-big", containers=[{"name": "c", "resources": {"requests": requests}}])
    got = describe_beyond(unit, sort(unit, held).beyond)
    assert "set a: memory 206.8Gi instead of 0.93Gi (205.8Gi more). Delete it" in got
