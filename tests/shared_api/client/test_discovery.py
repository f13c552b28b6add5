"""Kinds that are served, kinds that are not, and a server that does not answer."""

from __future__ import annotations

import random

import pytest

from shared_api.client.discovery import ServedKind, is_served, served_kinds, served_version
from shared_api.client.errors import ApiFailure, Forbidden, MalformedAnswer, ServerError
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS
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


def test_a_served_kind() -> None:
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


def test_an_unknown_group_is_not_a_failure() -> None:
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
def test_a_server_that_does_not_answer_is_a_failure(given: Answer, want: type[ApiFailure]) -> None:
    client, _ = client_of(given)
    with pytest.raises(want):
        served_kinds(client, "ray.io", "v1")


class Body:
    """Answers with one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def get_raw(self, path: str) -> bytes:
        del path
        return self._body


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"resources": [{"name": "\xff"}]}', b'{"a":' + b"[" * 100_000]
)
def test_whatever_is_no_list_of_kinds_is_a_failure(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        served_kinds(Body(body), "ray.io", "v1")


CHECKS = {
    "kind": "APIResourceList",
    "resources": [{"name": "admissionchecks", "kind": "AdmissionCheck", "namespaced": False}],
}


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        ([answer(200, CHECKS)], "v1beta2"),
        ([refusal(404, "NotFound"), answer(200, CHECKS)], "v1beta1"),
        ([answer(200, JOBS), answer(200, CHECKS)], "v1beta1"),
        ([refusal(404, "NotFound"), refusal(404, "NotFound")], None),
    ],
    ids=["the newest", "an older one", "its group without it", "none"],
)
def test_the_best_served_version(answers: list[Answer], want: str | None) -> None:
    transport, clock = ScriptedTransport(*answers), VirtualClock()
    flow = FlowControl(0, 0, clock)
    client = ResourceClient(transport, flow=flow, clock=clock, rng=random.Random(1))
    got = served_version(client, ADMISSION_CHECK_VERSIONS)
    assert (None if got is None else got.version) == want


def test_the_served_version_may_be_unknown() -> None:
    client, _ = client_of(refusal(403))
    with pytest.raises(Forbidden):
        served_version(client, ADMISSION_CHECK_VERSIONS)
