"""Another place for the unit: a priority, a queue, a quota, an end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from queue_insight.insight.change import (
    Change,
    ChangeKind,
    annotated,
    count_of,
    labeled,
    patch_owner,
)
from queue_insight.insight.question import Question
from queue_insight.insight.trials import Edit, edit_spec, replacement
from queue_scheduler.cache.known_units import occupying_units, pending_units, place_in
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Mapped
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.quota.quota_tree_spec import parse_tree
from queue_scheduler.quota.tree_node_lookup import ALL_NAMESPACES, short_name
from queue_scheduler.quota_plugin import quota_plugins
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quota_names import read_namespaces
from shared_api.well_known_labels import (
    ACTIVE,
    MAX_EXEC_TIME,
    PRIORITY,
    QUEUE_NAME,
    QUOTA_IS_PARENT,
    QUOTA_NAME,
    SPECIAL_QUOTAS,
    TREE_QUOTA_NAME,
    read_tree_quota_name,
)

MAX_READ: Final = 1_000
"""Units ahead whose priorities are considered."""
MAX_PLACES: Final = 4
"""Queues, and quotas, that are tried."""
MAX_NAMED: Final = 2
"""Queues, and quotas, that an answer names."""
MAX_PRIORITY: Final = 2**31 - 1


def find_place_changes(question: Question) -> Iterator[Change]:
    """Yield places in which the unit starts."""
    changes = (_go_first(question), _end_before_head(question), _be_active(question))
    yield from (change for change in changes if change is not None)
    yield from _other_queues(question)
    yield from _other_quotas(question)


def _edit(question: Question, **changed: int | bool) -> Edit:
    return edit_spec(question.record, replace(question.record.unit.spec, **changed))


# --- priority -------------------------------------------------------------------------------------


def _go_first(question: Question) -> Change | None:
    """Return the least priority with which the unit starts."""
    levels = _levels(question)
    if not levels:
        return None
    outcome = question.trials.attempt(_edit(question, priority=levels[-1]))
    if not outcome.starts:
        return None
    low, high = -1, len(levels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        tried = question.trials.attempt(_edit(question, priority=levels[middle]))
        if tried.starts:
            high, outcome = middle, tried
        else:
            low = middle
    priority = levels[high]
    less = _edit(question, priority=priority - 1)
    evicts = f", and evicts {count_of(len(outcome.victims), 'unit')}" if outcome.victims else ""
    return Change(
        kind=ChangeKind.PRIORITY,
        description=f"With priority {priority} it is early enough in its queue{evicts}.",
        sufficient=True,
        minimal=not question.trials.attempt(less).starts,
        also_starts=outcome.also,
        patches=patch_owner(
            question.record,
            of_job=annotated({PRIORITY: str(priority)}),
            of_unit={"spec": {"priority": priority}},
        ),
        units=outcome.victims,
        edits=(_edit(question, priority=priority),),
    )


def _levels(question: Question) -> list[int]:
    """Return, ascending, the priorities that put the unit before others of its queue.

    Equal priorities are ordered by creation, so both the priority of another unit and the next
    higher one count.
    """
    info, queue, record = question.info, question.queue, question.record
    if info is None or queue is None or record.is_lowered:
        return []  # the ceiling of its queue counts already
    if not (queue.rules.lets_evict or _would_pass(question, info.quota)):
        return []  # it does not fit, wherever it stands
    ceiling = queue.rules.options.max_priority
    units = question.engine.units
    unit = record.unit
    raised = replace(unit, spec=replace(unit.spec, priority=info.priority + 1))
    if place_in(units, queue, raised) == info.order_key:
        return []  # its queue does not order by priority
    ahead = islice(pending_units(question.engine.units, queue.name), MAX_READ)
    others = {each.priority for each in ahead if each.priority >= info.priority}
    if queue.rules.lets_evict:
        others |= {
            each.priority for each in occupying_units(units) if each.queue_name == queue.name
        }
    levels = {level for each in others for level in (each, each + 1) if level > info.priority}
    levels |= {queue.rules.options.priority_threshold} - set(range(info.priority + 1))
    most = MAX_PRIORITY if ceiling is None else ceiling
    return sorted(level for level in levels if level <= most)


# --- the time that it runs ------------------------------------------------------------------------


def _end_before_head(question: Question) -> Change | None:
    """Return the longest time to run with which the unit does not delay the head of its queue."""
    if question.reasons.isdisjoint({Reason.WOULD_DELAY_HEAD, Reason.NO_MAX_EXECUTION_TIME}):
        return None
    heads = [
        blocker.other
        for blocker in question.explanation.blockers
        if blocker.reason in {Reason.WOULD_DELAY_HEAD, Reason.NO_MAX_EXECUTION_TIME}
    ]
    wall = int(question.trials.wall.timestamp())
    promise = question.engine.backfill.promise_of_unit(heads[0], wall)
    if promise is None:
        return None
    past = question.record.unit.status.accumulated_past_execution_time_seconds or 0
    seconds = promise.at - wall + past
    if seconds <= past:
        return None
    text = f"Declare that it runs for at most {seconds} s: then it delays no unit ahead."
    change = declare_at_most(question, seconds, text)
    return change if isinstance(change, Change) else None


def declare_at_most(question: Question, seconds: int, description: str) -> Change | Engine:
    """Return the change that declares so many seconds to run; if it is not enough, the engine."""
    edit = _edit(question, maximum_execution_time_seconds=seconds)
    longer = _edit(question, maximum_execution_time_seconds=seconds + 1)
    outcome = question.trials.attempt(edit)
    if not outcome.starts:
        return outcome.engine
    return Change(
        kind=ChangeKind.EXECUTION_TIME,
        description=description,
        sufficient=True,
        minimal=not question.trials.attempt(longer).starts,
        also_starts=outcome.also,
        patches=patch_owner(
            question.record,
            of_job=annotated({MAX_EXEC_TIME: str(seconds)}),
            of_unit={"spec": {"maximumExecutionTimeSeconds": seconds}},
        ),
        edits=(edit,),
    )


def _be_active(question: Question) -> Change | None:
    if question.record.unit.spec.active is not False:
        return None
    edit = _edit(question, active=True)
    outcome = question.trials.attempt(edit)
    return Change(
        kind=ChangeKind.ACTIVE,
        description="Make the job active again."
        if outcome.starts
        else "Making the job active again alone does not start it.",
        sufficient=outcome.starts,
        also_starts=outcome.also,
        patches=patch_owner(
            question.record,
            of_job=annotated({ACTIVE: "true"}),
            of_unit={"spec": {"active": True}},
        ),
        edits=(edit,),
        action="make the job active again",
    )


# --- other queues and quotas ----------------------------------------------------------------------


def _other_queues(question: Question) -> Iterator[Change]:
    """Yield queues in which the unit would start, charged to the same quota."""
    engine, unit = question.engine, question.record.unit

    def moved() -> Iterator[_Destination]:
        for queue in sorted(engine.queues, key=lambda each: each.pending.length):
            if queue.name == question.record.queue_name or queue.rules.options.is_stopped:
                continue
            label, text = {QUEUE_NAME: queue.name}, f"Move it to queue {queue.name}."
            place = _Destination(ChangeKind.QUEUE, _in_queue(unit, queue.name), label, text)
            mapped = engine.placing.map_unit(place.unit, engine.queues)
            if not isinstance(mapped, Mapped) or mapped.queue != queue.name:
                continue
            if not _would_pass(question, mapped.quota):
                return  # its quota is the same in every queue
            yield place

    return _try_destinations(question, moved())


class _Destination(NamedTuple):
    """Another place for the unit: the unit there, the labels that put it there, and a sentence."""

    kind: ChangeKind
    unit: QueueUnit
    labels: dict[str, str]
    text: str


def _try_destinations(question: Question, places: Iterable[_Destination]) -> Iterator[Change]:
    """Yield the first places in which the unit starts."""
    found = 0
    for place in islice(places, MAX_PLACES):
        if found == MAX_NAMED:
            return
        edit = replacement(place.unit, question.record)
        outcome = question.trials.attempt(edit)
        if outcome.starts:
            found += 1
            patch = labeled(place.labels)
            yield Change(
                kind=place.kind,
                description=place.text,
                sufficient=True,
                also_starts=outcome.also,
                patches=patch_owner(question.record, of_job=patch, of_unit=patch),
                edits=(edit,),
            )


def _in_queue(unit: QueueUnit, name: str) -> QueueUnit:
    labels = {**unit.metadata.labels, QUEUE_NAME: name}
    meta = replace(unit.metadata, labels=labels)
    return replace(unit, metadata=meta, spec=replace(unit.spec, queue=name))


def _other_quotas(question: Question) -> Iterator[Change]:
    """Yield quotas that the unit may use and to which it could be charged now."""
    record, engine = question.record, question.engine
    own = "" if record.info is None else record.info.quota
    namespace = record.unit.metadata.namespace

    def charged() -> Iterator[_Destination]:
        for each in _leaf_quotas(engine):
            if each.quota == own or not _is_for(engine, each, namespace):
                continue
            unit = _in_quota(record.unit, each.key, each.label)
            mapped = engine.placing.map_unit(unit, engine.queues)
            if not isinstance(mapped, Mapped) or mapped.quota != each.quota:
                continue
            if _would_pass(question, each.quota):
                text = f"Charge it to quota {each.quota}."
                yield _Destination(ChangeKind.QUOTA, unit, {each.key: each.label}, text)

    return _try_destinations(question, charged())


class _Leaf(NamedTuple):
    """A quota that units may name.

    Attributes:
        key: The key of their label.
        label: Its value.
        quota: The quota.
        namespaces: Those that the quota lists; (): it lists none.
        home: The namespace whose own quota it is; "" if it is of none.
    """

    key: str
    label: str
    quota: str
    namespaces: tuple[str, ...]
    home: str


def _is_for(engine: Engine, leaf: _Leaf, namespace: str) -> bool:
    """Return whether a quota is advised to units of a namespace.

    Where all namespaces may name all quotas, one that is dedicated to others is no advice.
    """
    for plugin in quota_plugins(engine.plugins):
        if plugin.knows_quota(leaf.quota):
            if plugin.judges_namespaces:
                return True  # the mapping answers
            break
    takers = {*leaf.namespaces, leaf.home} - {""}
    return not takers or not takers.isdisjoint({namespace, ALL_NAMESPACES})


def _leaf_quotas(engine: Engine) -> Iterator[_Leaf]:
    """Yield the quotas that units may name, those of koord-scheduler itself left out."""
    named: dict[str, ElasticQuota] = {}
    for quota in engine.objects.of_kind(ElasticQuota):
        meta = quota.metadata
        if meta.labels.get(QUOTA_IS_PARENT) == "true" or meta.name in SPECIAL_QUOTAS:
            continue
        named[meta.name] = min(quota, named.get(meta.name, quota), key=_age)
    for name, quota in sorted(named.items()):
        home = name if name == quota.metadata.namespace else ""
        yield _Leaf(QUOTA_NAME, name, name, read_namespaces(quota), home)
    for tree in engine.objects.of_kind(ElasticQuotaTree):
        specs = parse_tree(tree)
        parents = {spec.parent for spec in specs}
        leaves = sorted(
            (spec for spec in specs if spec.name not in parents), key=lambda spec: spec.name
        )
        for spec in leaves:
            # A label has no slashes: nodes are named without their parents.
            yield _Leaf(TREE_QUOTA_NAME, short_name(spec.name), spec.name, spec.namespaces, "")


def _age(quota: ElasticQuota) -> tuple[str, str]:
    return quota.metadata.creation_timestamp, quota.metadata.namespace


def _in_quota(unit: QueueUnit, key: str, label: str) -> QueueUnit:
    """Return a unit that names another quota; the queue that follows from the quota moves along."""
    labels = {**unit.metadata.labels, key: label}
    before = unit.metadata.labels.get(QUOTA_NAME) or read_tree_quota_name(unit.metadata.labels)
    is_filled = unit.spec.queue == before
    spec = replace(unit.spec, queue=label) if is_filled else unit.spec
    return replace(unit, metadata=replace(unit.metadata, labels=labels), spec=spec)


def _would_pass(question: Question, quota: str) -> bool:
    """Return whether the filters would let the unit pass in a quota; True where that is unknown."""
    info = question.info
    if info is None:
        return True
    asked: QueueUnitInfo = replace(at_least(info), quota=quota)
    return question.engine.plugins.check(asked) is None
