"""The writes that the API server has processed, from its metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from shared_api.client.resource_client import ResourceClient

METRIC: Final = "apiserver_request_total{"
LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})

Writes = Counter[str]
"""Counts by keys such as "PATCH queueunits/status" or "POST events.events.k8s.io"."""


def count_writes(client: ResourceClient) -> Writes:
    """Return the writes since the server's start; refused ones have their code, "... 409"."""
    counted: Writes = Counter()
    for line in client.get_raw("/metrics").decode().splitlines():
        if line.startswith(METRIC):
            labels = dict(LABEL.findall(line))
            if labels["verb"] in WRITES:
                counted[_name(labels)] += round(float(line.rpartition(" ")[2]))
    return counted


def _name(labels: Mapping[str, str]) -> str:
    resource = labels["resource"]
    if resource == "events" and labels["group"]:
        resource += f".{labels['group']}"
    if labels["subresource"]:
        resource += f"/{labels['subresource']}"
    refused = "" if labels["code"].startswith("2") else f" {labels['code']}"
    return f"{labels['verb']} {resource}{refused}"


def describe(writes: Writes, units: int) -> str:
    """Return the number of writes per unit by kind, most frequent first."""
    return ", ".join(
        f"{name} {count / units:.3f}" for name, count in writes.most_common() if count > 0
    )
