"""The writes of a decision: repeated, late, or forbidden."""

from __future__ import annotations

import msgspec
import pytest

from queue_admission_checks.provisioning_decision import (
    DeleteRequest,
    DeleteTemplate,
    HandOver,
    MakeRequest,
)
from queue_admission_checks.provisioning_writes import ProvisioningWrites
from queue_admission_checks.request_plan import PlannedPods, RequestPlan
from shared_api.admission_check_kit.unit_checks import NotLeadingError
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import PROVISIONING_REQUEST_VERSIONS, OnlyMetadata
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.queue_unit import QueueUnit
from tests.client_kit import client_to
from tests.queue_admission_checks.provisioning_world import ProvisioningWorld


class Kit:
    """A unit on a server, and the writes for it; a test sets what it needs."""

    def __init__(self) -> None:
        self.world = ProvisioningWorld()
        self.world.add_gpu_unit()
        clock = self.world.clock
        client = client_to(self.world.server, clock)
        self.leads = True
        self.version: ResourceType[ProvisioningRequest] | None = PROVISIONING_REQUEST_VERSIONS[0]
        self.requests: IndexedStore[ProvisioningRequest] = IndexedStore()
        self.templates: IndexedStore[OnlyMetadata] = IndexedStore()
        self.writes = ProvisioningWrites(
            client, self, self.requests, self.templates, lambda: self.version
        )

    def may_write(self) -> bool:
        return self.leads

    @property
    def unit(self) -> QueueUnit:
        return msgspec.convert(self.world.unit(), QueueUnit)

    def plan(self) -> RequestPlan:
        return RequestPlan(
            check="check",
            controller_name="a.b/c",
            class_name="x.y",
            parameters={},
            pods=(PlannedPods("worker", 2), PlannedPods("launcher", 1)),
            attempt="then/0",
            demand=self.writes.read_demand_of(self.unit).digest,
        )

    def make(self) -> ProvisioningRequest:
        self.writes.carry_out([MakeRequest(self.plan())], self.unit)
        (request,) = self.requests.list()
        return request


def test_created_objects_are_in_the_caches_at_once() -> None:
    kit = Kit()
    request = kit.make()
    names = [each.pod_template_ref.name for each in request.spec.pod_sets]
    assert sorted(each.metadata.name for each in kit.templates.list()) == sorted(names)


def test_an_object_created_twice_exists_once() -> None:
    kit = Kit()
    kit.make()
    kit.make()
    assert kit.world.made() == {"provisioningrequests": 1, "podtemplates": 2}


def test_a_changed_unit_is_decided_again() -> None:
    kit = Kit()
    seen = kit.unit
    kit.world.direct.patch("queueunits", "unit", {"spec": {"priority": 3}}, namespace="default")
    with pytest.raises(Conflict):
        kit.writes.read_demand_of(seen)
    stale = msgspec.structs.replace(kit.plan(), demand="of yesterday")
    with pytest.raises(Conflict):
        kit.writes.carry_out([MakeRequest(stale)], kit.unit)
    assert kit.world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_another_unit_of_the_same_name_is_not_read() -> None:
    kit = Kit()
    seen = kit.unit
    kit.world.direct.delete("queueunits", "unit", "default")
    kit.world.add_gpu_unit()
    with pytest.raises(Conflict):
        kit.writes.read_demand_of(seen)


def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    kit = Kit()
    request = kit.make()
    template = kit.templates.list()[0].metadata
    before = kit.world.server.resource_version
    kit.leads = False
    for action in (
        MakeRequest(kit.plan()),
        HandOver(template, request.metadata),
        DeleteRequest(request.metadata),
        DeleteTemplate(template),
    ):
        with pytest.raises(NotLeadingError):
            kit.writes.carry_out([action], kit.unit)
    assert kit.world.server.resource_version == before


def test_deleting_a_missing_object_succeeds() -> None:
    kit = Kit()
    request = kit.make().metadata
    kit.writes.carry_out([DeleteRequest(request), DeleteRequest(request)], None)
    assert kit.world.made()["provisioningrequests"] == 0
    gone = ObjectMeta(name="none", namespace="default", uid=Uid("x"), resource_version="1")
    kit.writes.carry_out([DeleteTemplate(gone), HandOver(gone, request)], None)


def test_another_object_of_the_same_name_is_not_deleted_and_reported() -> None:
    kit = Kit()
    request, template = kit.make().metadata, kit.templates.list()[0].metadata
    another = Uid("another")
    other_template = DeleteTemplate(msgspec.structs.replace(template, uid=another))
    assert isinstance(kit.writes.carry_out([other_template], None), Conflict)
    other_request = DeleteRequest(msgspec.structs.replace(request, uid=another))
    refusal = kit.writes.carry_out([other_request, DeleteTemplate(template)], None)
    assert isinstance(refusal, Conflict)
    assert kit.world.made() == {"provisioningrequests": 1, "podtemplates": 1}, "and it goes on"


def test_requests_that_are_not_served_cannot_be_created() -> None:
    kit = Kit()
    kit.version = None
    with pytest.raises(NotFound, match="not served"):
        kit.make()
