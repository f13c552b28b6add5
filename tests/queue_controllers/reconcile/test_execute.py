"""How decisions become one patch."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import ReleaseJob
from queue_controllers.extensions.batch_job import BatchJob, BatchJobAdapter
from queue_controllers.extensions.job_set import JobSetAdapter
from queue_controllers.extensions.ray_cluster import RayClusterAdapter
from queue_controllers.jobframework.generic_job import GenericJob, PodStamp
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.template_updates import TemplateUpdate
from queue_controllers.reconcile.execute import Executor, NotLeadingError
from shared_api.client.errors import Conflict, Invalid
from shared_api.client.event_recorder import Event
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.field_path import parse_path
from shared_api.leader_election import SoleLeader
from shared_api.objects.meta import Timestamp
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to
from tests.sample_jobs import open_crd, sample

NOW = Timestamp("2026-11-01T10:00:00Z")
STATUS_WRITES = Match(verb="patch", plural="jobs", subresource="status")


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


def executor_of(adapter: GenericJob[Any], server: FakeApiServer) -> Executor[Any]:
    """Return what writes to a server."""
    clock = VirtualClock()
    client = client_to(server, clock)
    leader = SoleLeader("test")
    return Executor(adapter, client, leader, Nothing(), jobs=Nothing(), units=Nothing())


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
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    serve(server, adapter)
    body = sample(adapter.kind.key)
    parse_path(templates).read(body)["spec"]["command"] = ["kept"]
    made = server.direct.create(body)
    want = parse_path(templates).read(made)
    stamp = PodStamp(labels={"a": "queue", "b": "queue"}, annotations={"c": "queue"})
    update = TemplateUpdate(labels={"a": "check"}, node_selector={"zone": "z"})
    action = ReleaseJob(released_at=NOW, stamps={pod_set: stamp}, updates={pod_set: update})
    executor_of(adapter, server).execute(action, msgspec.convert(made, adapter.object_type))
    meta = made["metadata"]
    found = server.direct.get(adapter.kind.plural, meta["name"], meta["namespace"])
    assert parse_path(templates).read(found) == {
        "metadata": {"labels": {"a": "check", "b": "queue"}, "annotations": {"c": "queue"}},
        "spec": {**want["spec"], "nodeSelector": {"zone": "z"}},
    }
    assert found["spec"]["suspend"] is False


@pytest.fixture
def server() -> FakeApiServer:
    """A server with the namespace of samples."""
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    server.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    return server


def started_job(server: FakeApiServer) -> BatchJob:
    """Create a suspended Job that has run, as Kubernetes before 1.36 leaves it."""
    meta: Any = {"name": "job", "namespace": "team"}
    containers = [{"name": "main", "image": "x"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    spec: Any = {"suspend": True, "template": template}
    server.direct.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    status: Any = {"startTime": NOW}
    patched = server.direct.patch(
        "jobs", "job", {"status": status}, namespace="team", subresource="status"
    )
    return msgspec.convert(patched, BatchJob)


def release_of(job: BatchJob) -> ReleaseJob:
    """Return a release that labels the Job's pods."""
    stamp = PodStamp(labels={"a": "queue"})
    return ReleaseJob(released_at=NOW, stamps={pod_set_name(job.metadata.name): stamp})


def found(server: FakeApiServer, job: BatchJob) -> Any:
    """Return a Job as the server has it."""
    return server.direct.get("jobs", job.metadata.name, "team")


def test_a_job_that_has_run_is_released_without_its_start_time(server: FakeApiServer) -> None:
    job = started_job(server)
    executor_of(BatchJobAdapter(), server).execute(release_of(job), job)
    released = found(server, job)
    assert "startTime" not in released["status"]
    assert released["spec"]["template"]["metadata"]["labels"]["a"] == "queue"
    assert released["spec"]["suspend"] is False


def test_a_release_that_changes_no_template_leaves_the_start_time(server: FakeApiServer) -> None:
    job = started_job(server)
    executor_of(BatchJobAdapter(), server).execute(ReleaseJob(released_at=NOW), job)
    assert found(server, job)["status"]["startTime"] == NOW


def test_without_the_right_the_server_judges_the_release(server: FakeApiServer) -> None:
    job = started_job(server)
    server.faults.fail(403, match=STATUS_WRITES)
    with pytest.raises(Invalid, match="field is immutable"):
        executor_of(BatchJobAdapter(), server).execute(release_of(job), job)


def test_a_job_that_others_have_changed_keeps_its_start_time(server: FakeApiServer) -> None:
    job = started_job(server)
    server.direct.patch("jobs", job.metadata.name, {"spec": {"suspend": False}}, namespace="team")
    with pytest.raises(Conflict):
        executor_of(BatchJobAdapter(), server).execute(release_of(job), job)
    assert found(server, job)["status"]["startTime"] == NOW


def test_nothing_is_released_if_it_may_not_lead_any_more(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease may end while the start time is cleared."""
    job = started_job(server)
    executor = executor_of(BatchJobAdapter(), server)
    answers = iter([True, False])
    monkeypatch.setattr(executor, "may_write", lambda: next(answers))
    with pytest.raises(NotLeadingError):
        executor.execute(release_of(job), job)
    assert found(server, job)["spec"]["suspend"] is True
