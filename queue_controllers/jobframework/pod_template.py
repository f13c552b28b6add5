"""The part of a pod template that a QueueUnit carries.

A queue costs a cluster its writes, and a template can be 200 kB. So the unit gets what scheduling,
autoscaling and admission checks read: requests, and fields that affect placement. Commands,
environment, probes and ordinary volumes are left out. Since nothing here reads them either, they
are not even decoded: ten thousand cached jobs hold no environment variables.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from queue_controllers.jobframework.pod_scheduling import ReadPod
from shared_api.objects.meta import WireStruct
from shared_api.objects.pod import Container, PodSpec, TemplateMeta

MAX_ANNOTATION_CHARS: Final = 1024
"""Longest annotation that is copied from a template: gang and autoscaler marks are short."""

CONTROLLER_LABELS: Final = ("batch.kubernetes.io/", "controller-uid", "job-name")
"""Labels (or their beginnings) that the API server puts on a Job and its template: the unit has the
job's name and uid already."""


class ContainerPort(WireStruct, frozen=True):
    """A port of a container; only host ports affect scheduling."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class ScheduledContainer(Container, frozen=True):
    """A container; the image is there because a pod template without one is refused."""

    image: str = ""
    ports: tuple[ContainerPort, ...] = ()


class TemplateVolume(WireStruct, frozen=True):
    """A volume; only claims bind a pod to a place."""

    name: str = ""
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None

    @property
    def is_claim(self) -> bool:
        """Return whether it is a claim, whose storage may bind the pod to a place."""
        return bool(self.persistent_volume_claim or self.ephemeral)


class ScheduledPodSpec(PodSpec, frozen=True):
    """A pod's spec with all fields that affect its placement, as the API names them."""

    containers: tuple[ScheduledContainer, ...] = ()
    init_containers: tuple[ScheduledContainer, ...] = ()
    volumes: tuple[TemplateVolume, ...] = ()
    restart_policy: str = ""
    preemption_policy: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""
    service_account: str = ""
    """Its older name, which only built-in kinds keep in step."""
    host_network: bool | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()

    @property
    def account(self) -> str:
        """Name of the service account that it runs under, "" if it names none."""
        return self.service_account_name or self.service_account


class ScheduledPodTemplate(WireStruct, frozen=True):
    """A pod template, reduced."""

    metadata: TemplateMeta = TemplateMeta()
    spec: ScheduledPodSpec = ScheduledPodSpec()


class ScheduledPod(ReadPod, frozen=True):
    """A pod, as far as it is read where pods themselves are queued."""

    spec: ScheduledPodSpec = ScheduledPodSpec()


def template_body(template: ScheduledPodTemplate) -> dict[str, Any]:
    """Return the reduced template as JSON values, keys in the order of the structs."""
    spec = template.spec
    if spec.account:  # it does not affect the pod's placement
        spec = msgspec.structs.replace(spec, service_account_name="", service_account="")
    if any(container.ports for container in spec.containers):
        spec = msgspec.structs.replace(
            spec, containers=tuple(_with_host_ports(each) for each in spec.containers)
        )
    if spec.volumes:
        bound = (each for each in spec.volumes if each.is_claim)
        spec = msgspec.structs.replace(spec, volumes=tuple(bound))
    meta = template.metadata
    labels = {
        key: value for key, value in meta.labels.items() if not key.startswith(CONTROLLER_LABELS)
    }
    annotations = {
        key: value for key, value in meta.annotations.items() if len(value) <= MAX_ANNOTATION_CHARS
    }
    meta = TemplateMeta(labels=labels, annotations=annotations)
    reduced = ScheduledPodTemplate(metadata=meta, spec=spec)
    body: dict[str, Any] = msgspec.to_builtins(reduced)
    return {key: value for key, value in body.items() if value}


def _with_host_ports(container: ScheduledContainer) -> ScheduledContainer:
    ports = tuple(port for port in container.ports if port.host_port)
    return msgspec.structs.replace(container, ports=ports)
