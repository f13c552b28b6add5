"""What a demand was admitted on: the limits that it was compared with, and what was used before.

Noted between a check and its charge, for every admission, and read for few of them. So a record has
only the sums of that moment, as integers; what follows from quotas alone is shared by all records
of a quota, and the rows are made when they are read. A record refers to no tree: trees are replaced
with every change of a quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from queue_scheduler.quota.quota_decision import AppliedLimit, Demand, LimitKind
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, taken_by

Sums: TypeAlias = Mapping[str, int]
"""The used amounts by resource; one that is missing is 0."""

Runtimes: TypeAlias = tuple[tuple[str, str, int, int], ...]
"""Quota, resource, runtime with the demand added, and what is used there."""


class QuotaTerms(msgspec.Struct, frozen=True, gc=False):
    """The limits of a quota and its ancestors, as far as they follow from the quotas alone.

    Attributes:
        quotas: The names, nearest first.
        counted: The resources that count in the quota; None: all.
        maxima: The limit of each of them; () if none applies.
        minimum: What the quota itself must not exceed, in `min` mode; None in the others.
        np_minima: What non-preemptible demands must not exceed, by quota; () if nothing.
        root: The name for all nodes; "" if their total does not limit.
    """

    quotas: tuple[str, ...]
    counted: frozenset[str] | None
    maxima: tuple[Mapping[str, int], ...]
    minimum: Mapping[str, int] | None
    np_minima: tuple[Mapping[str, int], ...]
    root: str


class MoreSums(msgspec.Struct, frozen=True, gc=False):
    """What a demand was compared with in addition; empty what did not apply.

    Attributes:
        np_used: By quota, what was used and not preemptible.
        nodes: What the nodes have.
        taken: And what of it was taken.
        runtimes: Runtimes, where the check had to divide.
    """

    np_used: tuple[Sums, ...] = ()
    nodes: Sums = {}
    taken: Sums = {}
    runtimes: Runtimes = ()


_NO_MORE: Final = MoreSums()


class AdmissionRecord(msgspec.Struct, frozen=True, gc=False):
    """The sums that a demand was compared with when it was admitted.

    Attributes:
        terms: The limits.
        amounts: The demand; what is not positive in it, or does not count, is skipped when read.
        used: By quota, what was used; also of other resources, since that is copied faster.
        more: The other sums, in the modes and for the demands that have any.
    """

    terms: QuotaTerms
    amounts: Mapping[str, int]
    used: tuple[Sums, ...]
    more: MoreSums = _NO_MORE

    def limits(self) -> list[AppliedLimit]:
        """Return a row for each limit and resource, the nearest quota first."""
        return list(self._rows())

    def _rows(self) -> Iterator[AppliedLimit]:
        terms, more = self.terms, self.more
        if terms.minimum is not None:
            minimum = dict.fromkeys(self.amounts, 0) | dict(terms.minimum)
            yield from self._compare(terms.quotas, (minimum,), LimitKind.MIN, self.used)
        yield from self._compare(terms.quotas, terms.maxima, LimitKind.MAX, self.used)
        yield from self._compare(terms.quotas, terms.np_minima, LimitKind.MIN, more.np_used)
        for quota, key, runtime, used in more.runtimes:
            yield AppliedLimit(quota, LimitKind.RUNTIME, key, runtime, used, self.amounts[key])
        yield from self._compare((terms.root,), (more.nodes,), LimitKind.NODES, (more.taken,))

    def _compare(
        self,
        quotas: Sequence[str],
        limits: Sequence[Mapping[str, int]],
        kind: LimitKind,
        sums: Sequence[Sums],
    ) -> Iterator[AppliedLimit]:
        """Yield a row where a quota has a limit."""
        counted = self.terms.counted
        for quota, limited, used in zip(quotas, limits, sums, strict=False):
            for key, amount in self.amounts.items():
                if key in limited and amount > 0 and (counted is None or key in counted):
                    has = used.get(key, 0)
                    yield AppliedLimit(quota, kind, key, limited[key], has, amount)


def build_terms(node: NodeUsage) -> QuotaTerms:
    """Return what follows from a quota and its ancestors alone."""
    settings, chain = node.tree.settings, node.chain
    is_runtime = settings.mode is QuotaMode.RUNTIME
    is_limited = not (is_runtime and node.is_special)
    np_chain: tuple[NodeUsage, ...] = ()
    if settings.kind is QuotaKind.TREE:
        np_chain = chain
    elif is_runtime and is_limited:
        np_chain = (node,)
    return QuotaTerms(
        quotas=node.path,
        counted=node.counted_keys,
        maxima=tuple(each.limits for each in chain) if is_limited else (),
        minimum=node.spec.min if settings.mode is QuotaMode.MIN else None,
        np_minima=tuple(each.np_limits for each in np_chain),
        root=node.tree.root.name if is_runtime and is_limited and settings.cap_by_total else "",
    )


class RuntimesFound(Protocol):
    """Returns the runtimes that the last check compared (`RuntimeCheck.runtimes_found`)."""

    def runtimes_found(self, node: NodeUsage, items: Items) -> Runtimes:
        """Return those of a quota, and of these amounts."""
        ...


class AdmissionNotes:
    """Notes what demands are admitted on in one quota; made once per quota and tree.

    Args:
        node: The quota.
        walk: Compares the runtimes of its tree, if it has any.

    Attributes:
        governed: The resources in the max of any quota that refuses by it.
    """

    __slots__ = ("_is_plain", "_node", "_sums", "_terms", "_walk", "governed")

    def __init__(self, node: NodeUsage, walk: RuntimesFound | None) -> None:
        settings = node.tree.settings
        self._node, self._walk = node, walk
        self._terms = build_terms(node)
        self._sums = tuple(each.used for each in node.chain)
        # What is used is all that is compared.
        self._is_plain = settings.mode is QuotaMode.MAX and not (
            node.tree.keeps_mins or settings.counts_foreign
        )
        levels = node.chain if settings.mode is QuotaMode.MAX else (node,)
        self.governed = frozenset(key for each in levels for key in each.spec.max)

    def note(self, demand: Demand, checked: Items | None = None) -> AdmissionRecord:
        """Return what a demand that fits is compared with; to be called before it is charged.

        Args:
            demand: What is asked for.
            checked: The amounts that the last check of the tree has let through; None: another.
        """
        # A part of every admission: in as few steps as possible, and a copy is the fastest.
        amounts, sums = demand.amounts, self._sums
        if not self._is_plain or demand.non_preemptible:
            return self._note_all(demand, checked)
        if len(sums) == 1:
            return AdmissionRecord(self._terms, amounts, ({**sums[0]},))
        return AdmissionRecord(self._terms, amounts, tuple([{**each} for each in sums]))

    def _note_all(self, demand: Demand, checked: Items | None) -> AdmissionRecord:
        node, terms, amounts, walk = self._node, self._terms, demand.amounts, self._walk
        tree = node.tree
        used = tuple([{key: _taken(node, each, key) for key in amounts} for each in node.chain])
        more = _NO_MORE
        np_minima = terms.np_minima if demand.non_preemptible else ()
        runtimes = () if walk is None or checked is None else walk.runtimes_found(node, checked)
        if np_minima or terms.root or runtimes:
            more = MoreSums(
                np_used=tuple([{**each.np_used} for each in node.chain[: len(np_minima)]]),
                nodes={key: tree.left(key) for key in amounts} if terms.root else {},
                taken={key: tree.committed.get(key, 0) for key in amounts} if terms.root else {},
                runtimes=runtimes,
            )
        return AdmissionRecord(terms, amounts, used, more)


def _taken(node: NodeUsage, level: NodeUsage, key: str) -> int:
    """Return what is compared with the max of a quota of the chain (`limit_checks.check_max`)."""
    if node.tree.keeps_mins:
        return taken_by(node, level, key)
    return level.used.get(key, 0) if level is node else level.taken(key)
