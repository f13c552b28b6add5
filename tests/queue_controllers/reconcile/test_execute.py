"""How decisions become one patch."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import ReleaseJob
from queue_controllers.extensions.job_set import JobSetAdapter
from queue_controllers.extensions.ray_cluster import RayClusterAdapter
from queue_controllers.jobframework.generic_job import GenericJob, PodStamp
from queue_controllers.jobframework.template_updates import TemplateUpdate
from queue_controllers.reconcile.execute import Executor
from shared_api.client.event_recorder import Event
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.field_path import parse_path
from shared_api.leader_election import SoleLeader
from shared_api.objects.meta import Timestamp
from shared_api.testing.virtual_clock import VirtualClock
from tests.sample_jobs import open_crd, sample

NOW = Timestamp("2026-11-01T10:00:00Z")


class Nothing:
    """An event sink and a cache that keep nothing."""

    def record(self, event: Event) -> None:
        """Take an event."""

    def note_written(self, written: object) -> bool:
        """Take an object."""
        return True


def serve(server: FakeApiServer, adapter: GenericJob[Any]) -> None:
    """Have a server serve the kind, with any fields, and the namespace of samples."""
    kind = adapter.kind
    server.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    server.direct.create(open_crd(kind.kind, kind.plural, kind.group, (kind.version,)))


@pytest.mark.parametrize(
    ("adapter", "pod_set", "templates"),
    [
        pytest.param(
            RayClusterAdapter(), "gpu", "spec.workerGroupSpecs[0].template", id="by position"
        ),
        pytest.param(
            JobSetAdapter(), "driver", "spec.replicatedJobs[0].template.spec.template", id="by name"
        ),
    ],
)
def test_annotations_and_updates_of_a_list_are_one_patch(
    adapter: GenericJob[Any], pod_set: str, templates: str
) -> None:
    clock, rng = VirtualClock(), random.Random(1)
    server = FakeApiServer(clock=clock, rng=rng)
    serve(server, adapter)
    body = sample(adapter.kind.key)
    parse_path(templates).read(body)["spec"]["command"] = ["kept"]
    made = server.direct.create(body)
    want = parse_path(templates).read(made)
    client = ResourceClient(server, flow=FlowControl(0, 1, clock), clock=clock, rng=rng)
    executor = Executor(
        adapter, client, SoleLeader("test"), Nothing(), jobs=Nothing(), units=Nothing()
    )
    stamp = PodStamp(labels={"a": "queue", "b": "queue"}, annotations={"c": "queue"})
    update = TemplateUpdate(labels={"a": "check"}, node_selector={"zone": "z"})
    action = ReleaseJob(released_at=NOW, stamps={pod_set: stamp}, updates={pod_set: update})
    executor.execute(action, msgspec.convert(made, adapter.object_type))
    meta = made["metadata"]
    found = server.direct.get(adapter.kind.plural, meta["name"], meta["namespace"])
    assert parse_path(templates).read(found) == {
        "metadata": {"labels": {"a": "check", "b": "queue"}, "annotations": {"c": "queue"}},
        "spec": {**want["spec"], "nodeSelector": {"zone": "z"}},
    }
    assert found["spec"]["suspend"] is False
