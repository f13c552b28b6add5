"""Arguments of the plugin ElasticQuota."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.plugins.elastic_quota_tree_arguments import read_tree_arguments


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({}, False),
        ({"checkQuotaOversold": True}, True),
        ({"checkHungryQuota": True}, True),
        ({"checkQuotaOversold": False}, False),
        ({"checkQuotaOversold": True, "checkHungryQuota": True}, True),
    ],
)
def test_hungry_quotas_are_checked_under_both_names(arguments: dict[str, Any], want: bool) -> None:
    assert read_tree_arguments(arguments).checks_hungry is want


def test_an_invalid_value_names_its_key() -> None:
    with pytest.raises(ValueError, match=r"pluginConfigs.ElasticQuota: .*checkQuotaOversold"):
        read_tree_arguments({"checkQuotaOversold": "often"})


def test_required_resources_have_the_names_that_pods_use() -> None:
    given = {"requiredRequests": ["cpu", "koordinator.sh/batch-cpu"]}
    want = frozenset({"cpu", "kubernetes.io/batch-cpu"})
    assert read_tree_arguments(given).required_requests == want


def test_a_resource_that_no_pod_requests_is_named() -> None:
    with pytest.raises(ValueError, match=r"pluginConfigs.ElasticQuota: requiredRequests: 'pods'"):
        read_tree_arguments({"requiredRequests": ["pods"]})
