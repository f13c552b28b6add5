"""Tests of shared_api.testing.object_builders: they fit the real CRDs and the structs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing import object_builders as build
from shared_api.testing.virtual_clock import VirtualClock

ROOT = Path(__file__).parents[3]
CRDS = ROOT / "crds"


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    server.direct.create_from(CRDS)
    return server


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(build.queue_unit_body("a", quota="q", queue="x", priority=3), id="unit"),
        pytest.param(
            build.queue_unit_body("a", podSet=[build.pod_set("x", 2, {"cpu": "500m"})]), id="sets"
        ),
        pytest.param(build.queue_body("a", namespace="default", priority=1), id="queue"),
        pytest.param(build.node_body("a"), id="node"),
        pytest.param(build.pod_body("a", phase="Running", nodeName="n"), id="pod"),
        pytest.param(build.job_body("a", parallelism=2), id="job"),
        pytest.param(build.namespace_body("a", labels={"x": "y"}), id="namespace"),
        pytest.param(build.priority_class_body("a", 5), id="priority class"),
    ],
)
def test_servers_accept_them(server: FakeApiServer, body: dict[str, Any]) -> None:
    made = server.direct.create(body)
    assert made["metadata"]["uid"]
    for key, value in body["metadata"].get("labels", {}).items():
        assert made["metadata"]["labels"][key] == value


def test_a_queue_unit_has_the_given_fields() -> None:
    unit = build.queue_unit("a", quota="team", requests={"cpu": "4"}, count=3, priority=7)
    (pods,) = unit.spec.pod_set
    assert (unit.metadata.key, unit.spec.priority, pods.count) == ("default/a", 7, 3)
    assert unit.metadata.labels == {"quota.scheduling.koordinator.sh/name": "team"}
    assert pods.template.spec.containers[0].resources.requests == {"cpu": "4"}


def test_a_quota_names_its_parent() -> None:
    quota = build.elastic_quota("a", max={"cpu": 4}, parent="p", is_parent=True)
    assert quota.spec.max == {"cpu": 4}
    assert quota.metadata.labels == {
        "quota.scheduling.koordinator.sh/parent": "p",
        "quota.scheduling.koordinator.sh/is-parent": "true",
    }


def test_metadata_is_merged_over_the_generated_one() -> None:
    job = build.job("a", quota="q", metadata={"uid": "7", "labels": {"x": "y"}})
    assert job.metadata.uid == "7"
    assert job.metadata.labels == {"quota.scheduling.koordinator.sh/name": "q", "x": "y"}


def test_owners_and_consumers(server: FakeApiServer) -> None:
    job = server.direct.create(build.job_body("a"))
    pod = build.pod("p", metadata=build.owned_by(job))
    assert pod.metadata.controller_owner is not None
    assert pod.metadata.controller_owner.uid == job["metadata"]["uid"]
    unit = build.queue_unit("u", consumerRef=build.consumer_ref(job))
    assert unit.spec.consumer_ref is not None
    assert unit.spec.consumer_ref.uid == job["metadata"]["uid"]


def test_a_status_is_merged() -> None:
    body = build.with_status(build.node_body("a"), phase="x")
    assert body["status"]["phase"] == "x"
    assert build.node("a").status.allocatable["cpu"] == "32"
    assert build.pod("a", phase="Failed").is_living is False


def test_a_body_that_does_not_fit_is_refused_with_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.priority"):
        build.queue_unit("a", priority="high")
