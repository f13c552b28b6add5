"""Metrics of programs and of the API server, read from the text that they serve to Prometheus."""

from __future__ import annotations

import re
from typing import Final

import httpx

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QueueWorld

_SAMPLE: Final = re.compile(r"^(\w+)\{(.*)\} (\S+)$")


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Return labels and value of every series of a metric."""
    found = [_SAMPLE.match(line) for line in text.splitlines() if line.startswith(f"{name}{{")]
    return [
        (dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3]))
        for match in found
        if match is not None
    ]


def scrape(process: ProgramProcess, token: str = "") -> httpx.Response:
    """Read a program's metrics with this token ("" for none)."""
    return process.ask("/metrics", "--metrics-address", token=token)


def forbidden_by_the_server(world: QueueWorld) -> float:
    """Return how many requests of any user the API server's authorizers did not allow."""
    counted = samples(world.api.request("GET", "/metrics"), "authorization_attempts_total")
    assert any(labels["result"] == "allowed" for labels, _ in counted), "it counts no longer"
    return sum(value for labels, value in counted if labels["result"] != "allowed")


def counted(process: ProgramProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels; reading them needs no token."""
    text = scrape(process).raise_for_status().text
    return sum(value for found, value in samples(text, name) if labels.items() <= found.items())
