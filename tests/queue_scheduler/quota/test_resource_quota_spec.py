"""A ResourceQuota as a quota: what `hard` says about requests and pods."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.quota.resource_quota_spec import governs_all_pods, parse_hard
from shared_api.testing.object_builders import resource_quota


@pytest.mark.parametrize(
    ("hard", "want"),
    [
        pytest.param({"cpu": 4, "memory": "1Gi"}, {"cpu": 4000, "memory": 2**30}, id="bare"),
        pytest.param({"requests.cpu": "2"}, {"cpu": 2000}, id="requests"),
        pytest.param({"cpu": 3, "requests.cpu": 2}, {"cpu": 2000}, id="both: the smaller"),
        pytest.param({"requests.cpu": 3, "cpu": 2}, {"cpu": 2000}, id="both, the other way round"),
        pytest.param({"requests.nvidia.com/gpu": 8}, {"nvidia.com/gpu": 8}, id="extended"),
        pytest.param({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": 4 * 2**20}, id="huge pages"),
        pytest.param({"pods": 5}, {"pods": 5}, id="pods"),
        pytest.param(
            {"requests.koordinator.sh/batch-cpu": 5, "requests.koordinator.sh/gpu-core": 100},
            {"kubernetes.io/batch-cpu": 5, "koordinator.sh/gpu-core": 100},
            id="deprecated names as in demands",
        ),
        pytest.param(
            {"requests.koordinator.sh/batch-cpu": 5, "requests.kubernetes.io/batch-cpu": 4},
            {"kubernetes.io/batch-cpu": 4},
            id="both names: the smaller",
        ),
        pytest.param(
            {"limits.cpu": 1, "count/jobs.batch": 1, "services": 1, "requests.storage": "1Gi"},
            {},
            id="what no pod requests",
        ),
    ],
)
def test_the_limits_that_are_compared(hard: dict[str, int | str], want: dict[str, int]) -> None:
    assert parse_hard(resource_quota("q", hard=hard)).max == want


def test_it_is_identified_by_namespace_and_name() -> None:
    assert parse_hard(resource_quota("q", namespace="team", hard={})).name == "team/q"


def test_an_unreadable_amount_admits_nothing() -> None:
    spec = parse_hard(resource_quota("q", hard={"cpu": 1, "memory": "lots"}))
    assert [(problem.kind, problem.fatal) for problem in spec.problems] == [
        ("UnreadableAmount", True)
    ]
    assert not spec.is_usable


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, True),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopeSelector": {"matchExpressions": []}}, False),
    ],
)
def test_a_quota_with_scopes_is_about_some_pods(spec: dict[str, Any], want: bool) -> None:
    assert governs_all_pods(resource_quota("q", hard={}, **spec)) is want
