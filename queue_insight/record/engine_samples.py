"""Takes the samples of a moment from an engine. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from queue_insight.record.samples import (
    NOTHING,
    WHOLE,
    NamespaceSets,
    Sample,
    amounts_of,
    bin_of,
    join_sets,
    names_of,
    of_queue,
    of_quota,
    sets_of,
)
from queue_scheduler.cache.known_units import count_admitted, count_pending
from queue_scheduler.cache.unit_state import PENDING
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.quota.quota_view import QuotaView

FOREIGN: Final = ""
"""In place of a namespace: that of pods that belong to no unit, which is not known."""


class Admitted(NamedTuple):
    """A unit that was admitted: where it has waited, its namespace, and for how long."""

    queue: str
    quota: str
    namespace: str
    seconds: float


class _Waits:
    """The waits of some units, and their namespaces."""

    def __init__(self) -> None:
        self.bins = Counter[int]()
        self.namespaces: set[str] = set()

    def add(self, unit: Admitted) -> None:
        self.bins[bin_of(unit.seconds)] += 1
        self.namespaces.add(unit.namespace)

    def add_all(self, other: _Waits) -> None:
        self.bins.update(other.bins)
        self.namespaces |= other.namespaces


class _Quota:
    """What is counted of one quota; `namespaces_of`: whose units are charged to it, by queue."""

    def __init__(self) -> None:
        self.pending = self.admitted = 0
        self.pending_from: set[str] = set()
        self.namespaces_of: defaultdict[str, set[str]] = defaultdict(set)
        self.waits = _Waits()

    @cached_property  # once all units are counted: each of its queues asks
    def sets(self) -> NamespaceSets | None:
        """Whose units are charged to it, by queue."""
        return sets_of(self.namespaces_of.values())


class _Subtree:
    """What is counted of a quota and all quotas below it."""

    def __init__(self, own: _Quota, below: Sequence[_Subtree]) -> None:
        self.pending, self.admitted = own.pending, own.admitted
        charged = set[str]().union(*own.namespaces_of.values())
        own_sets = sets_of((charged, own.pending_from))
        self.sets: NamespaceSets | None = join_sets((own_sets, *(each.sets for each in below)))
        self.waits = _Waits()
        self.waits.add_all(own.waits)
        for each in below:
            self.pending += each.pending
            self.admitted += each.admitted
            self.waits.add_all(each.waits)


def take_samples(engine: Engine, admitted: Sequence[Admitted]) -> dict[str, Sample]:
    """Return the samples of a moment, by `WHOLE`, `of_queue` and `of_quota`.

    Args:
        engine: A fork, as all units are looked at.
        admitted: The units that were admitted since the samples before.
    """
    count = _Count(engine, admitted)
    found = {
        WHOLE: count.sample_of_whole(),
        **count.samples_of_queues(),
        **count.samples_of_quotas(),
    }
    return {of: each for of, each in found.items() if of == WHOLE or each != NOTHING}


class _Count:
    """Counts all units of an engine once."""

    def __init__(self, engine: Engine, admitted: Sequence[Admitted]) -> None:
        self._engine = engine
        self._views = {view.name: view for view in view_all_quotas(engine.plugins)}
        limits = (each for view in self._views.values() for each in (view.max, view.min))
        self._limited = frozenset(resource for amounts in limits for resource in amounts)
        self._quotas: defaultdict[str, _Quota] = defaultdict(_Quota)
        self._quotas_of: defaultdict[str, set[str]] = defaultdict(set)  # by queue
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._waits: defaultdict[str, _Waits] = defaultdict(_Waits)
        self._all_waits = _Waits()
        for each in admitted:
            self._all_waits.add(each)
            self._waits[each.queue].add(each)
            self._quotas[each.quota].waits.add(each)
        self._count_units()
        self._trees: dict[str, _Subtree] = {}
        self._roots = list(self._sum_up())

    def _count_units(self) -> None:
        engine, known = self._engine, set[str]()
        for record in engine.units:
            namespace, info = record.unit.metadata.namespace, record.info
            if info is not None:
                quota = self._quotas[info.quota]
                if record.state in PENDING:
                    quota.pending += 1
                    quota.pending_from.add(namespace)
                elif record.occupies:
                    quota.admitted += 1
            charge = engine.usage.charge_of(record.uid)
            if charge is not None:
                known.add(record.uid)
                self._quotas[charge.quota].namespaces_of[record.queue_name].add(namespace)
                self._quotas_of[record.queue_name].add(charge.quota)
                self._used[record.queue_name].update(charge.amounts)
        for uid in engine.usage:
            charge = None if uid in known else engine.usage.charge_of(uid)
            if charge is not None:  # of pods whose unit is gone
                self._quotas[charge.quota].namespaces_of[FOREIGN].add(FOREIGN)
        for name, view in self._views.items():
            if view.foreign:
                self._quotas[name].namespaces_of[FOREIGN].add(FOREIGN)

    def _sum_up(self) -> Iterator[str]:
        """Sum up all quotas over their subtrees; yield the names of the roots."""
        below: defaultdict[str, list[str]] = defaultdict(list)
        for view in self._views.values():
            below[view.parent if view.parent in self._views else ""].append(view.name)
        children: dict[str, list[str]] = {}
        for root in (*below[""], *self._views):  # members of a cycle have no root
            if root in children:
                continue
            yield root
            # Without recursion: anyone who may create quotas can nest a thousand of them.
            ordered = [root]
            for name in ordered:  # it grows: those below follow
                children[name] = [each for each in below[name] if each not in children]
                ordered += children[name]
            for name in reversed(ordered):
                trees = [self._trees[each] for each in children[name]]
                self._trees[name] = _Subtree(self._quotas[name], trees)

    def sample_of_whole(self) -> Sample:
        units, names = self._engine.units, self._queue_names()
        used = Counter[str]()
        for name in self._roots:
            used.update(self._views[name].used)
        return Sample(
            pending=sum(count_pending(units, name) for name in names),
            admitted=sum(count_admitted(units, name) for name in names),
            used=amounts_of(used, self._limited),
            waits=dict(self._all_waits.bins),
            namespaces=join_sets(self._trees[name].sets for name in self._roots),
            admitted_from=names_of(self._all_waits.namespaces),
        )

    def samples_of_queues(self) -> dict[str, Sample]:
        units = self._engine.units
        found: dict[str, Sample] = {}
        for name in self._queue_names():
            waits = self._waits[name]
            found[of_queue(name)] = Sample(
                pending=count_pending(units, name),
                admitted=count_admitted(units, name),
                used=amounts_of(self._used[name], self._limited),
                waits=dict(waits.bins),
                namespaces=self._sets_of_queue(name),
                admitted_from=names_of(waits.namespaces),
            )
        return found

    def _sets_of_queue(self, name: str) -> NamespaceSets | None:
        """Return whose units are charged to each quota of a queue, by queue.

        What a queue uses, and what a quota does less what its other queues use, are the same sums:
        where one of them would tell about one or two namespaces, none is shown.
        """
        return join_sets(self._quotas[each].sets for each in self._quotas_of[name])

    def samples_of_quotas(self) -> dict[str, Sample]:
        return {of_quota(view.name): self._sample_of_quota(view) for view in self._views.values()}

    def _sample_of_quota(self, view: QuotaView) -> Sample:
        tree = self._trees[view.name]
        return Sample(
            pending=tree.pending,
            admitted=tree.admitted,
            used=amounts_of(view.used, self._limited),
            waits=dict(tree.waits.bins),
            namespaces=tree.sets,
            admitted_from=names_of(tree.waits.namespaces),
        )

    def _queue_names(self) -> list[str]:
        return sorted(queue.name for queue in self._engine.queues)
