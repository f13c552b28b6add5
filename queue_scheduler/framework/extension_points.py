"""The extension points: what a scheduler plugin may be asked, by whom, and what follows.

A plugin is any object with a `name`; it takes part in each extension point whose method it
has. All methods here are called by the engine, under its one lock, from any worker's thread:
they must be *pure* (facts in, verdict out; no I/O, no clock, no lock, no log) and quick
(microseconds). What a plugin wants to say to the outside it says through the handle that it
gets at start-up (`framework.handle`), never from these methods.

The order of one decision::

    MultiQueueSort, Score   which queue is offered next
    QueueSort               which unit of it
    Filter                  may it start?             a refusal puts its class to sleep
    Reserve                 book it                   a refusal unreserves what was reserved
    Unreserve               the write failed, the unit ended or was freed
    Resize                  what a booked unit occupies has changed

Facts reach a plugin through `ClusterFacts`; a plugin that keeps state offers `Forkable`, so
that questions ("why does it wait?", "when will it start?") can be put to a copy. Without it
the answers leave the plugin out and say so.

Plugins of other people load by entry point `koord_queue.scheduler_plugins`: the name is the
plugin's, the object a callable `(arguments: Mapping, handle: Handle) -> plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import msgspec

from queue_scheduler.decision import Notice, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.resource_list import Amounts

Waiter = tuple[str, int]
"""(queue, class number): a class of units that sleeps until a plugin wakes it."""


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """The name under which the configuration lists it."""
        ...


class QueueDirectory(Protocol):
    """Read access to the queues, for mapping."""

    def queue(self, name: str) -> Queue | None:
        """Return the Queue object of that name, or None."""
        ...


class Mapped(msgspec.Struct, frozen=True, gc=False):
    """The unit is charged to `quota` and waits in `queue`.

    Without a quota: it waits there, and whose quota it is charged to is for the next plugins to say
    (nobody's, if none does).
    """

    quota: str
    queue: str


class Unmapped(msgspec.Struct, frozen=True, gc=False):
    """The unit cannot be placed now.

    Attributes:
        refusal: Why, for the user.
        waits_for: Names of facts that may change the answer: `quota/NAME`, `queue/NAME`,
            `namespace/NAME`. The unit is mapped again when one of them changes.
        queue: The queue that it would wait in, where that can be said already. A unit that was
            admitted before its quota or queue went is counted there.
    """

    refusal: Refusal
    waits_for: tuple[str, ...]
    queue: str = ""


@runtime_checkable
class QueueUnitMapping(Protocol):
    """Says to which quota a unit is charged and in which queue it waits."""

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped | None:
        """Place a unit; None leaves it to the next plugin of this point.

        The plugins are asked in the order of the configuration, and the first answer counts. Only
        "no quota" (an `Unmapped` of that reason) leaves it to the next as well: the unit may be
        charged to a quota that another plugin keeps. So a Filter gets units of quotas that are not
        its own; it lets them pass. If no plugin can place the unit it is held with the reason that
        the first gave, NoQueue where none gave any.

        Called when the unit, its quota or its queue changes.
        """
        ...


@runtime_checkable
class MultiQueueSort(Protocol):
    """Ranks queues that compete for the same limits."""

    def queue_rank(self, queue: Queue) -> int:
        """Return the rank; higher is offered first. Called when the queue changes."""
        ...


@runtime_checkable
class Score(Protocol):
    """Ranks queues whose MultiQueueSort ranks are equal."""

    def score(self, queue: Queue) -> int:
        """Return the score; higher is offered first. Called when the queue changes."""
        ...


@runtime_checkable
class QueueSort(Protocol):
    """Replaces the order that the queue's policy gives."""

    def order_key(self, unit: QueueUnit, queue: Queue) -> OrderKey | None:
        """Return the unit's place, ending in namespace and name; None keeps the policy's.

        `spec.priority` of `unit` is at most what the queue lets its units have.
        """
        ...


@runtime_checkable
class Filter(Protocol):
    """Says whether a unit may start now."""

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why not, or None. Must not change anything.

        One unit of a class is asked for all; what your answer depends on, besides quota and
        demand, must be in `class_key` (`ClassKeys`), or every unit is its own class.
        """
        ...


class Supposed(msgspec.Struct, frozen=True, gc=False):
    """What might be booked in a quota besides (`WhatIf`); amounts in base units."""

    quota: str
    amounts: Amounts
    non_preemptible: bool = False
    pods: int = 1

    @classmethod
    def started(cls, info: QueueUnitInfo) -> Self:
        """Return what would be with a unit that asks for so much."""
        demand = info.demand
        return cls(info.quota, demand.total, info.non_preemptible, demand.pods)


@runtime_checkable
class WhatIf(Protocol):
    """Lets a Filter be asked about bookings that are not so: who has to go, who may go first.

    Of a Filter without `WhatIf` the answer of today stands: it cannot say what would change it.
    """

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        """Return what `check` would if all that is booked for `released` were not, and `added` was.

        Must not change anything, and wake nobody. It may be asked dozens of times for one decision,
        so it should cost not much more than `check`, however much is booked. A uid that has nothing
        booked changes nothing; one that comes twice counts once.
        """
        ...


@runtime_checkable
class ClassKeys(Protocol):
    """Lets units share a Filter's answers."""

    def class_key(self, unit: QueueUnit) -> Hashable:
        """Return what the Filter's answer depends on, besides quota and demand."""
        ...


@runtime_checkable
class Reserve(Protocol):
    """Keeps the books of what started units occupy."""

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        """Book a unit that passed every filter; a refusal must leave nothing booked.

        The engine calls `unreserve` on plugins that had accepted before, in reverse order.
        """
        ...

    def unreserve(self, uid: Uid) -> None:
        """Take back whatever is booked for the uid; nothing booked is fine."""
        ...

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        """Book exactly this for the uid, whatever was before and even above a limit.

        Called for what already occupies quota: at restart, for adopted jobs, when admissions
        shrink, when a unit's living pods exceed its admission. It is all that your books may
        depend on: what else you knew of the unit, a restart does not tell you.

        Args:
            uid: The unit; of strays (`pod_accounting`), their group.
            quota: Whom to charge.
            amounts: In base units. Shared with others: keep it if you like, but do not change it.
            non_preemptible: Whether its pods may not be preempted.
            pods: How many pods it occupies that with.
        """
        ...


@runtime_checkable
class Waking(Protocol):
    """Tells which refused classes a change may have enabled.

    A class that a plugin without `Waking` refused is woken by every release and every fact.
    """

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Remember a class that this plugin's Filter refused.

        `refusal` is what `check` returned for `info`, and still holds; only `is_least` may have
        been set since. So there is no need to ask again.
        """
        ...

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class; it may be unknown."""
        ...

    def take_woken(self) -> list[Waiter]:
        """Return, once and in a fixed order, the classes that may start now; they are forgotten."""
        ...


Place = tuple[Any, ...]
"""Sorts classes by whose turn it is; that of a class grows only."""


@runtime_checkable
class WakingInTurn(Protocol):
    """Tells which refused class comes first of those that a change may have enabled.

    Better than `Waking` where many wait for the same limit: room for one is offered to the first,
    and when he has taken it, the others need not be asked. Whoever has a domain
    (`Contention.domains`) is offered it in turn with all others there; the domain "" is of those
    who compete with nobody.
    """

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Remember a class that this plugin's Filter refused.

        `refusal` is what `check` returned for `info`, and still holds; only `is_least` may have
        been set since. So there is no need to ask again.
        """
        ...

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class, which was woken or left; it may be unknown."""
        ...

    def stirred_domains(self) -> list[str]:
        """Return the domains in which some class may start now, in a fixed order."""
        ...

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that may start now, with its place, or None.

        Of the facts before the last call of `stirred_domains`. It goes on waiting. None means that
        every class that waits would be refused again. What comes after `before` will not be offered
        now, so it need not be looked at closely.
        """
        ...


@runtime_checkable
class Contention(Protocol):
    """Says which limits units of a quota compete for."""

    def domains(self, quota: str) -> frozenset[str]:
        """Return names of limits; queues that share one take turns.

        The answer is kept, and asked for again after every fact about a quota: it may change
        only then.
        """
        ...


@runtime_checkable
class Guarantees(Protocol):
    """Keeps room for units that are within what their quota is guaranteed."""

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Learn the first waiting unit of a quota, or that none waits; told when it changes."""
        ...

    def keeps_room_for(self, quota: str) -> bool:
        """Return whether a unit may be refused for a quota's guarantee; False: not told of it.

        The answer may change with quotas, and with nothing else.
        """
        ...

    def lent_to(
        self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool
    ) -> Lent | None:
        """Return who may go together for a refused unit; None: whoever wants to.

        Args:
            info: The unit.
            leaving: Who goes anyway.
            outranks: Those that go are of its queue, by their priority. Left out then is who would
                be owed the room when he waits again, so that it was for nothing.
        """
        ...


class ReclaimTerms(msgspec.Struct, frozen=True, gc=False):
    """Whom a unit may have evicted to get back what its quota is owed.

    Attributes:
        quotas: Charged to these, which borrow.
        only_lower: Only of a lower priority than its own.
    """

    quotas: tuple[str, ...]
    only_lower: bool


class Lent(Protocol):
    """Who may be taken back together, so that no quota falls below what it is entitled to.

    Counts what is taken. Who may go with others may go with fewer of them.
    """

    def copy(self) -> Self:
        """Return another that has taken the same."""
        ...

    def places(self, owner: Uid, /) -> frozenset[Any]:
        """Return what a unit is counted in; units that share nothing do not hinder each other."""
        ...

    def take(self, owner: Uid, count: int, /) -> int:
        """Take up to so many units that have the same booked as this one; return how many."""
        ...


@runtime_checkable
class Reclaiming(Protocol):
    """Lets owners take back what others borrow, by evicting their units."""

    def reclaim_terms(self, info: QueueUnitInfo) -> ReclaimTerms | None:
        """Return whom a refused unit may have evicted elsewhere; None: nobody."""
        ...


class ForeignPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A living pod that no unit accounts for."""

    namespace: str
    labels: dict[str, str]
    request: Amounts
    bound: bool


@runtime_checkable
class ClusterFacts(Protocol):
    """Takes facts about the cluster. Each may come twice, late, or with a new uid."""

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a new or changed quota; return `waits_for` names that it may answer."""
        ...

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a deleted quota; return `waits_for` names that it may answer."""
        ...

    def on_node(self, node: Node) -> None:
        """Take a new or changed node."""
        ...

    def on_node_gone(self, name: str) -> None:
        """Take a deleted node."""
        ...

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        """Take a pod that no unit accounts for, or that it is gone (None)."""
        ...

    def take_notices(self) -> list[Notice]:
        """Return, once, what users should read as events."""
        ...


@runtime_checkable
class QueueFacts(Protocol):
    """Takes the queues there are, where that says in which of them units wait.

    Called before the engine itself takes the queue. Each may come twice, late, or with a new uid.
    """

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        """Take a new or changed queue; return `waits_for` names that it may answer."""
        ...

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted queue; return `waits_for` names that it may answer."""
        ...


QuotaSource = ElasticQuotaTree | ResourceQuota | Namespace
"""Objects besides ElasticQuotas that say what quotas there are, or who may use them. They are
watched only for the plugins that come along and need them (`quota_sources`)."""


@runtime_checkable
class QuotaSourceFacts(Protocol):
    """Takes facts about such objects. Each may come twice, late, or with a new uid."""

    def on_quota_source(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a new or changed object; return `waits_for` names that it may answer."""
        ...

    def on_quota_source_gone(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a deleted object; return `waits_for` names that it may answer."""
        ...


@runtime_checkable
class RequestChecks(Protocol):
    """Looks at what pods request of what their quota governs."""

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit may not stand in line whose pods lack a request, or None.

        Asked when a waiting unit is placed. Where the answer changes with a fact, that returns the
        unit's `quota/NAME`.
        """
        ...

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the resources that its quota governs of a unit that is charged none of them."""
        ...


@runtime_checkable
class KnownQuotas(Protocol):
    """Says which quotas are its own, where several plugins keep quotas."""

    def knows_quota(self, quota: str) -> bool:
        """Return whether the plugin keeps books of a quota of that name."""
        ...


@runtime_checkable
class QuotaProvider(Protocol):
    """Answers questions about quotas for the debug API and for other plugins' handles."""

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that the unit is charged to, nearest first.

        The first is the one it names (or its namespace's), known or not.
        """
        ...

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that the scheduler of pods charges such a pod to."""
        ...


@runtime_checkable
class OwnPreemptibleLabel(Protocol):
    """Reads a label of its own that says whether pods may be preempted, in its own quotas."""

    def knows_quota(self, quota: str) -> bool:
        """Return whether the plugin keeps books of a quota of that name."""
        ...

    def is_non_preemptible(self, labels: dict[str, str]) -> bool:
        """Return whether a label of the unit, or of a pod without one, forbids it."""
        ...


@runtime_checkable
class QueueReadiness(Protocol):
    """Knows what keeps a whole queue from working; shown in the queue's condition."""

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why no unit of the queue can start, whatever it asks for; None: some might.

        Asked about every queue, about once a second. "No quota" counts if every plugin of this
        point says so; of other reasons the first.
        """
        ...


@runtime_checkable
class Forkable(Protocol):
    """Keeps its state copyable."""

    def fork(self) -> Self:
        """Return an independent plugin with the same beliefs."""
        ...
