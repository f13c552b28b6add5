"""The extension points: the methods that a scheduler plugin may have, and what their answers do.

A plugin is any object with a `name`; it takes part in each extension point whose methods it has.
All methods here are called by the engine, under its one lock, from any worker's thread. They must
be *pure* (facts in, answer out; no I/O, clock, lock or log) and quick (microseconds). For effects,
a plugin uses the handle that it gets at start-up (`framework.handle`), never from these methods.

The order of one decision::

    MultiQueueSort, Score   which queue is offered next
    QueueSort               which unit of it
    Filter                  may it start?             a refused class waits until it is woken
    Reserve                 charge it                 after a refusal, the earlier ones unreserve
    Unreserve               the write failed, the unit ended or was freed
    Resize                  what an admitted unit occupies has changed

Facts reach a plugin through `ClusterFacts`. A plugin that keeps state offers `Forkable`, so that
questions ("why does it wait?", "when will it start?") can be put to a copy. Without it, the answers
leave the plugin out and say so.

Third-party plugins load by entry point `koord_queue.scheduler_plugins`: the name is the plugin's,
the object a callable `(arguments: Mapping, handle: Handle) -> plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, Protocol, Self, runtime_checkable

import msgspec

from queue_scheduler.decision import Notice, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.quota.quota_decision import AppliedLimit, Borrowed, MinRunTime, PodStage
from queue_scheduler.quota.quota_view import QuotaView
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.resource_list import Amounts

Waiter = tuple[str, int]
"""(queue, class number): a class of refused units that waits until a plugin wakes it."""


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

    Without a quota, the unit waits in `queue`, and later plugins may say which quota it is charged
    to; if none does, it is charged to no quota.
    """

    quota: str
    queue: str


class Unmapped(msgspec.Struct, frozen=True, gc=False):
    """The unit cannot be placed now.

    Attributes:
        refusal: Why, for the user.
        waits_for: Names of facts that may change the answer: `quota/NAME`, `queue/NAME`,
            `namespace/NAME`. The unit is mapped again when one of them changes.
        queue: The queue that it would wait in, if that is known. A unit that was admitted before
            its quota or queue was deleted is counted there.
        others: What else is missing; shown where all reasons are.
    """

    refusal: Refusal
    waits_for: tuple[str, ...]
    queue: str = ""
    others: tuple[Refusal, ...] = ()


@runtime_checkable
class QueueUnitMapping(Protocol):
    """Maps units to the quota that is charged and the queue that they wait in."""

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped | None:
        """Place a unit; None leaves it to the next plugin of this point.

        The plugins are asked in the order of the configuration, and the first answer counts. The
        one exception is an `Unmapped` with reason "no quota": the next plugin is asked as well,
        since the unit may be charged to a quota that another plugin keeps. So a Filter also gets
        units of quotas that are not its own, and lets them pass. If no plugin can place the unit,
        it is on hold with the first reason given, or NoQueue if there is none. A unit that names
        no quota, and a queue that does not exist, is on hold for the queue.

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
        """Return the unit's order key, ending in namespace and name; None keeps the policy's.

        `spec.priority` of `unit` is already limited to the queue's maximum.
        """
        ...


@runtime_checkable
class Filter(Protocol):
    """Decides whether a unit may start now."""

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit may not start, or None. Must not change anything.

        One unit of a class is asked for all. What the answer depends on in addition to quota and
        demand must be part of `class_key` (`ClassKeys`); without `ClassKeys`, every unit is its own
        class.
        """
        ...


class Supposed(msgspec.Struct, frozen=True, gc=False):
    """A hypothetical additional charge to a quota (`WhatIf`); amounts in base units."""

    quota: str
    amounts: Amounts
    non_preemptible: bool = False
    pods: int = 1
    firm: Amounts = {}

    @classmethod
    def started(cls, info: QueueUnitInfo) -> Self:
        """Return the charge that a unit would have if it started."""
        demand = info.demand
        return cls(info.quota, demand.total, info.non_preemptible, demand.pods)


@runtime_checkable
class EveryRefusal(Protocol):
    """Names all limits that a Filter refuses a unit for; without it, the first one is shown."""

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return all reasons why the unit does not pass, the one of `check` first; [] if it does.

        Asked for answers to users, under the engine's lock or on a fork; nothing may be registered.
        """
        ...


@runtime_checkable
class NamesPods(Protocol):
    """Says which pods without a node a refusal follows from."""

    def pods_behind(self, info: QueueUnitInfo, refusal: Refusal) -> tuple[str, ...]:
        """Return them in words, the largest first; () if there are none.

        Asked for answers to users, under the engine's lock or on a fork, for many units in turn.
        Names of pods in other namespaces than the unit's must not be told.
        """
        ...


class AdmissionRecord(Protocol):
    """What a unit was admitted on; immutable, and small: there is one for each admitted unit."""

    def limits(self) -> Sequence[AppliedLimit]:
        """Return the limits that the unit was compared with, each with what was used before."""
        ...


@runtime_checkable
class AdmissionRecords(Protocol):
    """Remembers what units are admitted on, for answers to users."""

    @property
    def noted(self) -> AdmissionRecord | None:
        """What the unit of the last `reserve` was compared with; None: nothing, by this plugin.

        Read after each `reserve`, and kept while the unit is admitted.
        """
        ...


@runtime_checkable
class WhatIf(Protocol):
    """Answers a Filter's question for hypothetical charges: which units to evict, which may pass.

    For a Filter without `WhatIf` the present answer is used: it cannot say what would change it.
    """

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        """Return what `check` would if nothing were charged for `released`, and `added` were.

        Must not change anything, and wakes no class. It may be asked dozens of times for one
        decision, so it should cost little more than `check`, however much is charged. A uid without
        a charge changes nothing; one that is listed twice counts once.
        """
        ...


@runtime_checkable
class FollowsCharges(Protocol):
    """Marks a Filter whose answers change with charges, quotas, nodes and protected units alone.

    A unit that it refuses while it also waits behind a head is looked at after such changes, and is
    not registered with the plugin (`Waking`).
    """

    follows_charges: Literal[True]


@runtime_checkable
class ClassKeys(Protocol):
    """Lets units share a Filter's answers."""

    def class_key(self, unit: QueueUnit) -> Hashable:
        """Return what the Filter's answer depends on, in addition to quota and demand."""
        ...


@runtime_checkable
class Reserve(Protocol):
    """Keeps account of what started units occupy."""

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        """Charge a unit that passed every filter; after a refusal nothing may stay charged.

        The engine then calls `unreserve` on the plugins that had accepted before, in reverse order.
        """
        ...

    def unreserve(self, uid: Uid) -> None:
        """Release whatever is charged for the uid, if anything."""
        ...

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        """Charge exactly this for the uid, whatever was charged before and even above a limit.

        Called for what already occupies quota: at restart, for adopted jobs, when admissions
        shrink, when a unit's living pods exceed its admission. Usage may depend on nothing but
        these arguments: a restart does not repeat anything else that was known of the unit.

        Args:
            uid: The unit; for orphan pods (`pod_accounting`), their group.
            quota: The quota to charge.
            amounts: In base units. Shared: it may be kept, but must not be changed.
            non_preemptible: Whether its pods may not be preempted.
            pods: How many pods occupy that.
        """
        ...


@runtime_checkable
class ReservePartlyFirm(Protocol):
    """Lets a plugin with `Reserve` count the part of a preemptible unit that is not preemptible."""

    def resize_partly_firm(
        self, uid: Uid, quota: str, amounts: Amounts, *, firm: Amounts, pods: int
    ) -> None:
        """Charge as `resize` does for a preemptible unit some of whose living pods are not.

        Without this, the whole unit counts as preemptible.

        Args:
            uid: The unit.
            quota: The quota to charge.
            amounts: All that is charged, in base units; shared, as for `resize`.
            firm: The part of it that may not be preempted; not empty.
            pods: How many pods occupy the whole.
        """
        ...


@runtime_checkable
class Waking(Protocol):
    """Returns the refused classes that a change may let in.

    A class that was refused by a plugin without `Waking` is woken by every release and every fact.
    """

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Register a class that this plugin's Filter refused.

        `refusal` is what `check` returned for `info`, and still holds; only `is_least` may have
        been set since. So there is no need to check again.
        """
        ...

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class; it may be unknown."""
        ...

    def take_woken(self) -> list[Waiter]:
        """Return, once and in a fixed order, the classes that may start now; they are forgotten."""
        ...


Place = tuple[Any, ...]
"""The position of a class in the order of turns; that of one class only grows."""


@runtime_checkable
class WakingInTurn(Protocol):
    """Returns the first of the refused classes that a change may let in.

    Better than `Waking` if many classes wait for one limit: room for one is offered to the first
    class, and once it has taken the room, the others need not be asked. A domain
    (`Contention.domains`) is offered to its classes in turn; the domain "" holds classes that
    compete with no others.
    """

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Register a class that this plugin's Filter refused.

        `refusal` is what `check` returned for `info`, and still holds; only `is_least` may have
        been set since. So there is no need to check again.
        """
        ...

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class that was woken or has left; it may be unknown."""
        ...

    def stirred_domains(self) -> list[str]:
        """Return the domains in which some class may start now, in a fixed order."""
        ...

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that may start now, with its place, or None.

        Considers changes up to the last `stirred_domains` call. The class stays registered. None
        means that every waiting class would be refused again. Classes after `before` will not be
        offered now, so they need no close look.
        """
        ...


@runtime_checkable
class Contention(Protocol):
    """Names the limits that units of a quota compete for."""

    def domains(self, quota: str) -> frozenset[str]:
        """Return names of limits; queues that share one take turns.

        The answer is cached and read again after every fact about a quota: it may change only then.
        """
        ...


@runtime_checkable
class Guarantees(Protocol):
    """Keeps room for units that are within what their quota is guaranteed."""

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Take the first pending unit of a quota, None if there is none; called when it changes."""
        ...

    def keeps_room_for(self, quota: str) -> bool:
        """Return whether units may be refused for a quota's guarantee; if not, `protect` is unused.

        The answer may change only when quotas change.
        """
        ...

    def lent_to(
        self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool
    ) -> Lent | None:
        """Return which units may be evicted together for a refused unit; None: any.

        Args:
            info: The refused unit.
            leaving: Uids of units that leave anyway.
            outranks: True when victims are of the unit's own queue and lower priority. Victims that
                would reclaim the room when requeued are excluded: their eviction would be for
                nothing.
        """
        ...


class ReclaimTerms(msgspec.Struct, frozen=True, gc=False):
    """The units that a unit may evict to get back what its quota is owed.

    Attributes:
        quotas: The quotas that borrow; victims are charged to these.
        only_lower: Whether only units of lower priority may be evicted.
    """

    quotas: tuple[str, ...]
    only_lower: bool


class Lent(Protocol):
    """Which units may be evicted together, so that no quota falls below what it is entitled to.

    Counts what is taken. Units that may go together may also go in a smaller set.
    """

    def copy(self) -> Self:
        """Return an independent copy with the same units taken."""
        ...

    def places(self, owner: Uid, /) -> frozenset[Any]:
        """Return what a unit is counted in; units that share nothing do not hinder each other."""
        ...

    def take(self, owner: Uid, count: int, /) -> int:
        """Take up to `count` units with the same charge as this one; return how many."""
        ...


@runtime_checkable
class Reclaiming(Protocol):
    """Lets owners take back what others borrow, by evicting their units."""

    def reclaim_terms(self, info: QueueUnitInfo) -> ReclaimTerms | None:
        """Return the units that a refused unit may evict elsewhere; None: none."""
        ...


@runtime_checkable
class MinRunTimes(Protocol):
    """Spares units that were admitted not long ago when owners take back what others borrow."""

    @property
    def spares(self) -> bool:
        """Whether any time is stated."""
        ...

    @property
    def min_run_changes(self) -> int:
        """A count that increases when other answers are possible; classes are asked again then."""
        ...

    def min_run_time(self, quota: str, victim: str) -> MinRunTime | None:
        """Return how long `quota` reclaims nothing from a unit of quota `victim`; None: at once."""
        ...


class Reclaimer(msgspec.Struct, frozen=True, gc=False):
    """A quota whose units may reclaim.

    Attributes:
        quota: Its name.
        only_lower: Whether it does so only from units of lower priority.
        min_run_seconds: How long after its admission it takes nothing from the unit.
    """

    quota: str
    only_lower: bool
    min_run_seconds: int = 0


class Loan(msgspec.Struct, frozen=True, gc=False):
    """What an admitted unit's quota borrows, and which quotas may reclaim from the unit now."""

    borrowed: tuple[Borrowed, ...]
    reclaimers: tuple[Reclaimer, ...] = ()


@runtime_checkable
class Loans(Protocol):
    """Says what admitted units borrow, for answers to users."""

    def loan_of(self, uid: Uid) -> Loan | None:
        """Return what the quota of a charged unit borrows; None: it is not charged by this plugin.

        Must not change anything.
        """
        ...


class ForeignPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A living pod that no unit stands for, or the pods of one job that the queue's gate holds.

    Attributes:
        name: `namespace/name`; of held pods, that of the first.
        namespace: Its namespace.
        labels: Its labels.
        request: What it asks for; of held pods, what they ask for beyond the charge of their unit.
        stage: How far it is.
        job: Of held pods, the uid of their job.
    """

    name: str
    namespace: str
    labels: dict[str, str]
    request: Amounts
    stage: PodStage
    job: Uid = NO_UID


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
        """Take a pod that no unit stands for; None if it is gone."""
        ...

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events."""
        ...


@runtime_checkable
class QueueFacts(Protocol):
    """Takes facts about queues, for plugins whose mapping depends on them.

    Called before the engine itself takes the queue. Each may come twice, late, or with a new uid.
    """

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        """Take a new or changed queue; return `waits_for` names that it may answer."""
        ...

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted queue; return `waits_for` names that it may answer."""
        ...


QuotaSource = ElasticQuotaTree | ResourceQuota | Namespace
"""Objects in addition to ElasticQuotas that define quotas or their permitted users. They are only
watched for the built-in plugins that need them (`quota_sources`)."""


@runtime_checkable
class QuotaSourceFacts(Protocol):
    """Takes facts about these objects. Each may come twice, late, or with a new uid."""

    def on_quota_source(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a new or changed object; return `waits_for` names that it may answer."""
        ...

    def on_quota_source_gone(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a deleted object; return `waits_for` names that it may answer."""
        ...


@runtime_checkable
class RequestChecks(Protocol):
    """Checks whether pods request the resources that their quota governs."""

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit whose pods lack a request may not be pending, or None.

        Asked when a pending unit is placed. If a fact changes the answer, the fact's method returns
        the unit's `quota/NAME`.
        """
        ...

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the governed resources of its quota if the unit requests none of them; else ()."""
        ...


@runtime_checkable
class KnownQuotas(Protocol):
    """Identifies a plugin's own quotas, if several plugins keep quotas."""

    def knows_quota(self, quota: str) -> bool:
        """Return whether the plugin keeps a quota of that name."""
        ...


@runtime_checkable
class QuotaProvider(Protocol):
    """Answers questions about quotas for the debug API and for other plugins' handles."""

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that the unit is charged to, nearest first.

        The first is the one that the unit or its namespace names, whether it exists or not.
        """
        ...

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that the scheduler of pods charges such a pod to."""
        ...


@runtime_checkable
class ShowsQuotas(Protocol):
    """Shows users the quotas that a plugin has: the debug API, the page, metrics and explanations.

    They are asked for under the engine's lock, or of a fork (`Forkable`). The quotas of a plugin
    that provides quotas and lacks these methods are shown nowhere, and `/debug/quotas` says so.
    """

    def list_quotas(self) -> Sequence[str]:
        """Return the names of all quotas. It is called with every list of queues."""
        ...

    def view_quota(self, name: str) -> QuotaView | None:
        """Return one quota with its numbers; None: this plugin has none of that name."""
        ...


@runtime_checkable
class QuotaChains(Protocol):
    """Says in which quotas a charge counts; without it, only in the quota that is charged."""

    def chain(self, quota: str) -> tuple[str, ...]:
        """Return the quota and its ancestors, nearest first, without a root; () if unusable.

        The answer may change only when quotas change.
        """
        ...


class OwnFilter(Plugin, Filter, WakingInTurn, Protocol):
    """A filter of the engine itself, for what room does not help; asked before the plugins.

    Its refusals stand for units of one class alone: of the same account
    (`QueueUnitInfo.submitter`), with the same declared time.
    """

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return all reasons why the unit does not pass, the first as `check` does; [] if none."""
        ...

    def watch(self, waiter: Waiter, info: QueueUnitInfo) -> None:
        """Register a class that something else refused: it is asked when this refuses it, too."""
        ...


@runtime_checkable
class OwnPreemptibleLabel(Protocol):
    """Reads a label of its own that says whether pods may be preempted, in its own quotas."""

    def knows_quota(self, quota: str) -> bool:
        """Return whether the plugin keeps a quota of that name."""
        ...

    def is_non_preemptible(self, labels: dict[str, str]) -> bool:
        """Return whether a label of the unit, or of a pod without one, forbids preemption."""
        ...


@runtime_checkable
class QueueReadiness(Protocol):
    """Reports what keeps a whole queue from working; shown in the queue's condition."""

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why no unit of the queue can start, whatever it asks for; None: some might.

        Asked about every queue, about once a second. "No quota" counts only if every plugin of this
        point returns it; of other reasons, the first counts.
        """
        ...


@runtime_checkable
class Forkable(Protocol):
    """Keeps its state copyable."""

    def fork(self) -> Self:
        """Return an independent plugin with the same state."""
        ...
