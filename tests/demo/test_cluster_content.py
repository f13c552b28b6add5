"""The demo removes what it creates, and nothing else."""

from __future__ import annotations

import random

import pytest

from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.cluster_content import ClusterContent, JobSubmitter
from tests.demo.clusters import QUOTA_CRD, DemoFailed
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import REAL_GPUS, ROOT, LoadPlan, build_namespace, build_plan
from tests.demo.make_slice import TraceRow

KINDS = {
    "elasticquotas.scheduling.sigs.k8s.io",
    "queues.scheduling.x-k8s.io",
    "queueunits.scheduling.x-k8s.io",
    "quotapolicies.scheduling.x-k8s.io",
    "queuereservations.scheduling.x-k8s.io",
}


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(1))
        self.api = JsonApi(self.server)
        self.content = ClusterContent(self.api, self.clock, queue_namespace="queues")
        self.said: list[str] = []
        rows = [
            TraceRow(submit_time_s=at, duration_s=600, tenant=tenant, gpu=1)
            for at, tenant in ((0, "a"), (28800, "b"))
        ]
        self.plan: LoadPlan = build_plan(rows, shape=REAL_GPUS, submit_seconds=100)

    def names(self, plural: str) -> set[str]:
        return {body["metadata"]["name"] for body in self.server.direct.list(plural)}

    def fill(self) -> None:
        self.content.install_kinds()
        self.content.make_tenants(self.plan)


@pytest.fixture
def world() -> World:
    return World()


def test_everything_is_created_and_removed(world: World) -> None:
    before = world.names("namespaces")
    world.fill()
    assert world.names("customresourcedefinitions") == KINDS
    assert world.names("elasticquotas") == {ROOT, "vc-a", "vc-b"}
    assert len(world.names("quotapolicies")) == 1
    assert world.names("namespaces") - before == {"queues", "vc-a", "vc-b"}
    world.content.remove(world.said.append)
    assert world.names("namespaces") == before
    assert world.names("customresourcedefinitions") == set()
    assert world.names("priorityclasses") == set()


def test_an_existing_kind_stays(world: World) -> None:
    world.server.direct.create_from(QUOTA_CRD)
    world.fill()
    world.content.remove(world.said.append)
    assert world.names("customresourcedefinitions") == {"elasticquotas.scheduling.sigs.k8s.io"}


def test_an_existing_namespace_is_not_used(world: World) -> None:
    world.server.direct.create(build_namespace("vc-b"))
    with pytest.raises(DemoFailed, match="vc-b exists already"):
        world.fill()
    world.content.remove(world.said.append)
    assert "vc-b" in world.names("namespaces")
    assert "vc-a" not in world.names("namespaces")


def test_what_cannot_be_removed_is_reported_and_the_rest_is_removed(world: World) -> None:
    world.fill()
    world.server.faults.fail(503, times=1, match=Match(verb="delete", name="vc-a"))
    world.content.remove(world.said.append)
    assert any("kubectl delete" in line for line in world.said)
    assert world.names("customresourcedefinitions") == set()


def test_jobs_are_submitted_at_their_time(world: World) -> None:
    world.fill()
    submitter = JobSubmitter(world.api, world.plan, started_at=1000.0)
    submitter.submit_due(1000.0)
    assert [job["metadata"]["namespace"] for job in world.server.direct.list("jobs")] == ["vc-a"]
    assert not submitter.is_done
    submitter.submit_due(1051.0)
    assert len(world.server.direct.list("jobs")) == 2
    assert submitter.is_done


def test_a_refused_job_ends_the_demo(world: World) -> None:
    submitter = JobSubmitter(world.api, world.plan, started_at=1000.0)
    with pytest.raises(DemoFailed, match="train-001"):
        submitter.submit_due(1000.0)
