"""The charged amounts of a pod are those of Kubernetes' own function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared_api.objects.pod import PodSpec
from shared_api.pod_requests import has_equal_requests, pod_requests
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "pod_requests_of_go.json").read_text(encoding="utf-8")
)["pods"]


def requests_of(spec: dict[str, Any]) -> Amounts:
    return pod_requests(msgspec.convert(spec, PodSpec))


def container(limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    return asking(requests, limits)


def asking(requests: dict[str, Any], limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits or {}}}


def sidecar(**requests: Any) -> dict[str, Any]:
    return {**container(**requests), "restartPolicy": "Always"}


@pytest.mark.parametrize("pod", RECORDED, ids=range(len(RECORDED)))
def test_agrees_with_kubernetes(pod: dict[str, Any]) -> None:
    assert requests_of(pod["spec"]) == pod["requests"]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="no containers, no requests"),
        pytest.param(
            {"containers": [container(cpu="500m"), container(cpu=1, memory="1Ki")]},
            {"cpu": 1500, "memory": 1024},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container(cpu="0.1m"), container(cpu="0.2m")]},
            {"cpu": 1},
            id="rounded once per pod, not per container",
        ),
        pytest.param(
            {"containers": [container({"cpu": "2", "memory": "1Gi"}, cpu="1")]},
            {"cpu": 1000, "memory": 2**30},
            id="a limit is the request of a resource that has none",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "initContainers": [container(cpu=3)]},
            {"cpu": 3000},
            id="an init container runs alone",
        ),
        pytest.param(
            {"containers": [container(cpu=2)], "initContainers": [container(cpu=1)] * 3},
            {"cpu": 2000},
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "initContainers": [sidecar(cpu=2)]},
            {"cpu": 3000},
            id="a sidecar runs in parallel to the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu=1)],
                "initContainers": [sidecar(cpu=2), container(cpu=5)],
            },
            {"cpu": 7000},
            id="a sidecar runs in parallel to the init containers after it",
        ),
        pytest.param(
            {
                "containers": [container(cpu=1)],
                "initContainers": [container(cpu=5), sidecar(cpu=2)],
            },
            {"cpu": 5000},
            id="but not to those before it",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": 1250, "memory": 2**20},
            id="overhead is added",
        ),
        pytest.param(
            {
                "containers": [container(cpu=1, memory="1Gi", gpu=1)],
                "resources": {"requests": {"cpu": 4}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 5000, "memory": 2**30, "gpu": 1},
            id="a pod-level request replaces the sum of its resource only",
        ),
        pytest.param(
            {"containers": [container(cpu=1)], "resources": {"limits": {"cpu": 4, "memory": 8}}},
            {"cpu": 1000, "memory": 8},
            id="a pod-level limit counts if no container has a request",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 4}}},
            {"cpu": 1000},
            id="a pod-level limit does not count in addition to a request",
        ),
        pytest.param(
            {
                "containers": [container(gpu=1)],
                "resources": {"requests": {"gpu": 4}, "limits": {"fpga": 2}},
            },
            {"gpu": 1},
            id="only cpu, memory and huge pages exist at pod level",
        ),
        pytest.param(
            {
                "containers": [
                    asking({"kubernetes.io/gpu-core": 60}),
                    asking({"koordinator.sh/gpu-core": 40}),
                ],
                "overhead": {"koordinator.sh/batch-cpu": 5},
            },
            {"koordinator.sh/gpu-core": 100, "kubernetes.io/batch-cpu": 5},
            id="deprecated names are replaced in containers and overhead, before they add up",
        ),
        pytest.param(
            {
                "containers": [container(cpu=1)],
                "initContainers": [asking({"kubernetes.io/rdma": 3})],
            },
            {"cpu": 1000, "koordinator.sh/rdma": 3},
            id="and in init containers",
        ),
        pytest.param(
            {"containers": [container({"kubernetes.io/gpu-core": 60})]},
            {"koordinator.sh/gpu-core": 60},
            id="and in limits that stand for requests",
        ),
        pytest.param(
            {
                "containers": [
                    asking({"kubernetes.io/gpu-core": 60, "koordinator.sh/gpu-core": 40}),
                    asking({"kubernetes.io/gpu-core": 1}),
                ]
            },
            {"kubernetes.io/gpu-core": 60, "koordinator.sh/gpu-core": 41},
            id="but not in a container that has the new name too",
        ),
    ],
)
def test_pod_requests(spec: dict[str, Any], want: Amounts) -> None:
    assert requests_of(spec) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"containers": [container(), container(cpu="x")]},
            r"^containers\[1\].resources.requests.cpu: 'x' is not a quantity",
        ),
        (
            {"initContainers": [container({"cpu": "-1"})]},
            r"^initContainers\[0\].resources.limits.cpu: '-1' is negative",
        ),
        ({"overhead": {"memory": "9e999999999"}}, "^overhead.memory: exponent"),
        ({"resources": {"requests": {"cpu": ""}}}, "^resources.requests.cpu: '' has no digits"),
        ({"resources": {"limits": {"cpu": -1}}}, "^resources.limits.cpu: -1 is negative"),
    ],
)
def test_an_error_has_the_path(spec: dict[str, Any], want: str) -> None:
    with pytest.raises(QuantityError, match=want):
        requests_of(spec)


def test_the_spec_is_not_changed() -> None:
    spec = msgspec.convert(
        {
            "containers": [container({"memory": "1Gi"}, cpu=1)],
            "resources": {"requests": {"cpu": 2}},
            "overhead": {"cpu": 1},
        },
        PodSpec,
    )
    before = msgspec.to_builtins(spec)
    assert pod_requests(spec) == pod_requests(spec)
    assert msgspec.to_builtins(spec) == before


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"priority": 5}, True, id="another field"),
        pytest.param({"containers": [container(cpu=2)]}, False, id="a container"),
        pytest.param({"containers": [container({"cpu": 2}, cpu=1)]}, False, id="a limit"),
        pytest.param(
            {"containers": [container(cpu="1000m")]}, False, id="the same amount in another format"
        ),
        pytest.param({"initContainers": [container(cpu=2)]}, False, id="an init container"),
        pytest.param({"initContainers": [sidecar(cpu=3)]}, False, id="a sidecar"),
        pytest.param({"overhead": {"cpu": "1m"}}, False, id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": 1}}}, False, id="a pod-level request"),
    ],
)
def test_specs_with_equal_requests(change: dict[str, Any], want: bool) -> None:
    spec = {"containers": [container(cpu=1)], "initContainers": [container(cpu=3)]}
    one, other = (msgspec.convert(each, PodSpec) for each in (spec, {**spec, **change}))
    assert has_equal_requests(one, other) is want
    assert has_equal_requests(one, one)
