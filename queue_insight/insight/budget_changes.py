"""A budget with more in it, with which a unit starts now. Pure.

It comes from what the budget lacks for the unit. Units ahead take their share first, and another
budget may refuse what one lets pass: so the engine is asked again, and what it lacks then is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from queue_insight.insight.change import Change, ChangeKind, Patch, merge_patches, patch_of
from queue_insight.insight.question import Question, find_deciding
from queue_insight.insight.trials import Edit
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budget_accounts import accounts_of
from queue_scheduler.tenants.budget_rules import AMOUNT, BudgetRule
from queue_scheduler.tenants.budgets import describe
from queue_scheduler.tenants.hours import MILLI, in_decimals
from shared_api.objects.quota_policy import Budget, QuotaPolicy

MAX_STEPS: Final = 6
"""Raises until the unit starts; each is one trial."""

_API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"


class _Place(NamedTuple):
    """An entry of a QuotaPolicy, and the quota whose budget it was seen as."""

    policy: str
    entry: int
    quota: str


_Limits = dict[_Place, int]
"""New limits, in thousandths of what users call 1: an hour of a resource, or 1 of an amount."""


def find_budget_changes(question: Question) -> Iterator[Change]:
    """Yield what lets a unit start that budgets refuse: more in them."""
    change = _raise(question) if Reason.BUDGET_SPENT in question.reasons else None
    if change is not None:
        yield change


def find_rule(engine: Engine, refusal: Refusal) -> BudgetRule | None:
    """Return the budget that a refusal is by; None: it is gone."""
    accounts = accounts_of(engine.usage.budgets.accounts, refusal.quota)
    return next((each.rule for each in accounts if describe(each) == refusal.detail), None)


def _refused(question: Question, engine: Engine) -> list[Refusal]:
    """Return by which budgets the unit is refused, or the one that it waits behind."""
    found = find_deciding(engine, question.key, question.trials.wall)
    blockers = () if found is None else found.blockers
    return [each for each in blockers if each.reason is Reason.BUDGET_SPENT]


# --- more in the budget ---------------------------------------------------------------------------


def _raise(question: Question) -> Change | None:
    limits = _raised({}, question.engine, _refused(question, question.engine))
    for _ in range(MAX_STEPS):
        edited = _edit(question.engine, limits)
        if edited is None:
            return None
        outcome = question.trials.attempt(*_edits_of(edited[0]))
        if outcome.starts:
            break
        refused = _refused(question, outcome.engine)
        if not refused:
            return None  # something else keeps it from starting
        limits = _raised(limits, outcome.engine, refused)
    else:
        return None
    policies, patches = edited
    return Change(
        kind=ChangeKind.BUDGET,
        description=f"Raise {_in_words(question.engine, limits)}.",
        sufficient=True,
        minimal=not any(_starts_with(question, each) for each in _one_less(limits)),
        also_starts=outcome.also,
        patches=patches,
        edits=_edits_of(policies),
    )


def _raised(limits: _Limits, engine: Engine, refused: Iterable[Refusal]) -> _Limits:
    """Return limits that have what these refusals lack as well."""
    found = dict(limits)
    for refusal in refused:
        rule, lacks = find_rule(engine, refusal), refusal.budget
        # What has to declare a time starts with no budget, however large.
        if rule is not None and lacks is not None and not lacks.declares_nothing:
            # Where nothing is needed, anything that is left is enough.
            missing = lacks.missing if lacks.needed else 1 - lacks.left - lacks.committed
            target = -(-(rule.limit + missing) * MILLI // rule.scale)
            found[_Place(rule.policy, rule.index, refusal.quota)] = target
    return found


def _edit(
    engine: Engine, limits: _Limits
) -> tuple[dict[str, QuotaPolicy], tuple[Patch, ...]] | None:
    """Return the policies with these limits, and their patches.

    None: there are no limits to raise, or a policy states others than those in force.
    """
    policies: dict[str, QuotaPolicy] = {}
    patches: list[Patch] = []
    for place, target in sorted(limits.items()):
        stated = engine.policies.find(place.policy)
        if stated is None or stated.problem:
            return None
        policy = policies.get(place.policy, stated.api_object)
        entry = policy.spec.budgets[place.entry]
        field = "amount" if entry.hours is None else "hours"
        policies[place.policy] = _with(policy, place.entry, field, in_decimals(target, MILLI))
        at = f"/spec/budgets/{place.entry}/{field}"
        operations: tuple[dict[str, Any], ...] = (
            # The test fails if the list was edited meanwhile: its entries have no names.
            {"op": "test", "path": at, "value": getattr(entry, field)},
            {"op": "replace", "path": at, "value": in_decimals(target, MILLI)},
        )
        patch = patch_of(_API_VERSION, "QuotaPolicy", policy.metadata, {})
        patches.append(replace(patch, operations=operations))
    return (policies, merge_patches(patches)) if policies else None


def _with(policy: QuotaPolicy, index: int, field: str, text: str) -> QuotaPolicy:
    budgets: list[Budget] = [*policy.spec.budgets]
    budgets[index] = replace(budgets[index], **{field: text})
    return replace(policy, spec=replace(policy.spec, budgets=tuple(budgets)))


def _edits_of(policies: dict[str, QuotaPolicy]) -> tuple[Edit, ...]:
    return tuple(partial(Engine.on_quota_policy, policy=each) for each in policies.values())


def _one_less(limits: _Limits) -> Iterator[_Limits]:
    for place in limits:
        yield {**limits, place: limits[place] - 1}


def _starts_with(question: Question, limits: _Limits) -> bool:
    edited = _edit(question.engine, limits)
    return edited is not None and question.trials.attempt(*_edits_of(edited[0])).starts


def _in_words(engine: Engine, limits: _Limits) -> str:
    texts = []
    for place, target in sorted(limits.items()):
        rules = engine.usage.budgets.accounts.chains.of_quota(place.quota)
        rule = next(each for each in rules if (each.policy, each.index) == place[:2])
        what = "the amount" if rule.name == AMOUNT else f"the hours of {rule.name}"
        texts.append(
            f"{what} in the budget of quota {place.quota} (QuotaPolicy {place.policy}, budgets "
            f"{place.entry}) to at least {in_decimals(target, MILLI)}"
        )
    return ", and ".join(texts)
