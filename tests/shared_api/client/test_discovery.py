"""Absent, present, and could not be asked."""

from __future__ import annotations

import random

import pytest

from shared_api.client.discovery import ServedKind, is_served, served_kinds
from shared_api.client.errors import ApiFailure, Forbidden, MalformedAnswer, ServerError
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.client.scripted_transport import (
    Answer,
    ScriptedTransport,
    answer,
    refusal,
)

JOBS = {
    "kind": "APIResourceList",
    "groupVersion": "batch/v1",
    "resources": [
        {"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["get", "list"]},
        {"name": "jobs/status", "kind": "Job", "namespaced": True, "verbs": ["get"]},
        {"name": "cronjobs", "kind": "CronJob", "namespaced": True, "verbs": ["get"]},
    ],
}


def client_of(given: Answer) -> tuple[ResourceClient, ScriptedTransport]:
    clock, transport = VirtualClock(), ScriptedTransport(given)
    flow = FlowControl(0, 0, clock)
    return ResourceClient(transport, flow=flow, clock=clock, rng=random.Random(1)), transport


def test_what_is_served() -> None:
    client, transport = client_of(answer(200, JOBS))
    assert served_kinds(client, "batch", "v1") == {
        "jobs": ServedKind(
            "Job", "jobs", namespaced=True, verbs=("get", "list"), subresources=("status",)
        ),
        "cronjobs": ServedKind("CronJob", "cronjobs", namespaced=True, verbs=("get",)),
    }
    assert is_served(client, "batch", "v1", "jobs")
    assert not is_served(client, "batch", "v1", "rayjobs")
    assert transport.seen[0].path == "/apis/batch/v1"
    served_kinds(client, "", "v1")
    assert transport.seen[-1].path == "/api/v1"


def test_an_unknown_group_is_an_answer() -> None:
    client, _ = client_of(refusal(404, "NotFound"))
    assert served_kinds(client, "ray.io", "v1") == {}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (refusal(503), ServerError),
        (refusal(403), Forbidden),
        (answer(200, {"resources": 3}), MalformedAnswer),
    ],
)
def test_a_server_that_could_not_be_asked_is_a_failure(
    given: Answer, want: type[ApiFailure]
) -> None:
    client, _ = client_of(given)
    with pytest.raises(want):
        served_kinds(client, "ray.io", "v1")
