"""Of several quotas one counts; what a queue has from it is tested with those who read that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_scheduler.queueing.managed_queues import (
    PolicyStatement,
    differences,
    oldest,
    policy_differences,
    stated_annotations,
)
from queue_scheduler.unit_writes.applied_patches import merged
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import FairShare, Queue
from shared_api.testing.object_builders import elastic_quota, queue


def made(namespace: str, second: int) -> ElasticQuota:
    stamp = {"creationTimestamp": f"2026-11-01T10:00:{second:02}Z"}
    return elastic_quota("team", namespace=namespace, metadata=stamp)


def test_of_two_quotas_of_one_name_the_oldest_counts() -> None:
    assert oldest([]) is None
    assert oldest([made("b", 9), made("c", 3), made("a", 9)]) == made("c", 3)
    assert oldest([made("b", 3), made("a", 3)]) == made("a", 3)


@pytest.mark.parametrize("prefix", ["koord-queue/", "kube-queue/"])
def test_run_times_of_a_quota_are_not_copied_to_its_queue(prefix: str) -> None:
    """Quotas and queues inherit them, so a copy would count twice."""
    said = {
        f"{prefix}reclaim-min-runtime": "10m",
        f"{prefix}preempt-min-runtime": "10m",
        f"{prefix}eviction-delay": "5m",
    }
    quota = elastic_quota("team", metadata={"annotations": said})
    assert stated_annotations(quota) == {
        "koord-queue/eviction-delay": "5m",
        "koord-queue/copied-annotations": "koord-queue/eviction-delay",
    }
    own = queue("team", metadata={"annotations": {"koord-queue/preempt-min-runtime": "1h"}})
    patch = differences(quota, own)["metadata"]["annotations"]
    assert "koord-queue/preempt-min-runtime" not in patch, "what is set on the queue stays"


# --- what a policy states -------------------------------------------------------------------------

FROM = "koord-queue/fair-share-from"
STATED = PolicyStatement("p", FairShare(levels=("namespace",), resource_weights={"cpu": 2}))


def of_policy(name: str | None, **fair_share: Any) -> Queue:
    annotations = {} if name is None else {FROM: name}
    spec: dict[str, Any] = {"fairShare": fair_share} if fair_share else {}
    return queue("team", metadata={"annotations": annotations}, **spec)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(of_policy(None), id="it has none"),
        pytest.param(of_policy(None, halfLife="1h"), id="users have set another"),
        pytest.param(of_policy("old", levels=["namespace"]), id="it has that of another policy"),
        pytest.param(
            of_policy("p", halfLife="1h", resourceWeights={"cpu": 2, "memory": 1}),
            id="it was edited by hand",
        ),
    ],
)
def test_a_queue_gets_exactly_what_its_policy_states(before: Queue) -> None:
    patch = policy_differences(STATED, before)
    after = msgspec.convert(merged(msgspec.to_builtins(before), patch), Queue)
    assert after.spec.fair_share == STATED.fair_share
    assert after.metadata.annotations == {FROM: "p"}
    assert policy_differences(STATED, after) == {}
    gone = policy_differences(None, after)
    left = msgspec.convert(merged(msgspec.to_builtins(after), gone), Queue)
    assert (left.spec.fair_share, left.metadata.annotations) == (None, {})


def test_what_no_policy_states_is_left_to_users() -> None:
    assert policy_differences(None, of_policy(None, halfLife="1h")) == {}
    assert policy_differences(None, of_policy(None)) == {}
