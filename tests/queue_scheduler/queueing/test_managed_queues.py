"""Which quota a queue follows; what it has from it is tested with those who read that."""

from __future__ import annotations

import pytest

from queue_scheduler.queueing.managed_queues import find_source, oldest
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import elastic_quota, queue
from shared_api.well_known_labels import CREATED_BY_KOORD_QUEUE, QUOTA_FULLNAME

MANAGED = {"labels": {CREATED_BY_KOORD_QUEUE: "true"}}


def made(namespace: str, second: int, name: str = "team") -> ElasticQuota:
    stamp = {"creationTimestamp": f"2026-11-01T10:00:{second:02}Z"}
    return elastic_quota(name, namespace=namespace, metadata=stamp)


def test_of_two_quotas_of_one_name_the_oldest_counts() -> None:
    assert oldest([]) is None
    assert oldest([made("b", 9), made("c", 3), made("a", 9)]) == made("c", 3)
    assert oldest([made("b", 3), made("a", 3)]) == made("a", 3)


def test_a_managed_queue_follows_the_oldest_quota_of_its_name() -> None:
    quotas = [made("a", 1, "other"), made("b", 9), made("c", 3)]
    assert find_source(queue("team", metadata=MANAGED), quotas) == made("c", 3)
    assert find_source(queue("alone", metadata=MANAGED), quotas) is None


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        pytest.param("team", {}, id="made by a user"),
        pytest.param(
            "team", {**MANAGED, "annotations": {QUOTA_FULLNAME: "root/team"}}, id="of a node"
        ),
        pytest.param("default", MANAGED, id="the default queue"),
        pytest.param("koordinator-root-quota", MANAGED, id="of a special quota"),
    ],
)
def test_another_queue_follows_none(name: str, metadata: dict[str, dict[str, str]]) -> None:
    assert find_source(queue(name, metadata=metadata), [made("a", 1, name)]) is None
