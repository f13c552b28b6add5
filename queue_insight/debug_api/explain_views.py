"""Explanations of units, turned into what the API answers, as `debug_api.views` does for states."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from queue_insight.insight.admitted import Admitted, Evictor
from queue_insight.insight.change import Change, Patch
from queue_insight.insight.changes import Changes
from queue_insight.insight.explain import Explanation, Verdict
from queue_insight.insight.explanation_texts import spared_texts, unknown_admission_text
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.debug_api.hiding import OfUnit, Owner, Sentence, with_sentences
from queue_scheduler.debug_api.views import RefusalView, quota_of, view_refusal
from queue_scheduler.quota.quota_decision import AppliedLimit, Borrowed
from queue_scheduler.refusal_texts import pods_message
from shared_api.debug_api.views import FieldsOf, View
from shared_api.lifecycle import ADMITTED
from shared_api.quantity import format_alike
from shared_api.timestamps import rfc3339

MAX_LISTED: Final = 100
"""Units that one change lists; a change may start thousands."""

_of_explanation = FieldsOf[Explanation]()
_of_change = FieldsOf[Change]()
_of_patch = FieldsOf[Patch]()


class AppliedLimitView(View):
    """A limit that a unit was compared with when it was admitted, and what was used before.

    `kind` is `max` or `min` of the quota, `runtime` (what koord-scheduler would grant with the unit
    added, where that had to be computed), or `nodes` (what all nodes have).
    """

    quota: str
    kind: str
    resource: str
    limit: str
    used: str
    requested: str


class LenderView(View):
    """A quota, and how much of its guarantee others use at most."""

    quota: str
    amount: str


class BorrowedView(View):
    """What a quota uses above what it is guaranteed (`scaledMin` of `/debug/quotas`).

    `lenders` are the siblings whose unused guarantee that may be; without any, no quota is
    guaranteed it.
    """

    quota: str
    resource: str
    used: str
    guaranteed: str
    borrowed: str
    lenders: list[LenderView]


class ReclaimerView(View):
    """A quota that may reclaim from a unit, perhaps only for units of higher priority.

    `not_before`: from when it may, if it spares the unit now (RFC 3339); null: now.
    """

    quota: str
    only_lower_priority: bool
    not_before: str | None = None


class EvictorView(View):
    """A waiting unit that would have another one evicted now, if it were its turn.

    `reason`: `Preempted` for its queue, `Reclaimed` for its quota.
    """

    namespace: Annotated[str, Owner()]
    name: str
    queue: str
    quota: str
    priority: int
    reason: str


class SparedView(View):
    """Why a unit is not evicted: in any case, for its queue, or for other quotas."""

    reason: str
    message: str


class EvictionView(View):
    """What could evict an admitted unit now.

    `possible`: some unit may evict it: one of higher priority in its queue (`by_queue`, from
    `by_queue_not_before` on if that is not null), or one of the quotas in `reclaimers`. `spared`
    says why none may, or why not in one of the two ways. `units` are waiting units that would
    choose it, if it were their turn; `has_more`: not all were asked. Rounds of evictions in
    progress are not considered.
    """

    possible: bool
    by_queue: bool
    by_queue_not_before: str | None = None
    reclaimers: list[ReclaimerView]
    spared: list[SparedView]
    units: Annotated[list[EvictorView], OfUnit(counted="others")]
    others: int = 0
    """How many such units are in namespaces that the caller may not read."""
    has_more: bool = False


class AdmittedView(View):
    """What a unit was admitted on, what it borrows, and what could evict it.

    `limits` is null if this process has not admitted it; `limits_unknown` says why. `borrowed` is
    about the resources that the unit holds, in its quota and the parents; null if its quota cannot
    borrow.
    """

    limits: list[AppliedLimitView] | None
    limits_unknown: str
    borrowed: list[BorrowedView] | None
    eviction: EvictionView


class PatchView(View):
    """A JSON merge patch of one object, or with `operations` a JSON patch, and `patch` is empty."""

    api_version: str = _of_patch(lambda each: each.api_version)
    kind: str = _of_patch(lambda each: each.kind)
    namespace: str = _of_patch(lambda each: each.namespace)
    name: str = _of_patch(lambda each: each.name)
    patch: dict[str, Any] = _of_patch(lambda each: each.patch)
    operations: list[dict[str, Any]] = _of_patch(lambda each: list(each.operations))


class ChangeView(View):
    """One change, and whether the unit starts after it alone.

    `kind` is what is changed; docs/debug-api.md lists the kinds. `sufficient`: the unit starts
    after this change. `verified`: a copy of the scheduler was asked, to the end. `minimal`: one
    grain less was seen not to suffice: 1 milli-CPU, byte, piece, pod, node, priority or unit.
    `practical`: false if the unit would have to request nothing, which is a fact and no advice.
    `ends`: of waiting, how many units end before it starts, those that start before it included.
    `also_starts` are the units that start before it, `other_starts` how many more: those that the
    caller may not read, and those after the first hundred. `patches` is what to apply; empty if
    there is no such field, or the object has more than the scheduler reads: then `description` says
    what to do. `units` are the units that end, or are evicted, `other_units` how many more.
    """

    kind: str = _of_change(lambda each: each.kind.value)
    description: str = _of_change(lambda each: each.description)
    sufficient: bool = _of_change(lambda each: each.sufficient)
    verified: bool = _of_change(lambda each: each.verified)
    minimal: bool = _of_change(lambda each: each.minimal)
    practical: bool = _of_change(lambda each: each.practical)
    ends: int = _of_change(lambda each: each.ends, default=0)
    also_starts: Annotated[list[str], OfUnit(counted="other_starts")] = _of_change(
        lambda each: list(each.also_starts[:MAX_LISTED])
    )
    other_starts: int = _of_change(lambda each: len(each.also_starts[MAX_LISTED:]), default=0)
    patches: list[PatchView] = _of_change(
        lambda each: [PatchView.of(patch) for patch in each.patches]
    )
    units: Annotated[list[str], OfUnit(counted="other_units")] = _of_change(
        lambda each: list(each.units[:MAX_LISTED])
    )
    other_units: int = _of_change(lambda each: len(each.units[MAX_LISTED:]), default=0)


def summarize(view: ExplainView) -> str:
    """Return in one sentence where a unit stands, and what keeps it there."""
    if view.verdict == Verdict.FINISHED:
        return "It has finished."
    if view.verdict == Verdict.ADMITTED:
        names = ", ".join(view.checks)
        waits = f"admission checks are not ready: {names}" if names else view.pods_not_ready
        rest = f"; {waits}" if waits else ""
        # A unit that is being evicted is charged, whatever its phase says by then.
        state = view.state if view.state in ADMITTED else "admitted"
        return f"It is {state}: queue {view.queue}, quota {view.quota or 'no quota'}{rest}."
    start = "It is on hold"
    if view.verdict == Verdict.WAITING:
        place = f", at position {view.position}" if view.position else ""
        start = f"It waits in queue {view.queue}{place}"
    if not view.blockers:
        return f"{start}, and starts when it is its turn."
    why = view.blockers[0].message
    more = len(view.blockers) - 1
    rest = f" ({more} more {'reason' if more == 1 else 'reasons'})" if more else ""
    never = ". Waiting does not help" if view.never_starts else ""
    return f"{start}: {why}{rest}{never}."


class ExplainView(View):
    """Why a unit waits: its verdict in one sentence, and all that keeps it from starting.

    `verdict` is `waiting` (in its queue), `held` (in none), `admitted` or `finished`. `state` is
    the same in the words of the glossary, which also say how far an admitted unit is: `on hold`,
    `waiting`, `reserved`, `starting`, `running` or `finished`. `position` is its place in its
    queue, from 1; 0 if it is in none. `never_starts`: it is larger than a limit, or longer than
    every time between two windows, so that waiting does not help. `blockers` are all reasons, the
    scarcest resource first; for an admitted unit, why it is not granted the pods that it has grown
    by. Without blockers a waiting unit starts when it is its turn. `checks` are the admission
    checks that are not ready, by name. `without_plugins` are plugins that were not asked.
    `changes`, if asked for, are the smallest changes that would start a waiting unit now, those
    that suffice first; `changes_complete` says whether all kinds were looked for.
    """

    leader: bool
    namespace: Annotated[str, Owner()] = _of_explanation(
        lambda each: each.record.unit.metadata.namespace
    )
    name: str = _of_explanation(lambda each: each.record.unit.metadata.name)
    verdict: str = _of_explanation(lambda each: each.verdict.value)
    state: str = _of_explanation(lambda each: each.state.value)
    never_starts: bool = _of_explanation(lambda each: each.never_starts)
    summary: Annotated[str, Sentence(summarize)] = _of_explanation(lambda _: "")
    queue: str = _of_explanation(lambda each: each.record.queue_name)
    quota: str = _of_explanation(lambda each: quota_of(each.record))
    position: int = _of_explanation(lambda each: each.position)
    blockers: list[RefusalView] = _of_explanation(
        lambda each: [view_refusal(blocker) for blocker in each.blockers]
    )
    checks: dict[str, str] = _of_explanation(lambda each: each.open_checks)
    pods_not_ready: str = _of_explanation(lambda each: pods_message(each.record.unit))
    without_plugins: list[str] = _of_explanation(lambda each: list(each.without_plugins))
    admitted: AdmittedView | None = None
    """Set for an admitted unit only."""
    changes: list[ChangeView] | None = None
    changes_complete: bool | None = None


def view_explanation(
    explanation: Explanation, admitted: Admitted | None = None, *, leader: bool
) -> ExplainView:
    """Return why a unit waits; `admitted`: of an admitted one."""
    shown = None if admitted is None else view_admitted(explanation.record, admitted)
    return with_sentences(ExplainView.of(explanation, leader=leader, admitted=shown))


def view_admitted(record: CachedUnit, admitted: Admitted) -> AdmittedView:
    """Return what a unit was admitted on, what it borrows, and what could evict it."""
    limits, loan = admitted.limits, admitted.loan
    return AdmittedView(
        limits=None if limits is None else [_view_limit(each) for each in limits],
        limits_unknown=unknown_admission_text(record) if limits is None else "",
        borrowed=None if loan is None else [_view_borrowed(each) for each in loan.borrowed],
        eviction=EvictionView(
            possible=admitted.is_possible_victim,
            by_queue=admitted.is_in_reach,
            by_queue_not_before=_view_time(admitted.queue_spares_until),
            reclaimers=[
                ReclaimerView(
                    quota=each.quota,
                    only_lower_priority=each.only_lower,
                    not_before=_view_time(admitted.reclaimed_from.get(each.quota)),
                )
                for each in admitted.reclaimers
            ],
            spared=[
                SparedView(reason=reason, message=message)
                for reason, message in spared_texts(record, admitted)
            ],
            units=[_view_evictor(each) for each in admitted.evictors],
            has_more=admitted.has_more,
        ),
    )


def _view_time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)


def _view_limit(row: AppliedLimit) -> AppliedLimitView:
    limit, used, requested = format_alike(row.resource, (row.limit, row.used, row.requested))
    return AppliedLimitView(
        quota=row.quota,
        kind=row.kind.value,
        resource=row.resource,
        limit=limit,
        used=used,
        requested=requested,
    )


def _view_borrowed(row: Borrowed) -> BorrowedView:
    lent = [amount for _, amount in row.lenders]
    numbers = (row.used, row.guaranteed, row.amount, *lent)
    used, guaranteed, borrowed, *amounts = format_alike(row.resource, numbers)
    lenders = zip(row.lenders, amounts, strict=True)
    return BorrowedView(
        quota=row.quota,
        resource=row.resource,
        used=used,
        guaranteed=guaranteed,
        borrowed=borrowed,
        lenders=[LenderView(quota=name, amount=amount) for (name, _), amount in lenders],
    )


def _view_evictor(evictor: Evictor) -> EvictorView:
    info = evictor.info
    namespace, _, name = info.key.partition("/")
    return EvictorView(
        namespace=namespace,
        name=name,
        queue=info.queue,
        quota=info.quota,
        priority=info.priority,
        reason=evictor.reason,
    )


def with_changes(view: ExplainView, changes: Changes | None) -> ExplainView:
    """Return the explanation with what would start the unit; None if it does not wait."""
    found = [] if changes is None else [ChangeView.of(each) for each in changes.found]
    complete = changes is None or changes.are_complete
    return view.model_copy(update={"changes": found, "changes_complete": complete})
