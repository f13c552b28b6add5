"""The names that the form of what-if questions offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from queue_insight.page.known_state import KnownState
from queue_insight.page.sources import EngineAtTime
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.views import QuotaNodeView
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.views import View
from shared_api.json_pointer import pointer_token
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node
from shared_api.objects.quota_policy import QuotaPolicy

MAX_NAMES: Final = 2000
"""Names of each kind: a browser shows that many under a field while one types. Some 300 kB."""

MAX_POLICIES: Final = 200
"""QuotaPolicies: each may have some thousand values."""
MAX_VALUES: Final = 200
"""Values of one policy."""


class QueueName(View):
    """A queue, and the namespace of its object."""

    name: str
    namespace: str


class QuotaName(View):
    """A quota, its parent ("": none), and the limits that an edit would change.

    `editable`: it is an ElasticQuota. Others come from an ElasticQuotaTree, a ResourceQuota or a
    plugin, so an edit of an ElasticQuota would create a second quota of this name.
    """

    name: str
    namespace: str
    parent: str
    editable: bool
    min: dict[str, str]
    max: dict[str, str]


class PolicyValue(View):
    """A value of a QuotaPolicy that an edit may change.

    `path` is that of a JSON patch, `value` what the policy has there, and `text` says in words
    which limit or budget it is of.
    """

    path: str
    value: str | int | float
    text: str


class PolicyName(View):
    """A QuotaPolicy with the values of its limits and budgets, in their order."""

    name: str
    namespace: str
    values: list[PolicyValue]


class KnownNames(View):
    """The first queues, quotas, policies and nodes by name; `complete`: there are no others.

    Nodes and policies are named to visitors who may read everything: no other answer of the page
    names a node, and a policy names users.
    """

    queues: list[QueueName]
    quotas: list[QuotaName]
    policies: list[PolicyName]
    nodes: list[str]
    complete: bool


class _Objects(NamedTuple):
    """Objects by namespace and name, nodes by name."""

    queues: list[tuple[str, str]]
    elastic_quotas: set[tuple[str, str]]
    nodes: list[str]
    policies: list[QuotaPolicy]


def show_names(asked: EngineAtTime, state: KnownState, visitor: Visitor) -> KnownNames:
    """Return the names that a visitor may see.

    Args:
        asked: The engine of now.
        state: What is known of it.
        visitor: Who is shown them.
    """
    found = asked.shared.ask(_read)
    nodes = sorted(found.nodes) if visitor.reads_all else []
    policies = sorted(found.policies, key=lambda each: each.metadata.name)
    policies = policies if visitor.reads_all else []
    queues = sorted(found.queues, key=lambda key: key[::-1])
    quotas = sorted(_all(state.trees), key=lambda quota: quota.name)
    return KnownNames(
        queues=[
            QueueName(name=name, namespace=namespace) for namespace, name in queues[:MAX_NAMES]
        ],
        quotas=[_show(quota, found.elastic_quotas) for quota in quotas[:MAX_NAMES]],
        policies=[_show_policy(each) for each in policies[:MAX_POLICIES]],
        nodes=nodes[:MAX_NAMES],
        complete=max(len(queues), len(quotas), len(nodes)) <= MAX_NAMES
        and len(policies) <= MAX_POLICIES,
    )


def _read(engine: Engine) -> _Objects:
    found = _Objects([], set(), [], [each.api_object for each in engine.policies])
    for queue in engine.queues:
        meta = queue.rules.api_object.metadata
        found.queues.append((meta.namespace, meta.name))
    for quota in engine.objects.of_kind(ElasticQuota):
        found.elastic_quotas.add((quota.metadata.namespace, quota.metadata.name))
    for node in engine.objects.of_kind(Node):
        found.nodes.append(node.metadata.name)
    return found


def _show(quota: QuotaNodeView, elastic: set[tuple[str, str]]) -> QuotaName:
    return QuotaName(
        name=quota.name,
        namespace=quota.namespace,
        parent=quota.parent,
        editable=(quota.namespace, quota.name) in elastic,
        min=quota.min,
        max=quota.max,
    )


def _show_policy(policy: QuotaPolicy) -> PolicyName:
    return PolicyName(
        name=policy.metadata.name,
        namespace=policy.metadata.namespace,
        values=list(islice(_values_of(policy), MAX_VALUES)),
    )


def _values_of(policy: QuotaPolicy) -> Iterator[PolicyValue]:
    for number, limit in enumerate(policy.spec.user_limits):
        at, whose = f"/spec/userLimits/{number}", ", ".join((*limit.users, *limit.groups))
        about = f"userLimits {number} ({'users' if limit.users else 'groups'} {whose})"
        for key, amount in limit.max.items():
            path = f"{at}/max/{pointer_token(key)}"
            yield PolicyValue(path=path, value=amount, text=f"{about}: {key}")
        for name, count in (("running", limit.running), ("pending", limit.pending)):
            if count is not None:
                yield PolicyValue(path=f"{at}/{name}", value=count, text=f"{about}: {name}")
    for number, budget in enumerate(policy.spec.budgets):
        field = "amount" if budget.hours is None else "hours"
        value = getattr(budget, field)
        if value is not None:
            what = f"hours of {budget.resource}" if field == "hours" else "amount"
            text = f"budgets {number} ({budget.period}): {what}"
            yield PolicyValue(path=f"/spec/budgets/{number}/{field}", value=value, text=text)


def _all(trees: Iterable[QuotaNodeView]) -> Iterator[QuotaNodeView]:
    for tree in trees:
        yield tree
        yield from _all(tree.children)
