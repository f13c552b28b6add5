"""The requests of one pod; the only module that adds up containers.

Sums are exact, in billionths, and rounded up once per pod and resource at the end: rounding each
container, or only the product of request and pod count, would differ from koord-scheduler by up to
a milli-core per container.

Source: k8s.io/component-helpers v0.36.3, resource/helpers.go (`PodRequests`), and the defaults
that the API server fills into a pod but not into a pod template: pkg/apis/core/v1/defaults.go
(`SetDefaults_Pod`, `defaultPodRequests`). Values of an in-place resize (`status`) are not read: a
job's demand is what its template requests. Deprecated names are replaced container by container,
after the defaults, as koord-scheduler replaces them (`resource_names`).
"""

from __future__ import annotations

from collections.abc import Mapping

from shared_api.objects.pod import Container, PodSpec, QuantityText, ResourceRequirements
from shared_api.quantity import QuantityError, amount_of_nanos, parse_quantity
from shared_api.resource_list import Amounts, add, maximum
from shared_api.resource_names import rename_deprecated

_OVERCOMMITTABLE_POD_RESOURCES = frozenset({"cpu", "memory"})
_HUGE_PAGES_PREFIX = "hugepages-"


def pod_requests(spec: PodSpec) -> Amounts:
    """Return the amounts that one pod of this spec is charged with, rounded up to base units.

    Raises:
        QuantityError: A value is not a quantity, or is negative; the message starts with the
            path below the pod's spec.
    """
    nanos = _containers_nanos(spec)
    if spec.resources is not None:
        nanos |= _pod_level_nanos(spec.resources, nanos)
    if spec.overhead:
        nanos = add(nanos, rename_deprecated(_parse_nanos(spec.overhead, "overhead")))
    return {resource: amount_of_nanos(resource, value) for resource, value in nanos.items()}


def has_equal_requests(one: PodSpec, other: PodSpec) -> bool:
    """Return whether two specs state the same requests; cheaper than adding them up."""
    return _words_of(one) == _words_of(other)


def _words_of(spec: PodSpec) -> tuple[object, ...]:
    """Return all fields of a spec that `pod_requests` reads."""
    initial = [(each.resources, each.restart_policy) for each in spec.init_containers]
    return [each.resources for each in spec.containers], initial, spec.resources, spec.overhead


def _containers_nanos(spec: PodSpec) -> Amounts:
    """Return the maximum of the containers that run together and of each step of initialization."""
    total: Amounts = {}
    for index, container in enumerate(spec.containers):
        requests = _container_nanos(container, "containers", index)
        total = add(total, requests) if total else requests
    sidecars: Amounts = {}
    initialization: Amounts = {}
    for index, container in enumerate(spec.init_containers):
        requests = _container_nanos(container, "initContainers", index)
        if container.restart_policy == "Always":
            # A sidecar keeps running beside the containers and the later init containers.
            total = add(total, requests)
            sidecars = add(sidecars, requests)
        else:
            initialization = maximum(initialization, add(sidecars, requests))
    return maximum(total, initialization) if initialization else total


def _container_nanos(container: Container, kind: str, index: int) -> Amounts:
    requests, limits = container.resources.requests, container.resources.limits
    # A limit without a request serves as the request, for each resource separately.
    effective = {**limits, **requests} if limits else requests
    nanos: Amounts = {}
    for resource, quantity in effective.items():
        try:
            nanos[resource] = _nanos_of(quantity)
        except QuantityError as error:
            field = "requests" if resource in requests else "limits"
            path = f"{kind}[{index}].resources.{field}.{resource}"
            raise QuantityError(f"{path}: {error}") from error
    return rename_deprecated(nanos)


def _pod_level_nanos(resources: ResourceRequirements, containers: Amounts) -> Amounts:
    """Return the amounts by which the pod's own `resources` replace the sums of its containers."""
    replaced = {
        resource: nanos
        for resource, nanos in _parse_nanos(resources.requests, "resources.requests").items()
        if _is_pod_level(resource)
    }
    for resource, nanos in _parse_nanos(resources.limits, "resources.limits").items():
        # The default of a pod-level request: the containers' sum if they request the resource and
        # it can be overcommitted, otherwise the pod-level limit.
        is_summed = resource in containers and resource in _OVERCOMMITTABLE_POD_RESOURCES
        if _is_pod_level(resource) and resource not in replaced and not is_summed:
            replaced[resource] = nanos
    return replaced


def _is_pod_level(resource: str) -> bool:
    return resource in _OVERCOMMITTABLE_POD_RESOURCES or resource.startswith(_HUGE_PAGES_PREFIX)


def _parse_nanos(quantities: Mapping[str, QuantityText], path: str) -> Amounts:
    nanos: Amounts = {}
    for resource, quantity in quantities.items():
        try:
            nanos[resource] = _nanos_of(quantity)
        except QuantityError as error:
            raise QuantityError(f"{path}.{resource}: {error}") from error
    return nanos


def _nanos_of(quantity: QuantityText) -> int:
    nanos = parse_quantity(quantity).nanos
    if nanos < 0:
        raise QuantityError(f"{quantity!r} is negative")
    return nanos
