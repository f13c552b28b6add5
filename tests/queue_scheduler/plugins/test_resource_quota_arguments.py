"""Arguments of the plugin ResourceQuota."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.plugins.resource_quota_arguments import read_resource_quota_arguments


def test_which_resources_every_pod_must_request() -> None:
    assert read_resource_quota_arguments({}) == frozenset()
    given = {"requiredRequests": ["cpu", "memory"]}
    assert read_resource_quota_arguments(given) == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param({"requiredRequests": ["pods"]}, "requiredRequests: 'pods'", id="no request"),
        pytest.param({"requiredRequests": "cpu"}, r"\$.requiredRequests", id="not a list"),
        pytest.param({"required": []}, "unknown field `required`", id="unknown"),
    ],
)
def test_an_invalid_argument_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=rf"pluginConfigs.ResourceQuota: .*{says}"):
        read_resource_quota_arguments(given)
