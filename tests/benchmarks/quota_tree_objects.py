"""The quotas that benchmarks create in an API server, and one node with all the capacity."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import ELASTIC_QUOTAS, NODES, QUEUES
from shared_api.testing.object_builders import elastic_quota_body

PATIENCE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2


def quota(
    name: str, parent: str, *, minimum: int, maximum: int, is_parent: bool = False
) -> dict[str, Any]:
    """Return an ElasticQuota over CPUs."""
    return elastic_quota_body(
        name,
        min={"cpu": str(minimum)},
        max={"cpu": str(maximum)},
        parent=parent,
        is_parent=is_parent,
    )


def create_node(client: ResourceClient, cpu: int) -> None:
    """Create one node with all the capacity; nothing ever runs on it."""
    status: Mapping[str, Any] = {"allocatable": {"cpu": str(cpu), "memory": "1Ti"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "all-of-it"}}
    client.create(NODES, "", node)
    client.patch(NODES, "", "all-of-it", {"status": status}, subresource="status")


def create_quotas(client: ResourceClient, quotas: list[dict[str, Any]]) -> None:
    """Create them in order."""
    for body in quotas:
        client.create(ELASTIC_QUOTAS, "default", body)


def await_queues(client: ResourceClient, count: int) -> None:
    """Return when the scheduler has created this many queues.

    Raises:
        RuntimeError: It does not do so in time.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (made := len(client.list_page(QUEUES, namespace="koord-queue").items)) < count:
        if time.monotonic() > deadline:
            message = f"the scheduler made {made} queues of {count}"
            raise RuntimeError(message)
        time.sleep(POLL_SECONDS)
