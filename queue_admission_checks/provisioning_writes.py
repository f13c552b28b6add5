"""Carries out what was decided: ProvisioningRequests and their PodTemplates, one write each.

Templates are made before the request, since the autoscaler looks for them as soon as it sees it.
Until then they belong to the unit, and go with it if this process ends in between; afterwards to
the request. Names are made of what is asked for, so a write that is repeated, or whose answer was
lost, finds what it has made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog

from queue_admission_checks.provisioning_decision import (
    Action,
    DeleteRequest,
    DeleteTemplate,
    HandOver,
    MakeRequest,
)
from queue_admission_checks.request_plan import (
    KIND,
    RequestedPods,
    RequestPlan,
    owner_reference,
    read_demand,
    request_body,
    template_bodies,
)
from shared_api.admission_check_kit.unit_checks import NotLeadingError
from shared_api.client.errors import AlreadyExists, Conflict, NotFound
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.resource_types import POD_TEMPLATES, QUEUE_UNITS, OnlyMetadata
from shared_api.client.response_decoding import read_whole
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.queue_unit import QueueUnit

log = structlog.get_logger("provisioning_writes")


class WriteGate(Protocol):
    """Whether this process may write."""

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""


class ProvisioningWrites:
    """Sends the writes. Used from all workers, for different units.

    Args:
        client: the way to the API server.
        gate: whether anything may be written.
        requests: the cache of requests; receives what was created.
        templates: the cache of templates; the same.
        version: the version in which requests are served now, None: in none.
    """

    def __init__(
        self,
        client: ResourceClient,
        gate: WriteGate,
        requests: IndexedStore[ProvisioningRequest],
        templates: IndexedStore[OnlyMetadata],
        version: Callable[[], ResourceType[ProvisioningRequest] | None],
    ) -> None:
        self._client = client
        self._gate = gate
        self._requests = requests
        self._templates = templates
        self._version = version

    def read_demand_of(self, unit: QueueUnit) -> RequestedPods:
        """Read a unit's complete pod sets, which are not kept in memory.

        Raises:
            Conflict: The unit has changed since; or it is another.
            ApiFailure: It could not be read.
        """
        meta = unit.metadata
        raw = self._client.get_raw(QUEUE_UNITS.path(meta.namespace, meta.name))
        body = read_whole(raw)
        found = body.get("metadata", {})
        if (found.get("uid"), found.get("generation", 0)) != (meta.uid, meta.generation):
            raise Conflict(409, "Conflict", f"{meta.key} has changed")
        return read_demand(body)

    def carry_out(self, actions: Sequence[Action], unit: QueueUnit | None) -> Conflict | None:
        """Do what was decided, in order; the first failure ends it.

        Return the last conflict that a delete met: it keeps nothing else from being done, and what
        was to go may be there still.

        Args:
            actions: what to do.
            unit: for which; None where nothing is made.

        Raises:
            NotLeadingError: Not all was sent.
            Conflict: What was to be made or written is not what there is.
            ApiFailure: The server refused, or did not answer.
        """
        refusal: Conflict | None = None
        for action in actions:
            match action:
                case MakeRequest(plan=plan):
                    assert unit is not None, "a request is made for a unit"
                    self._make(plan, unit)
                case HandOver(template=template, request=request):
                    self._hand_over(template, request)
                case DeleteRequest(request=request):
                    refusal = self._delete(self._served(), request) or refusal
                case DeleteTemplate(template=template):
                    refusal = self._delete(POD_TEMPLATES, template) or refusal
        return refusal

    def _make(self, plan: RequestPlan, unit: QueueUnit) -> None:
        demand = self.read_demand_of(unit)
        if demand.digest != plan.demand:
            raise Conflict(409, "Conflict", f"{unit.metadata.key} has changed")
        namespace, served = unit.metadata.namespace, self._served()
        for body in template_bodies(unit, plan, demand):
            self._create(POD_TEMPLATES, namespace, body, self._templates)
        body = request_body(unit, plan, served.api_version)
        if self._create(served, namespace, body, self._requests):
            log.info(
                "asked for nodes",
                unit=unit.metadata.key,
                check=plan.check,
                request=body["metadata"]["name"],
                provisioning_class=plan.class_name,
            )

    def _create(
        self,
        resource_type: ResourceType[Any],
        namespace: str,
        body: Mapping[str, Any],
        store: IndexedStore[Any],
    ) -> bool:
        self._check_lead()
        try:
            store.note_written(self._client.create(resource_type, namespace, body))
        except AlreadyExists:
            # Its name says that it is the one; the watch brings it.
            return False
        return True

    def _hand_over(self, template: ObjectMeta, request: ObjectMeta) -> None:
        self._check_lead()
        owner = owner_reference(request, self._served().api_version, KIND)
        metadata = {"resourceVersion": template.resource_version, "ownerReferences": [owner]}
        namespace, name = template.namespace, template.name
        try:
            written = self._client.patch(POD_TEMPLATES, namespace, name, {"metadata": metadata})
        except NotFound:
            log.debug("a template is gone", template=template.key)
            return
        self._templates.note_written(written)

    def _delete(self, resource_type: ResourceType[Any], meta: ObjectMeta) -> Conflict | None:
        self._check_lead()
        try:
            self._client.delete(
                resource_type, meta.namespace, meta.name, uid=meta.uid, propagation="Background"
            )
        except NotFound:
            log.debug("it is gone already", kind=resource_type.kind, name=meta.key)
            return None
        except Conflict as refusal:
            # Another, which the cache shows soon; or a webhook says so, and it is still there.
            log.warning("not deleted", kind=resource_type.kind, name=meta.key, error=str(refusal))
            return refusal
        log.info("deleted", kind=resource_type.kind, name=meta.key)
        return None

    def _served(self) -> ResourceType[ProvisioningRequest]:
        version = self._version()
        if version is None:
            raise NotFound(404, "NotFound", f"{KIND} is not served")
        return version

    def _check_lead(self) -> None:
        if not self._gate.may_write():
            raise NotLeadingError
