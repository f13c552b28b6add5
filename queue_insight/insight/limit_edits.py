"""A limit with more room: the edited object, as an engine takes it and as a user patches it.

Only the newest object is edited, as the API server has it: what the arithmetic makes of it (a rate,
a scaled min, a division) is up to the engine that is told. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from queue_insight.insight.change import ChangeKind, Patch, merge_patches, patch_of
from queue_insight.insight.trials import Edit
from queue_insight.insight.user_limit_edits import (
    UserLimitPlace,
    find_place,
    left_at,
    name_more,
    name_place,
    raise_entry,
)
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.cluster_objects import ClusterObjects
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.quota.quota_tree_spec import SEPARATOR
from queue_scheduler.quota.resource_quota_spec import REQUESTS, quota_name
from queue_scheduler.quota_plugin import quota_plugins
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import QuantityText, ResourceQuantities
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.quantity import QuantityError, Rounding, amount_for_people, format_amount
from shared_api.quantity import amount as amount_of
from shared_api.resource_list import Amounts, maximum, parse_amounts
from shared_api.resource_names import RENAMED_BATCH, current_name, rename_deprecated
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
    """One limit of one object: the max or min of a quota, what a user may have, or the nodes."""

    kind: ChangeKind
    quota: str = ""
    namespace: str = ""
    """The namespace of the quota's object, if several namespaces have one of its name."""
    place: UserLimitPlace | None = None
    """The entry of the policy that states it, if it is the limit of a user or group."""


Raises: TypeAlias = dict[Limit, Amounts]
"""The amounts by which limits are raised."""
_Limiting: TypeAlias = ElasticQuota | ElasticQuotaTree | ResourceQuota


class Raised(NamedTuple):
    """Limits with more room.

    Attributes:
        edits: The objects as an engine takes them, one edit for each.
        raises: By how much each limit is raised: as asked, and the max of a quota whose min would
            be above it.
        values: The new values of each limit, for a sentence.
        patches: The patches of the objects, one for each; none for an object whose patch would lose
            fields that are not known here.
    """

    edits: tuple[Edit, ...]
    raises: Raises
    values: dict[Limit, str]
    patches: tuple[Patch, ...]


class _Edited(NamedTuple):
    """An object in which one limit has more room.

    Attributes:
        thing: The object.
        new: The keys that change, with their new values.
        patch: Its patch; None if it would lose fields that are not known here.
    """

    thing: _Limiting
    new: ResourceQuantities
    patch: Patch | None


def find_limits(engine: Engine, info: QueueUnitInfo, refusals: Iterable[Refusal]) -> Raises:
    """Return the limits that keep a unit from starting, each with what is missing."""
    found: Raises = {}
    for refusal in refusals:
        if not refusal.resource:
            continue
        missing = {refusal.resource: refusal.missing or refusal.requested or 1}
        for limit in _limits_of(engine, info, refusal):
            found[limit] = maximum(found.get(limit, {}), missing)
    return found


def _limits_of(engine: Engine, info: QueueUnitInfo, refusal: Refusal) -> list[Limit]:
    kind, namespace = refusal.kind, refusal.quota_namespace
    limits = []
    if place := find_place(engine, info, refusal):
        limits.append(Limit(ChangeKind.USER_LIMIT, refusal.quota, place=place))
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


def raise_limits(engine: Engine, raises: Raises) -> Raised | None:
    """Return limits of quotas raised together; None if the object of one is unknown, or unreadable.

    A min is not raised above its max, which the API server would refuse: the max is raised as well.
    """
    objects = engine.objects.copy()
    things: dict[tuple[str, str], _Limiting] = {}
    wanted, values, patches = Raises(raises), dict[Limit, str](), list[Patch]()
    for kind in (ChangeKind.QUOTA_MIN, ChangeKind.QUOTA_MAX):
        for limit in [each for each in wanted if each.kind is kind]:
            edited = _raise_in(objects, limit, wanted[limit])
            if edited is None:
                return None
            thing = edited.thing
            objects.put(thing)
            things[type(thing).__name__, thing.metadata.key] = thing
            values[limit] = _listed(edited.new)
            patches += [] if edited.patch is None else [edited.patch]
            if kind is ChangeKind.QUOTA_MIN and (above := _above_max(thing, limit)):
                most = limit._replace(kind=ChangeKind.QUOTA_MAX)
                wanted[most] = maximum(wanted.get(most, {}), above)
    edits = tuple(partial(Engine.on_quota, quota=thing) for thing in things.values())
    policies: dict[str, QuotaPolicy] = {}
    for limit in [each for each in wanted if each.place is not None]:
        raised = _raise_user(engine, policies, limit, wanted[limit])
        if raised is None:
            return None
        values[limit], patch = raised
        patches.append(patch)
    edits += tuple(partial(Engine.on_quota_policy, policy=each) for each in policies.values())
    return Raised(edits, {each: wanted[each] for each in values}, values, merge_patches(patches))


def _raise_user(
    engine: Engine, policies: dict[str, QuotaPolicy], limit: Limit, more: Amounts
) -> tuple[str, Patch] | None:
    """Put the policy of a limit with more room into `policies`; return the values and the patch.

    None: its limits are not those of its spec, which cannot be read.
    """
    place = limit.place
    stated = None if place is None else engine.policies.find(place.policy)
    if place is None or stated is None or stated.problem:
        return None
    raised = raise_entry(policies.get(place.policy, stated.api_object), place, more)
    if raised is None:
        return None
    policies[place.policy], values, patch = raised
    return values, patch


def _raise_in(objects: ClusterObjects, limit: Limit, more: Amounts) -> _Edited | None:
    """Return the object of a limit with more room."""
    if quota := _find_elastic(objects.of_kind(ElasticQuota), limit):
        return _raise_elastic(quota, limit.kind, more)
    for tree in objects.of_kind(ElasticQuotaTree):
        edited = _raise_node(tree, limit, more)
        if edited is not None:
            return edited
    for hard in objects.of_kind(ResourceQuota):
        if quota_name(hard.metadata.namespace, hard.metadata.name) == limit.quota:
            return _raise_hard(hard, more)
    return None


def _above_max(thing: _Limiting, limit: Limit) -> Amounts:
    """Return by how much the min of a quota is above its max."""
    node: ElasticQuotaSpec | ElasticQuotaTreeNode | None = None
    if isinstance(thing, ElasticQuota):
        node = thing.spec
    elif isinstance(thing, ElasticQuotaTree):
        node = thing.spec.root
        for name in limit.quota.split(SEPARATOR)[1:]:
            node = next(each for each in node.children if each.name == name)
    if node is None:
        return {}
    try:
        least, most = (
            rename_deprecated(parse_amounts(each), RENAMED_BATCH) for each in (node.min, node.max)
        )
    except QuantityError:
        return {}
    return {key: least[key] - most[key] for key in least if key in most and least[key] > most[key]}


def name_limit(limit: Limit) -> str:
    """Return a limit of a quota, or of a user in it, in words."""
    if limit.place is not None:
        return name_place(limit.place)
    which = f"{limit.namespace}/{limit.quota}" if limit.namespace else limit.quota
    return f"the {'max' if limit.kind is ChangeKind.QUOTA_MAX else 'min'} of quota {which}"


def name_raise(raised: Raised, limit: Limit) -> str:
    """Return by how much a limit is raised, and to what, in words."""
    more = raised.raises[limit]
    if limit.place is not None:
        return name_more(limit.place, more, raised.values[limit])
    amounts = ", ".join(f"{_shown(key, more[key])} of {key}" for key in sorted(more))
    return f"{name_limit(limit)} by {amounts}, to {raised.values[limit]}"


def left_under(engine: Engine, limit: Limit, resource: str) -> int:
    """Return how much is left under a max, or under a user's limit; 0 if unknown, or for a min.

    With a rate above 1 the max is compared times the rate: what is left there is less here.
    """
    if limit.place is not None:
        return left_at(engine, limit.place, resource)
    if limit.kind is not ChangeKind.QUOTA_MAX:
        return 0
    for plugin in quota_plugins(engine.plugins):
        if view := plugin.quotas.view(limit.quota):
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


def _raise_elastic(quota: ElasticQuota, kind: ChangeKind, more: Amounts) -> _Edited | None:
    field = "max" if kind is ChangeKind.QUOTA_MAX else "min"
    new = _raise(getattr(quota.spec, field), more, current_name)
    if new is None:
        return None
    spec = replace(quota.spec, **{field: {**getattr(quota.spec, field), **new}})
    kind_of = ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota")
    patch = patch_of(*kind_of, quota.metadata, {"spec": {field: new}})
    return _Edited(replace(quota, spec=spec), new, patch)


def _raise_hard(quota: ResourceQuota, more: Amounts) -> _Edited | None:
    new = _raise(quota.spec.hard, more, _requested)
    if new is None:
        return None
    spec = replace(quota.spec, hard={**quota.spec.hard, **new})
    patch = patch_of("v1", "ResourceQuota", quota.metadata, {"spec": {"hard": new}})
    return _Edited(replace(quota, spec=spec), new, patch)


def _requested(key: str) -> str:
    """Return the resource that a key of `hard` limits."""
    return current_name(key.removeprefix(REQUESTS))


def _raise_node(tree: ElasticQuotaTree, limit: Limit, more: Amounts) -> _Edited | None:
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
    patch = None
    if not names:
        # Below the root, a merge patch would replace a whole list of nodes by what is read of them.
        kind = ("scheduling.sigs.k8s.io/v1beta1", "ElasticQuotaTree")
        patch = patch_of(*kind, tree.metadata, {"spec": {"root": {field: changed}}})
    return _Edited(edited, changed, patch)


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
    return ", ".join(
        f"{_shown(key, amount_of(_requested(key), text))} of {key}"
        for key, text in sorted(new.items())
    )


def _shown(resource: str, amount: int) -> str:
    """Return an amount that is needed; patches have it exactly."""
    return amount_for_people(_requested(resource), amount, Rounding.UP)


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
    """Return the copies of a node that suffice, as few as possible; None: no node has it all."""
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
