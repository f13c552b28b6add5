"""The pods of a unit, read with the token of who looks at it: where they are, what they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from queue_insight.page.api_answers import ListMeta, Meta, Wire, decode, shorten
from queue_insight.page.unit_objects import UnitObjects
from queue_insight.page.visitor_client import VisitorClient, in_words, is_segment, segment
from shared_api.client.errors import ApiFailure, NotFound
from shared_api.client.resource_types import PODS
from shared_api.debug_api.views import View
from shared_api.objects.queue_unit import ConsumerReference

MAX_PODS: Final = 200
"""Pods that are listed of a job."""
PODS_PAGE: Final = 50
"""How many of them by one request: its answer is bounded, and a pod may have some 80 kB."""
MAX_NAMED: Final = 30
"""Pods that are asked for by name, by one request each, where no label says which a job has."""
MAX_LABEL: Final = 63
"""Characters of a label's value."""

_POD_LABELS: Final = {
    ("batch", "Job"): ("batch.kubernetes.io/controller-uid", "uid"),
    ("jobset.x-k8s.io", "JobSet"): ("jobset.sigs.k8s.io/jobset-name", "name"),
    ("kubeflow.org", "PyTorchJob"): ("training.kubeflow.org/job-name", "name"),
    ("kubeflow.org", "TFJob"): ("training.kubeflow.org/job-name", "name"),
    ("kubeflow.org", "XGBoostJob"): ("training.kubeflow.org/job-name", "name"),
    ("kubeflow.org", "PaddleJob"): ("training.kubeflow.org/job-name", "name"),
    ("kubeflow.org", "JAXJob"): ("training.kubeflow.org/job-name", "name"),
    ("kubeflow.org", "MPIJob"): ("training.kubeflow.org/job-name", "name"),
    ("trainer.kubeflow.org", "TrainJob"): ("jobset.sigs.k8s.io/jobset-name", "name"),
    ("ray.io", "RayCluster"): ("ray.io/cluster", "name"),
}
"""By group and kind of a job: the label of its pods, and which of the job's fields it has. With the
label, the pods that have ended are found as well, which the engine does not know."""


class PodView(View):
    """A pod.

    `started` is when the node took it, `ran` when its first container began, and `ended` when its
    last one did; null: not yet. `reason` and `message` say why it does not run, or how it ended.
    """

    name: str
    node: str
    phase: str
    reason: str = ""
    message: str = ""
    restarts: int = 0
    started: str | None = None
    ran: str | None = None
    ended: str | None = None


class PodsView(View):
    """The pods of a unit; `problem`: what was not read, and why.

    `more`: the job has further ones. `left_out`: how many that have not ended were not read.
    """

    pods: list[PodView]
    more: bool = False
    left_out: int = 0
    problem: str = ""


class _Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Waiting(Wire):
    reason: str = ""
    message: str = ""


class _Running(Wire):
    started_at: str | None = None


class _Terminated(Wire):
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class _State(Wire):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _Container(Wire):
    restart_count: int = 0
    state: _State = msgspec.field(default_factory=_State)


class _PodStatus(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[_Condition] | None = None
    init_container_statuses: list[_Container] | None = None
    container_statuses: list[_Container] | None = None


class _PodSpec(Wire):
    node_name: str = ""


class _Owner(Wire):
    api_version: str = ""
    kind: str = ""
    controller: bool | None = None


class _PodMeta(Meta):
    owner_references: list[_Owner] | None = None


class _Pod(Wire):
    metadata: _PodMeta = msgspec.field(default_factory=_PodMeta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _PodList(Wire):
    items: list[_Pod] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_pods: Final = msgspec.json.Decoder(_Pod)
_pod_lists: Final = msgspec.json.Decoder(_PodList)


def read_pods(client: VisitorClient, unit: UnitObjects) -> PodsView:
    """Return the pods of a unit.

    Pods that were not read have no name here: the engine has them by the rights of the program, and
    the visitor may have fewer.
    """
    found: list[_Pod] = []
    more, problem = False, ""
    selector = _pod_selector(unit.job)
    try:
        if selector:
            for page in _list_pods(client, unit.namespace, selector):
                found.extend(page.items or ())
                more = bool(page.metadata.more)
        else:
            for name in _pod_names(unit)[:MAX_NAMED]:
                found.extend(_read_pod(client, unit.namespace, name))
    except ApiFailure as failure:
        problem = in_words(failure)
    found = [each for each in found if not _is_of_other_kind(each, unit.job)]
    names = {each.metadata.name for each in found}
    return PodsView(
        pods=list(map(_show_pod, found[:MAX_PODS])),
        more=more or len(found) > MAX_PODS,
        left_out=sum(each.name not in names for each in unit.pods),
        problem=problem,
    )


def _pod_selector(job: ConsumerReference | None) -> str:
    if job is None:
        return ""
    label, field = _POD_LABELS.get((_group_of(job.api_version), job.kind), ("", ""))
    value = job.uid if field == "uid" else job.name
    # Commas and the like would make another selector of it.
    is_value = is_segment(value) and len(value) <= MAX_LABEL
    return f"{label}={value}" if label and is_value else ""


def _list_pods(client: VisitorClient, namespace: str, selector: str) -> Iterator[_PodList]:
    query = {"labelSelector": selector, "limit": str(PODS_PAGE)}
    for _ in range(MAX_PODS // PODS_PAGE):
        page = decode(_pod_lists, client.get_raw(PODS.path(segment(namespace)), query))
        yield page
        if not page.metadata.more:
            return
        query["continue"] = page.metadata.more


def _pod_names(unit: UnitObjects) -> list[str]:
    known = [each.name for each in unit.pods]
    job = unit.job
    if job is None or (job.api_version, job.kind) != ("v1", PODS.kind):
        return known
    return list(dict.fromkeys([job.name, *known]))  # it may have ended


def _is_of_other_kind(pod: _Pod, job: ConsumerReference | None) -> bool:
    """Return whether a pod is of a job of the same name and of another kind: some share a label."""
    owners = pod.metadata.owner_references or ()
    if job is None:
        return False
    group = _group_of(job.api_version)
    return any(
        each.controller
        and each.kind != job.kind
        and _group_of(each.api_version) == group
        and (group, each.kind) in _POD_LABELS
        for each in owners
    )


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _read_pod(client: VisitorClient, namespace: str, name: str) -> list[_Pod]:
    try:
        return [decode(_pods, client.get_raw(PODS.path(segment(namespace), segment(name))))]
    except NotFound:  # it has ended meanwhile
        return []


def _show_pod(pod: _Pod) -> PodView:
    status = pod.status
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    states = [each.state for each in status.container_statuses or ()]
    reason, message = _why(status, containers)
    running = [each.running for each in states if each.running]
    ended = [each.terminated for each in states if each.terminated]
    begun = [*(each.started_at for each in running), *(each.started_at for each in ended)]
    ends = [each.finished_at for each in ended if each.finished_at]
    has_ended = status.phase in {"Succeeded", "Failed"} and not running
    return PodView(
        name=shorten(pod.metadata.name),
        node=shorten(pod.spec.node_name),
        phase=shorten(status.phase) or "Unknown",
        reason=shorten(reason),
        message=shorten(message),
        restarts=sum(each.restart_count for each in containers),
        started=status.start_time,
        # All times are in UTC and have whole seconds, so the earliest is the first as a text.
        ran=min(filter(None, begun), default=None),
        ended=max(ends, default=None) if has_ended else None,
    )


def _why(status: _PodStatus, containers: Iterable[_Container]) -> tuple[str, str]:
    """Return why a pod does not run, or how it ended; ("", "") if all is well."""
    if status.reason:
        return status.reason, status.message
    for each in containers:
        if each.state.waiting and each.state.waiting.reason:
            return each.state.waiting.reason, each.state.waiting.message
    for each in containers:
        ended = each.state.terminated
        if ended and ended.exit_code:
            return ended.reason or "Error", ended.message or f"exit code {ended.exit_code}"
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return "", status.message
