"""Of several quotas one counts; what a queue has from it is tested with those who read that."""

from __future__ import annotations

from queue_scheduler.queueing.managed_queues import oldest
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import elastic_quota


def made(namespace: str, second: int) -> ElasticQuota:
    stamp = {"creationTimestamp": f"2026-11-01T10:00:{second:02}Z"}
    return elastic_quota("team", namespace=namespace, metadata=stamp)


def test_of_two_quotas_of_one_name_the_oldest_counts() -> None:
    assert oldest([]) is None
    assert oldest([made("b", 9), made("c", 3), made("a", 9)]) == made("c", 3)
    assert oldest([made("b", 3), made("a", 3)]) == made("a", 3)
