"""Admission fair sharing between LocalQueues becomes a QuotaPolicy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.importing.kueue_fair_shares import plan_fair_shares
from koord_queue.importing.kueue_objects import read_objects
from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, read_fair_share
from shared_api.objects.quota_policy import QuotaPolicy
from tests.koord_queue.importing.kueue_bodies import cluster_queue, local_queue

FAIR: dict[str, Any] = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def weights(*local: tuple[str, str, str | None]) -> Any:
    """Return the weights that LocalQueues (namespace, name, weight) give their namespaces."""
    queues = [
        local_queue(where, name, "team", **({"fairSharing": {"weight": weight}} if weight else {}))
        for where, name, weight in local
    ]
    plan = plan_fair_shares(read_objects([cluster_queue("team", **FAIR), *queues]), "kq", ["team"])
    (body,) = plan.objects
    policy = msgspec.convert(body, QuotaPolicy)
    assert policy.spec.queue is not None
    _, problem = read_fair_share(policy.spec.queue.fair_share, DEFAULT_FAIR)
    assert problem is None
    share = body["spec"]["queue"]["fairShare"]
    assert share["levels"] == ["namespace"]
    return {name: each["weight"] for each in share["weights"] for name in each["namespaces"]}


@pytest.mark.parametrize(
    ("local", "want"),
    [
        pytest.param([("a", "lq", None), ("b", "lq", None)], {}, id="none: all are equal"),
        pytest.param([("a", "lq", "3"), ("b", "lq", None)], {"a": 3}, id="one has more"),
        pytest.param([("a", "lq", "1.5"), ("b", "lq", None)], {"a": 3, "b": 2}, id="a fraction"),
        pytest.param([("a", "lq", "0"), ("b", "lq", None)], {"a": 0}, id="0 stays 0"),
        pytest.param(
            [("a", "one", "1"), ("a", "two", "1"), ("b", "lq", None)],
            {"a": 2},
            id="two LocalQueues of a namespace have the sum",
        ),
        pytest.param(
            [("a", "lq", "1G"), ("b", "lq", "1m")], {"a": 1_000_000}, id="beyond the limit"
        ),
        pytest.param([], {}, id="no LocalQueues"),
    ],
)
def test_weights_are_small_whole_numbers(
    local: list[tuple[str, str, str | None]], want: dict[str, int]
) -> None:
    assert weights(*local) == want


@pytest.mark.parametrize(
    ("scope", "quotas"),
    [
        pytest.param({}, ["team"], id="no fair sharing"),
        pytest.param(
            {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}, ["team"], id="off"
        ),
        pytest.param(FAIR, [], id="it becomes no quota"),
    ],
)
def test_nothing_is_made_without_need(scope: dict[str, Any], quotas: list[str]) -> None:
    plan = plan_fair_shares(read_objects([cluster_queue("team", **scope)]), "kq", quotas)
    assert plan.objects == ()


def test_at_most_64_entries_are_written_and_the_rest_is_named() -> None:
    queues = [
        local_queue(f"n{number}", "lq", "team", fairSharing={"weight": str(number + 2)})
        for number in range(65)
    ]
    objects = read_objects([cluster_queue("team", **FAIR), *queues])
    plan = plan_fair_shares(objects, "kq", ["team"])
    assert len(plan.objects[0]["spec"]["queue"]["fairShare"]["weights"]) == 64
    assert [each.field for each in plan.lost] == ["spec.admissionScope"]
