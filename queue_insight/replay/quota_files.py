"""Quotas, queues and nodes from YAML or JSON, as `kubectl get -o yaml` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml
from msgspec.structs import replace

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.trace_files import read_bytes
from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, read_fair_share
from queue_scheduler.tenants.budget_reading import BudgetError, read_budgets
from queue_scheduler.tenants.calendars import Calendars
from queue_scheduler.tenants.limit_reading import LimitError, read_limits
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.program_flags import StrictLoader

Quota = ElasticQuota | ElasticQuotaTree | ResourceQuota
ObjectT = TypeVar("ObjectT", bound=Quota | QuotaPolicy | Node | Queue)

QUOTA_KINDS: Final[dict[str, type[Quota]]] = {
    "ElasticQuota": ElasticQuota,
    "ElasticQuotaTree": ElasticQuotaTree,
    "ResourceQuota": ResourceQuota,
}

LOOK: Final = "docs/replay.md has an example"


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say, each in the order of its file."""

    quotas: tuple[Quota, ...] = ()
    policies: tuple[QuotaPolicy, ...] = ()
    queues: tuple[Queue, ...] = ()
    nodes: tuple[Node, ...] = ()


def read_quotas(path: Path) -> Objects:
    """Return the quotas of a file, their policies, and its nodes, which say how much there is.

    Raises:
        TraceError: It cannot be read, has another kind, or has no quota.
    """
    quotas: list[Quota] = []
    policies: list[QuotaPolicy] = []
    nodes: list[Node] = []
    for place, body in read_documents(path):
        kind = body.get("kind")
        if kind == "Node":
            nodes.append(_convert(place, body, Node))
        elif kind == "QuotaPolicy":
            policies.append(_read_policy(place, body))
        elif kind in QUOTA_KINDS:
            quotas.append(_convert(place, body, QUOTA_KINDS[kind]))
        else:
            kinds = ", ".join((*QUOTA_KINDS, "QuotaPolicy", "Node"))
            raise TraceError(f"{place}: kind is {kind!r}, want one of {kinds}; {LOOK}")
    if not quotas:
        raise TraceError(f"{path}: it has no quota; {LOOK}")
    return Objects(quotas=tuple(quotas), policies=tuple(policies), nodes=tuple(nodes))


def _read_policy(place: str, body: dict[str, Any]) -> QuotaPolicy:
    """Return a policy, if all of it can be read."""
    policy = _convert(place, body, QuotaPolicy)
    problem = find_problem(policy)
    if problem:
        raise TraceError(f"{place}: {problem}; {LOOK}")
    return policy


def find_problem(policy: QuotaPolicy) -> str:
    """Return why a policy of a file cannot be in force, "" if it can."""
    try:
        read_limits(policy.spec.user_limits, policy.metadata.name)
        calendars = Calendars()
        calendars.put(find_calendars(policy.spec.budgets, 0))
        read_budgets(policy.spec.budgets, policy.metadata.name, calendars)
    except (LimitError, BudgetError) as error:
        return str(error)
    queue = policy.spec.queue
    _, problem = read_fair_share(None if queue is None else queue.fair_share, DEFAULT_FAIR)
    return "" if problem is None else f"queue.{problem}"


def read_queues(path: Path) -> tuple[Queue, ...]:
    """Return the queues of a file.

    Raises:
        TraceError: It cannot be read, or has another kind.
    """
    queues = []
    for place, body in read_documents(path):
        if body.get("kind") != "Queue":
            raise TraceError(f"{place}: kind is {body.get('kind')!r}, want Queue; {LOOK}")
        queues.append(_convert(place, body, Queue))
    return tuple(queues)


def read_documents(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file, lists taken apart, each with its place for errors.

    Raises:
        TraceError: It cannot be read, or something in it is no object.
    """
    try:
        found = list(yaml.load_all(read_bytes(path), Loader=StrictLoader))
    except yaml.YAMLError as error:
        raise TraceError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    for number, document in enumerate(found, 1):
        if document is not None:
            yield from _objects(f"{path}, document {number}", document)


def _objects(place: str, document: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(document, dict):
        raise TraceError(f"{place}: want an object with a kind; {LOOK}")
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        for number, item in enumerate(items, 1):
            yield from _objects(f"{place}, item {number}", item)
    else:
        yield place, document


def _convert(place: str, body: dict[str, Any], kind: type[ObjectT]) -> ObjectT:
    try:
        found = msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise TraceError(f"{place}: {error}; {LOOK}") from error
    meta = found.metadata
    if not meta.name:
        raise TraceError(f"{place}: it has no metadata.name; {LOOK}")
    return replace(found, metadata=_with_uid(kind.__name__, meta))


def _with_uid(kind: str, meta: ObjectMeta) -> ObjectMeta:
    """Return metadata with a uid: a file that was written by hand has none."""
    return meta if meta.uid else replace(meta, uid=Uid(f"{kind}/{meta.key}"))
