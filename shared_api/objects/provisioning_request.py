"""ProvisioningRequest (`autoscaling.x-k8s.io`): requests nodes for pods from the autoscaler.

The cluster-autoscaler answers with conditions: Accepted when it starts to process the request,
Provisioned when the nodes are ready, Failed when it cannot provide them, BookingExpired when it no
longer keeps them for these pods, CapacityRevoked when they are removed. The spec is immutable.
"""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"


class PodTemplateReference(WireStruct, frozen=True):
    """A PodTemplate in the request's namespace."""

    name: str = ""


class RequestedPodSet(WireStruct, frozen=True):
    """A number of pods of one template."""

    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 0


class ProvisioningRequestSpec(WireStruct, frozen=True):
    """`spec`."""

    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    pod_sets: tuple[RequestedPodSet, ...] = ()


class ProvisioningRequestStatus(WireStruct, frozen=True):
    """`status`; written by the autoscaler."""

    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(WireStruct, frozen=True):
    """A request for nodes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()
