"""What the API server makes of a pod template as it creates pods, or why it refuses them. Pure.

The demand of a template as written is not what koord-scheduler counts: the API server's admission
plugins fill in requests (LimitRanger) and the overhead and node rules of the runtime
(RuntimeClass), and they refuse what the namespace does not allow. `apply_admission_to_template`
does the same to a template from the objects that those plugins read, so that a unit asks for what
its pods will have. The result is a fixed point: pods that exist have been through it.

What cannot be read is not asked for: a kind that may not be listed is unknown (None), and what is
unknown neither changes a template nor holds a job. What no API server accepts of a template is in
`pod_validation`.

Source: kubernetes v1.36.3, plugin/pkg/admission: limitranger/admission.go (`MutateLimit`,
`ValidateLimit`), runtimeclass/admission.go, priority/admission.go, serviceaccount/admission.go;
pkg/apis/core/v1/defaults.go (`SetDefaults_LimitRangeItem`, `SetDefaults_Pod`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from queue_controllers.decision.pod_validation import why_invalid
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
)
from shared_api.objects.limit_range import LimitRange, LimitRangeItem
from shared_api.objects.pod import PodSpec, QuantityText, ResourceQuantities, ResourceRequirements
from shared_api.objects.runtime_class import RuntimeClass
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError, canonical, format_amount, parse_quantity
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import MAX_REFUSAL_CHARS

CONTAINER: Final = "Container"
POD: Final = "Pod"
"""Types of limits."""

SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
"""The API server creates these priority classes itself, a moment after it starts."""

DEFAULT_ACCOUNT: Final = "default"
"""The controller manager creates it in each namespace, a moment after that: waiting for it would
hold every first job of a new namespace, and pod creation is retried until it exists."""

_RANGE: Final = "LimitRange"

_NANOS: Final = 10**9
"""Nanos in one: a ratio is a quantity, too."""

MAX_DIFFERENCES_CHARS: Final = 1024
"""Limit of the text in the annotation: some lines for a person."""


class AdmissionObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server's admission reads in one namespace; None if it cannot be read."""

    limit_ranges: tuple[LimitRange, ...] = ()
    """The LimitRanges of the job's namespace."""
    runtime_classes: Mapping[str, RuntimeClass] | None = None
    priority_classes: Container[str] | None = None
    """Names of those that exist."""
    service_accounts: Container[str] | None = None
    """Names of those of the namespace."""


NOTHING_READ: Final = AdmissionObjects()


class TemplateAfterAdmission(msgspec.Struct, frozen=True):
    """A template as its pods will be."""

    template: ScheduledPodTemplate
    differences: tuple[str, ...] = ()
    """What differs from the template as written, and by which object; one line each."""
    refusal: str = ""
    """Why no pod of it can be created now, with the name of the object; "" if one can."""


def apply_pod_admission(job: JobFacts, objects: AdmissionObjects) -> JobFacts:
    """Return the facts with the pod sets as the cluster will have them, and what that changes.

    Pods that are held by gates exist: they have been through admission already. Those that are yet
    to come will ask for no less than the others of their job once they have been, too.
    """
    if not has_pods_to_come(job):
        if any(each.is_to_come for each in job.pod_sets):
            return with_admitted(job, [_to_come(each, job, objects) for each in job.pod_sets])
        return job
    return with_admitted(
        job, [apply_admission_to_pod_set(each, job, objects) for each in job.pod_sets]
    )


def _to_come(
    pod_set: JobPodSet, job: JobFacts, objects: AdmissionObjects
) -> TemplateAfterAdmission:
    """Return the template of a set of gated pods as those to come will be; none is refused here."""
    if not pod_set.is_to_come:
        return TemplateAfterAdmission(pod_set.template)
    admitted = apply_admission_to_pod_set(pod_set, job, objects)
    return msgspec.structs.replace(admitted, refusal="")


def has_pods_to_come(job: JobFacts) -> bool:
    """Return whether pods of the job's templates may yet be created."""
    return not job.kind.held_by_gates and job.status.outcome is None


def with_admitted(job: JobFacts, admitted: list[TemplateAfterAdmission]) -> JobFacts:
    """Return the facts with these templates, one for each pod set, and what they change."""
    if not any(each.differences or each.refusal for each in admitted):
        return job
    if all(one.template is each.template for one, each in zip(admitted, job.pod_sets, strict=True)):
        pod_sets = job.pod_sets
    else:
        pod_sets = tuple(
            msgspec.structs.replace(each, template=one.template, written=each.template)
            for one, each in zip(admitted, job.pod_sets, strict=True)
        )
    refusals = (each.refusal for each in admitted if each.refusal)
    return msgspec.structs.replace(
        job,
        pod_sets=pod_sets,
        template_differences=_describe_differences(job.pod_sets, admitted),
        pods_refused=next(refusals, "")[:MAX_REFUSAL_CHARS],
    )


def apply_admission_to_pod_set(
    pod_set: JobPodSet, job: JobFacts, objects: AdmissionObjects
) -> TemplateAfterAdmission:
    """Return one template of a job as its pods will be, by the objects that are watched."""
    template = pod_set.template
    if pod_set.is_sum:
        missing = _missing_class(job.priority.class_name, objects)
        missing = missing or _missing_account(template.spec, objects)
        return TemplateAfterAdmission(template, refusal=missing)
    if invalid := why_invalid(template, has_limits=pod_set.has_limits):
        return TemplateAfterAdmission(template, refusal=invalid)
    admitted = apply_admission_to_template(template, objects)
    if admitted.refusal and not pod_set.has_limits and not _missing(template.spec, objects):
        # The job's operator sets limits that the template lacks, so whether they are in order is
        # unknown, too.
        return TemplateAfterAdmission(admitted.template, admitted.differences)
    return admitted


def _describe_differences(
    pod_sets: tuple[JobPodSet, ...], admitted: list[TemplateAfterAdmission]
) -> str:
    """Return in one line what differs, "" for nothing; with names if there are several pod sets."""
    lines = [
        f"pod set {pod_set.name}: {line}" if len(pod_sets) > 1 else line
        for pod_set, one in zip(pod_sets, admitted, strict=True)
        for line in one.differences
    ]
    text = "; ".join(lines)
    return text if len(text) <= MAX_DIFFERENCES_CHARS else text[: MAX_DIFFERENCES_CHARS - 3] + "..."


def apply_admission_to_template(
    template: ScheduledPodTemplate, objects: AdmissionObjects
) -> TemplateAfterAdmission:
    """Return the template as the API server's admission makes it, what differs, and any refusal.

    The template itself is returned if nothing changes.
    """
    spec = template.spec
    if missing := _missing(spec, objects):
        return TemplateAfterAdmission(template, refusal=missing)
    runtime = _runtime_class(spec, objects)
    spec, of_runtime, clash = _with_runtime(spec, runtime)
    try:
        spec, of_ranges = _with_defaults(spec, objects.limit_ranges)
        refusal = clash or next(_violations(spec, template.spec, objects.limit_ranges), "")
    except QuantityError:
        # An error in the demand is reported on the unit; the API server has validated the amounts
        # of a LimitRange.
        return TemplateAfterAdmission(template, refusal=clash)
    differences = (*of_ranges, *of_runtime)
    if not differences:
        return TemplateAfterAdmission(template, refusal=refusal)
    changed = ScheduledPodTemplate(metadata=template.metadata, spec=spec)
    return TemplateAfterAdmission(changed, differences, refusal)


# --- what a template names ----------------------------------------------------------------------


def _missing(spec: ScheduledPodSpec, objects: AdmissionObjects) -> str:
    """Return which object that the template names does not exist, "" if all do."""
    if missing := _missing_class(spec.priority_class_name, objects):
        return missing
    name, runtimes = spec.runtime_class_name, objects.runtime_classes
    if name and runtimes is not None and name not in runtimes:
        return f"RuntimeClass {name} does not exist"
    return _missing_account(spec, objects)


def _missing_account(spec: ScheduledPodSpec, objects: AdmissionObjects) -> str:
    name, accounts = spec.account, objects.service_accounts
    if not name or name == DEFAULT_ACCOUNT or accounts is None or name in accounts:
        return ""
    return f"ServiceAccount {name} does not exist in the job's namespace"


def _missing_class(name: str, objects: AdmissionObjects) -> str:
    classes = objects.priority_classes
    if not name or name in SYSTEM_CLASSES or classes is None or name in classes:
        return ""
    return f"PriorityClass {name} does not exist"


# --- RuntimeClass -------------------------------------------------------------------------------


def _runtime_class(spec: ScheduledPodSpec, objects: AdmissionObjects) -> RuntimeClass | None:
    return (objects.runtime_classes or {}).get(spec.runtime_class_name)


def _with_runtime(
    spec: ScheduledPodSpec, runtime: RuntimeClass | None
) -> tuple[ScheduledPodSpec, tuple[str, ...], str]:
    """Return the spec with what its RuntimeClass adds, what that is, and what contradicts it."""
    if runtime is None:
        return spec, (), ""
    name, differences, clash = f"RuntimeClass {runtime.metadata.name}", [], ""
    overhead = {} if runtime.overhead is None else runtime.overhead.pod_fixed
    if spec.overhead:
        if not are_equal(spec.overhead, overhead):
            clash = (
                f"{name} adds overhead {listed(overhead) or 'none'} to each pod,"
                f" the job's template states {listed(spec.overhead)}"
            )
    elif overhead:
        spec = msgspec.structs.replace(spec, overhead=overhead)
        differences.append(f"overhead {listed(overhead)} ({name})")
    if runtime.scheduling is None:
        return spec, tuple(differences), clash
    for key, value in runtime.scheduling.node_selector.items():
        if (own := spec.node_selector.get(key, value)) != value:
            clash = f"{name} asks for nodes labelled {key}={value}, the job's template for {own}"
    selector = {**spec.node_selector, **runtime.scheduling.node_selector}
    if selector != spec.node_selector and not clash:
        spec = msgspec.structs.replace(spec, node_selector=selector)
        added = ", ".join(f"{k}={v}" for k, v in runtime.scheduling.node_selector.items())
        differences.append(f"node selector {added} ({name})")
    tolerations = [each for each in runtime.scheduling.tolerations if each not in spec.tolerations]
    if tolerations:
        spec = msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *tolerations))
        differences.append(f"{len(tolerations)} more tolerations ({name})")
    return spec, tuple(differences), clash


def are_equal(one: ResourceQuantities, other: ResourceQuantities) -> bool:
    """Return whether these are the same amounts, however they are written."""
    try:
        return _in_nanos(one) == _in_nanos(other)
    except QuantityError:
        return one == other


# --- LimitRange: defaults -----------------------------------------------------------------------


class _Default(msgspec.Struct, frozen=True):
    """An amount for containers that state none, and the LimitRange that it is from."""

    quantity: QuantityText
    owner: str


def _with_defaults(
    spec: ScheduledPodSpec, ranges: tuple[LimitRange, ...]
) -> tuple[ScheduledPodSpec, tuple[str, ...]]:
    """Return the spec with the amounts that its containers do not state, and which these are."""
    requests, limits = _defaults_of(ranges)
    if not requests and not limits:
        return spec, ()
    differences: list[str] = []

    def fill(containers: tuple[ScheduledContainer, ...]) -> tuple[ScheduledContainer, ...]:
        filled = tuple([_filled(each, requests, limits, differences) for each in containers])
        same = all(new is old for new, old in zip(filled, containers, strict=True))
        return containers if same else filled

    containers, init_containers = fill(spec.containers), fill(spec.init_containers)
    if not differences:
        return spec, ()
    # The pod's own resources are settled before its containers get their defaults.
    resources = None if spec.resources is None else _settled(spec, spec.resources)
    filled = msgspec.structs.replace(
        spec, containers=containers, init_containers=init_containers, resources=resources
    )
    return filled, tuple(differences)


def _defaults_of(
    ranges: tuple[LimitRange, ...],
) -> tuple[dict[str, _Default], dict[str, _Default]]:
    """Return requests and limits of containers that state none.

    Where several LimitRanges state one, the API server applies any; the largest is always enough.
    """
    requests: dict[str, _Default] = {}
    limits: dict[str, _Default] = {}
    for each in ranges:
        for item in each.spec.limits:
            if item.type != CONTAINER:
                continue
            name = each.metadata.name
            # As the API server completes a LimitRange when it is written.
            default = {**item.max, **item.default}
            _keep_largest(limits, default, name)
            _keep_largest(requests, {**item.min, **default, **item.default_request}, name)
    return requests, limits


def _keep_largest(kept: dict[str, _Default], more: ResourceQuantities, owner: str) -> None:
    for resource, quantity in more.items():
        before = kept.get(resource)
        if before is None or _nanos(quantity) > _nanos(before.quantity):
            kept[resource] = _Default(quantity, owner)


def _filled(
    container: ScheduledContainer,
    requests: Mapping[str, _Default],
    limits: Mapping[str, _Default],
    differences: list[str],
) -> ScheduledContainer:
    """Return a container with its missing amounts; a limit that it states is a request, too."""
    resources = container.resources
    stated = {**resources.limits, **resources.requests}
    more_requests = {key: each for key, each in requests.items() if key not in stated}
    more_limits = {key: each for key, each in limits.items() if key not in resources.limits}
    if not more_requests and not more_limits:
        return container
    for what, more in (("requests", more_requests), ("limits", more_limits)):
        if more:
            owners = ", ".join(sorted({each.owner for each in more.values()}))
            words = listed({key: each.quantity for key, each in more.items()})
            differences.append(f"{what} {words} of container {container.name} ({_RANGE} {owners})")
    filled = ResourceRequirements(
        requests={**resources.requests, **_quantities(more_requests)},
        limits={**resources.limits, **_quantities(more_limits)},
    )
    return msgspec.structs.replace(container, resources=filled)


def _quantities(defaults: Mapping[str, _Default]) -> ResourceQuantities:
    return {key: each.quantity for key, each in defaults.items()}


def _settled(spec: PodSpec, resources: ResourceRequirements) -> ResourceRequirements:
    """Return the pod's own resources with the requests that its limits stand for."""
    total = pod_requests(msgspec.structs.replace(spec, overhead={}))
    missing = (key for key in resources.limits if key not in resources.requests and key in total)
    requests = {key: format_amount(key, total[key]) for key in missing}
    return msgspec.structs.replace(resources, requests={**resources.requests, **requests})


# --- LimitRange: what it refuses ----------------------------------------------------------------


class _Amounts(msgspec.Struct, frozen=True):
    """The amounts that are compared with a limit: of a container, or of a pod as a whole."""

    requests: ResourceQuantities
    limits: ResourceQuantities
    where: str
    """In words, for the reader of a refusal; "" for the pod."""


def _violations(
    spec: ScheduledPodSpec, written: ScheduledPodSpec, ranges: tuple[LimitRange, ...]
) -> Iterator[str]:
    """Yield why the LimitRanges refuse a pod of this spec, their defaults filled in."""
    if not ranges:
        return
    containers = [_of_container(each) for each in (*spec.containers, *spec.init_containers)]
    found_by_type = {CONTAINER: containers, POD: [_of_pod(spec)]}
    for each in ranges:
        for item in each.spec.limits:
            for found in found_by_type.get(item.type, ()):
                yield from _broken(each.metadata.name, item, found)
    yield from _requests_over_limits(spec, written, ranges)


def _broken(name: str, item: LimitRangeItem, found: _Amounts) -> Iterator[str]:
    """Yield which limits of one item the amounts break."""
    per = "container" if item.type == CONTAINER else "pod"
    where = f" ({found.where})" if found.where else ""

    def stated(resource: str) -> list[QuantityText]:
        both = (found.requests, found.limits)
        return [each[resource] for each in both if resource in each]

    for resource, least in item.min.items():
        small = next((each for each in stated(resource) if _nanos(each) < _nanos(least)), None)
        if small is not None or resource not in found.requests:
            asks = "states none" if small is None else f"asks {canonical(small)}"
            words = f"asks for at least {resource} {canonical(least)} per {per}"
            yield f"{_RANGE} {name} {words}, the job {asks}{where}"
    for resource, most in item.max.items():
        large = next((each for each in stated(resource) if _nanos(each) > _nanos(most)), None)
        if large is not None or resource not in found.limits:
            asks = "states no limit" if large is None else f"asks {canonical(large)}"
            words = f"allows at most {resource} {canonical(most)} per {per}"
            yield f"{_RANGE} {name} {words}, the job {asks}{where}"
    for resource, ratio in item.max_limit_request_ratio.items():
        limit, request = found.limits.get(resource, 0), found.requests.get(resource, 0)
        if not _nanos(limit) or not _nanos(request):
            asks = "needs both"
        elif _nanos(limit) * _NANOS <= _nanos(ratio) * _nanos(request):
            continue
        else:
            asks = f"has request {canonical(request)} and limit {canonical(limit)}"
        words = f"allows a limit of at most {canonical(ratio)} times the request of {resource}"
        yield f"{_RANGE} {name} {words} per {per}, the job {asks}{where}"


def _of_container(container: ScheduledContainer) -> _Amounts:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    return _Amounts(requests, resources.limits, f"container {container.name}")


def _of_pod(spec: ScheduledPodSpec) -> _Amounts:
    """Return the sums that a limit on pods is compared with: without overhead."""
    bare = msgspec.structs.replace(spec, overhead={})
    return _Amounts(_texts(pod_requests(bare)), _texts(pod_requests(_as_requests(bare))), "")


def _as_requests(spec: ScheduledPodSpec) -> ScheduledPodSpec:
    """Return a spec that requests what this one has as limits, so that both add up alike."""

    def turned(resources: ResourceRequirements) -> ResourceRequirements:
        return ResourceRequirements(requests=resources.limits)

    def all_of(containers: Iterable[ScheduledContainer]) -> tuple[ScheduledContainer, ...]:
        return tuple(
            [msgspec.structs.replace(each, resources=turned(each.resources)) for each in containers]
        )

    return msgspec.structs.replace(
        spec,
        containers=all_of(spec.containers),
        init_containers=all_of(spec.init_containers),
        resources=None if spec.resources is None else turned(spec.resources),
    )


def _requests_over_limits(
    spec: ScheduledPodSpec, written: ScheduledPodSpec, ranges: tuple[LimitRange, ...]
) -> Iterator[str]:
    """Yield which requests exceed the limit that a LimitRange gives the same container.

    No API server accepts such a pod: a request was written without a limit.
    """
    _, limits = _defaults_of(ranges)
    before = (*written.containers, *written.init_containers)
    after = (*spec.containers, *spec.init_containers)
    for container, own in zip(after, before, strict=True):
        for resource, request in own.resources.requests.items():
            given = limits.get(resource)
            if given is None or resource in own.resources.limits:
                continue
            if _nanos(request) > _nanos(container.resources.limits.get(resource, request)):
                yield (
                    f"{_RANGE} {given.owner} gives containers without a limit {resource}"
                    f" {canonical(given.quantity)}, the job requests {canonical(request)}"
                    f" (container {container.name})"
                )


# --- amounts ------------------------------------------------------------------------------------


def _nanos(quantity: QuantityText) -> int:
    return parse_quantity(quantity).nanos


def _in_nanos(quantities: ResourceQuantities) -> dict[str, int]:
    return {resource: _nanos(quantity) for resource, quantity in quantities.items()}


def _texts(amounts: Amounts) -> ResourceQuantities:
    return {resource: format_amount(resource, amount) for resource, amount in amounts.items()}


def listed(quantities: Mapping[str, QuantityText]) -> str:
    """Return amounts in words: "cpu 500m, memory 1Gi"."""
    return ", ".join(f"{resource} {quantities[resource]}" for resource in sorted(quantities))


def overlay_body(whole: dict[str, Any], reduced: Mapping[str, Any]) -> dict[str, Any]:
    """Write what admission has changed in a reduced template into the whole one, both as JSON."""
    spec, changed = dict(whole.get("spec") or {}), reduced.get("spec") or {}
    for field in ("overhead", "nodeSelector", "tolerations", "schedulerName"):
        if field in changed:
            spec[field] = changed[field]
    for field in ("containers", "initContainers"):
        if field in changed:
            spec[field] = _overlay_containers(spec.get(field) or [], changed[field])
    if "resources" in changed:
        spec["resources"] = {**(spec.get("resources") or {}), **(changed["resources"] or {})}
    labels = (reduced.get("metadata") or {}).get("labels")
    if not labels:
        return {**whole, "spec": spec}
    metadata = whole.get("metadata") or {}
    all_labels = {**(metadata.get("labels") or {}), **labels}
    return {**whole, "metadata": {**metadata, "labels": all_labels}, "spec": spec}


def _overlay_containers(
    whole: list[dict[str, Any]], changed: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    if len(whole) == len(changed):
        return [_with_amounts(one, other) for one, other in zip(whole, changed, strict=True)]
    known = {each.get("name"): each for each in whole}
    return [_with_amounts(known.get(each.get("name"), each), each) for each in changed]


def _with_amounts(container: dict[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    amounts, before = changed.get("resources") or {}, container.get("resources") or {}
    if not amounts and not before:
        return container
    # What admission has removed goes: left beside its replacement, both would count.
    kept = {key: each for key, each in before.items() if key not in {"requests", "limits"}}
    return {**container, "resources": {**kept, **amounts}}
