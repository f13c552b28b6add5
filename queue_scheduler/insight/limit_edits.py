"""A limit with more room: the edited object, as an engine is told of it and as a user patches it.

Only the newest object is edited, as the API server has it: what the arithmetic makes of it (a rate,
a scaled min, a division) is up to the engine that is told. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.insight.change import ChangeKind, Patch, patch_of
from queue_scheduler.insight.trials import Edit
from queue_scheduler.quota.quota_tree_spec import SEPARATOR
from queue_scheduler.quota.resource_quota_spec import REQUESTS, quota_name
from queue_scheduler.quota_plugin import QuotaPlugin
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import QuantityText, ResourceQuantities
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.quantity import QuantityError, format_amount
from shared_api.quantity import amount as amount_of
from shared_api.resource_list import Amounts, maximum
from shared_api.resource_names import current_name
from shared_api.well_known_labels import TREE_ROOT

_MAX: Final = frozenset({Reason.OVER_QUOTA_MAX, Reason.OVER_PARENT_MAX})
_MIN: Final = frozenset(
    {
        *(Reason.OVER_MIN, Reason.NON_PREEMPTIBLE_OVER_MIN),
        *(Reason.OVER_RUNTIME, Reason.OVER_PARENT_RUNTIME),
    }
)
_SHARED: Final = frozenset(
    {
        *(Reason.OVER_RUNTIME, Reason.OVER_PARENT_RUNTIME),
        *(Reason.HURTS_OTHERS, Reason.GUARANTEE_OF_OTHERS),
    }
)
"""What a quota gets follows from what others are owed, and from the total: a higher min helps, and
so do more nodes."""


class Limit(NamedTuple):
    """One limit of one object: the max or min of a quota, or the nodes."""

    kind: ChangeKind
    quota: str = ""
    namespace: str = ""
    """That of the quota's object, if there are several of its name."""


class Raised(NamedTuple):
    """A limit with more room.

    Attributes:
        edit: As an engine is told.
        text: The new value, for a sentence.
        patches: As the object is patched; () if that would lose what is not known here.
    """

    edit: Edit
    text: str
    patches: tuple[Patch, ...]


def find_limits(info: QueueUnitInfo, refusals: Iterable[Refusal]) -> dict[Limit, Amounts]:
    """Return the limits that keep a unit from starting, each with what is missing."""
    found: dict[Limit, Amounts] = {}
    for refusal in refusals:
        if not refusal.resource:
            continue
        missing = {refusal.resource: refusal.missing or refusal.requested or 1}
        for limit in _limits_of(info, refusal):
            found[limit] = maximum(found.get(limit, {}), missing)
    return found


def _limits_of(info: QueueUnitInfo, refusal: Refusal) -> list[Limit]:
    kind, namespace = refusal.kind, refusal.quota_namespace
    limits = []
    if kind in _MAX:
        limits.append(Limit(ChangeKind.QUOTA_MAX, refusal.quota, namespace))
    if kind in _MIN:
        limits.append(Limit(ChangeKind.QUOTA_MIN, refusal.quota, namespace))
    elif kind in _SHARED:
        limits.append(Limit(ChangeKind.QUOTA_MIN, info.quota))
    if kind is Reason.GUARANTEE_OF_OTHERS:
        limits.append(Limit(ChangeKind.QUOTA_MAX, refusal.quota, namespace))
    if kind in _SHARED or kind is Reason.NO_CAPACITY:
        limits.append(Limit(ChangeKind.NODES))
    return limits


def raise_limit(engine: Engine, limit: Limit, more: Amounts) -> Raised | None:
    """Return a limit raised by these amounts; None: its object is unknown, or has no such limit."""
    objects = engine.objects
    if limit.kind is ChangeKind.NODES:
        return None
    if quota := _find_elastic(objects.of_kind(ElasticQuota), limit):
        return _raise_elastic(quota, limit.kind, more)
    for tree in objects.of_kind(ElasticQuotaTree):
        raised = _raise_node(tree, limit, more)
        if raised is not None:
            return raised
    for hard in objects.of_kind(ResourceQuota):
        if quota_name(hard.metadata.namespace, hard.metadata.name) == limit.quota:
            return _raise_hard(hard, more)
    return None


def left_under(engine: Engine, limit: Limit, resource: str) -> int:
    """Return how much is left under a quota's max; 0 if it is not known, or the limit is another.

    With a rate above 1 the max is compared times the rate: what is left there is less here.
    """
    if limit.kind is not ChangeKind.QUOTA_MAX:
        return 0
    for plugin in engine.plugins.plugins:
        if isinstance(plugin, QuotaPlugin) and (view := plugin.quotas.view(limit.quota)):
            settings = plugin.quotas.trees.settings
            left = view.limits.get(resource, 0) - view.used.get(resource, 0)
            return left * settings.oversell_denominator // settings.oversell_numerator
    return 0


def _find_elastic(quotas: Iterable[ElasticQuota], limit: Limit) -> ElasticQuota | None:
    named = [
        each
        for each in quotas
        if each.metadata.name == limit.quota and limit.namespace in {"", each.metadata.namespace}
    ]
    return named[0] if len(named) == 1 else None


def _raise_elastic(quota: ElasticQuota, kind: ChangeKind, more: Amounts) -> Raised | None:
    field = "max" if kind is ChangeKind.QUOTA_MAX else "min"
    new = _raise(getattr(quota.spec, field), more, current_name)
    if new is None:
        return None
    spec = replace(quota.spec, **{field: {**getattr(quota.spec, field), **new}})
    patch = {"spec": {field: new}}
    return Raised(
        lambda engine: engine.on_quota(replace(quota, spec=spec)),
        _listed(new),
        (patch_of("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", quota.metadata, patch),),
    )


def _raise_hard(quota: ResourceQuota, more: Amounts) -> Raised | None:
    new = _raise(quota.spec.hard, more, _requested)
    if new is None:
        return None
    spec = replace(quota.spec, hard={**quota.spec.hard, **new})
    return Raised(
        lambda engine: engine.on_quota(replace(quota, spec=spec)),
        _listed(new),
        (patch_of("v1", "ResourceQuota", quota.metadata, {"spec": {"hard": new}}),),
    )


def _requested(key: str) -> str:
    """Return the resource that a key of `hard` limits."""
    return current_name(key.removeprefix(REQUESTS))


def _raise_node(tree: ElasticQuotaTree, limit: Limit, more: Amounts) -> Raised | None:
    first, *names = limit.quota.split(SEPARATOR)
    field = "max" if limit.kind is ChangeKind.QUOTA_MAX else "min"
    changed: ResourceQuantities = {}

    def rebuild(node: ElasticQuotaTreeNode, path: list[str]) -> ElasticQuotaTreeNode | None:
        if not path:
            new = _raise(getattr(node, field), more, current_name)
            changed.update(new or {})
            if new is None:
                return None
            return replace(node, **{field: {**getattr(node, field), **new}})
        for number, child in enumerate(node.children):
            if child.name == path[0]:
                below = rebuild(child, path[1:])
                if below is None:
                    return None
                children = (*node.children[:number], below, *node.children[number + 1 :])
                return replace(node, children=children)
        return None

    root = rebuild(tree.spec.root, names) if first == TREE_ROOT else None
    if root is None:
        return None
    edited = replace(tree, spec=replace(tree.spec, root=root))
    patches: tuple[Patch, ...] = ()
    if not names:
        # Below the root, a merge patch would replace a whole list of nodes by what is read of them.
        patch = {"spec": {"root": {field: changed}}}
        kind = ("scheduling.sigs.k8s.io/v1beta1", "ElasticQuotaTree")
        patches = (patch_of(*kind, tree.metadata, patch),)
    return Raised(lambda engine: engine.on_quota(edited), _listed(changed), patches)


def _raise(
    listed: Mapping[str, QuantityText], more: Amounts, name_of: Callable[[str], str]
) -> ResourceQuantities | None:
    """Return the entries of a resource list that change; of two keys of one resource, both may.

    None: a value cannot be read.
    """
    new: ResourceQuantities = {}
    try:
        for resource, amount in more.items():
            keys = {
                key: amount_of(resource, text)
                for key, text in listed.items()
                if name_of(key) == resource
            } or {resource: 0}
            target = min(keys.values()) + amount
            text = format_amount(resource, target)
            new.update({key: text for key, has in keys.items() if has < target})
    except QuantityError:
        return None
    return new


def _listed(new: ResourceQuantities) -> str:
    return ", ".join(f"{text} of {resource}" for resource, text in sorted(new.items()))


# --- nodes ----------------------------------------------------------------------------------------


class NodeCopies(msgspec.Struct, frozen=True):
    """Nodes like one that is there; `first`: how many there are already."""

    like: Node
    count: int
    first: int = 0

    @property
    def edit(self) -> Edit:
        """The nodes as an engine is told of them."""
        nodes = [self._copy(number) for number in range(self.first, self.first + self.count)]
        return lambda engine: tuple(name for node in nodes for name in engine.on_node(node))

    def _copy(self, number: int) -> Node:
        # A slash is in no node's name, so these collide with none.
        name = f"{self.like.metadata.name}/{number}"
        return replace(
            self.like, metadata=replace(self.like.metadata, name=name, uid=Uid(f"uid-{name}"))
        )


def nodes_for(engine: Engine, missing: Amounts) -> NodeCopies | None:
    """Return as many copies of the node with which the fewest suffice; None: no node has it all."""
    found: list[tuple[int, str, Node]] = []
    for node in engine.objects.of_kind(Node):
        try:
            has = {key: amount_of(key, node.status.allocatable.get(key, 0)) for key in missing}
        except QuantityError:
            continue
        if all(has[key] > 0 for key in missing):
            count = max(-(-amount // has[key]) for key, amount in missing.items())
            found.append((count, node.metadata.name, node))
    if not found:
        return None
    count, _, node = min(found, key=lambda each: each[:2])
    return NodeCopies(like=node, count=count)
