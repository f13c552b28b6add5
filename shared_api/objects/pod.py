"""Pods and pod templates: their requests, their owners, their state."""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import ObjectMeta, WireStruct

QuantityText = str | int | float
"""A quantity on the wire: "500m", "2Gi", 4. Parsed by `shared_api.quantity`, never used raw."""

ResourceQuantities = dict[str, QuantityText]


class ResourceRequirements(WireStruct, frozen=True):
    """`resources` of a container or of a whole pod."""

    requests: ResourceQuantities = {}
    limits: ResourceQuantities = {}


class Container(WireStruct, frozen=True):
    """A container or init container; `restart_policy: Always` makes the latter a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class PodSchedulingGate(WireStruct, frozen=True):
    """One entry of `spec.schedulingGates`."""

    name: str = ""


class PodSpec(WireStruct, frozen=True):
    """`spec` of a pod or pod template, as far as demand and placement are concerned."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceQuantities = {}
    resources: ResourceRequirements | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()


class TemplateMeta(WireStruct, frozen=True):
    """`metadata` of a pod template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(WireStruct, frozen=True):
    """A pod template, as far as it is read."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


SCHEDULED: Final = "PodScheduled"
"""Type of the condition that a scheduler writes."""


class PodCondition(WireStruct, frozen=True):
    """A condition of a pod, as far as its verdict is read."""

    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(WireStruct, frozen=True):
    """`status` of a pod, as far as it is read.

    Attributes:
        phase: Its phase.
        conditions: What is said of it; caches keep no more of it than they need.
    """

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(WireStruct, frozen=True):
    """A pod (core/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_living(self) -> bool:
        """Whether it holds its requests: not Succeeded or Failed, terminating or not."""
        return self.status.phase not in {"Succeeded", "Failed"}

    @property
    def is_terminating(self) -> bool:
        """Whether it was deleted and the object still exists."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_bound(self) -> bool:
        """Whether it is assigned to a node."""
        return bool(self.spec.node_name)

    @property
    def scheduled(self) -> PodCondition | None:
        """What a scheduler says of it; None: none has tried it yet."""
        for condition in self.status.conditions:
            if condition.type == SCHEDULED:
                return condition
        return None

    def has_gate(self, name: str) -> bool:
        """Return whether it has a scheduling gate of this name."""
        # A generator would be slower, and this is called for every pod that changes.
        gates = self.spec.scheduling_gates
        return bool(gates) and any(gate.name == name for gate in gates)
