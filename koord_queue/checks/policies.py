"""The admission policies of the chart: present, bound, and without errors."""

from __future__ import annotations

from collections.abc import Iterator

from koord_queue.checks.facts import (
    Answer,
    Facts,
    Json,
    containers_of,
    flag_of,
    list_of,
    part,
    some,
    text_of,
)
from koord_queue.checks.findings import Finding, ok, unknown, warning

_KINDS = {"validating": "ValidatingAdmissionPolicy", "mutating": "MutatingAdmissionPolicy"}
_PAGE = "docs/jobs.md, Who may resume a job"
_PROVING = "-prove-submitters"
"""End of the name of the policy that denies false names of users."""


def check_policies(facts: Facts) -> Iterator[Finding]:
    """Yield whether what the chart installs to guard the queue is in effect."""
    pairs = {
        "validating": (facts.validating, facts.validating_bindings),
        "mutating": (facts.mutating, facts.mutating_bindings),
    }
    names: list[str] = []
    bad: list[Finding] = []
    for kind, (policies, bindings) in pairs.items():
        missing = [each.why_unknown() for each in (policies, bindings) if not each.is_known]
        if missing:
            bad.append(unknown("policies", f"{_KINDS[kind]}: {', '.join(missing)}"))
            continue
        names += [text_of(each, "metadata", "name") for each in policies.items]
        for policy in policies.items:
            bad += _judge_policy(policy, _KINDS[kind], bindings)
        if kind == "validating":
            bad += _judge_names(facts, names)
    yield from bad
    if not bad and names:
        yield ok("policies", f"in effect: {some(names, most=4)}")
    elif not bad:
        text = "the chart's are not installed: others may resume jobs ahead of their turn"
        yield warning("policies", text, f"{_PAGE}: admissionPolicy.guardRelease of the chart")


def _judge_policy(policy: Json, kind: str, bindings: Answer) -> Iterator[Finding]:
    name = text_of(policy, "metadata", "name")
    own = [each for each in bindings.items if text_of(each, "spec", "policyName") == name]
    upgrade = "helm upgrade, which binds it again"
    if not own:
        yield warning("policies", f"{name} has no effect: no {kind}Binding names it", upgrade)
    elif kind == _KINDS["validating"] and not any(_denies(each) for each in own):
        yield warning("policies", f"{name} has no effect: none of its bindings denies", upgrade)
    for each in list_of(policy, "status", "typeChecking", "expressionWarnings"):
        text = f"{name}: {text_of(each, 'fieldRef')}: {text_of(each, 'warning')}"
        fix = f"kubectl describe {kind.lower()} {name}"
        yield warning("policies", " ".join(text.split()), fix)


def _judge_names(facts: Facts, policies: list[str]) -> Iterator[Finding]:
    """Yield that the scheduler trusts names of users which nobody proves."""
    trusts = any(
        flag_of(container, "--names-are-proved") == "true"
        for each in facts.deployments.items
        for container in containers_of(each)
    )
    if trusts and not any(each.endswith(_PROVING) for each in policies):
        text = "users may submit jobs as others: the scheduler trusts names that no policy proves"
        yield warning("policies", text, "helm upgrade with admissionPolicy.users=true, or false")


def _denies(binding: Json) -> bool:
    actions = part(binding, "spec", "validationActions")
    return isinstance(actions, list) and "Deny" in actions
