"""The objects: quotas, queues, units, and what of them cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from koord_queue.checks.facts import (
    COMPONENT,
    Answer,
    Facts,
    Json,
    condition_of,
    containers_of,
    count_of,
    flag_of,
    label_of,
    list_of,
    name_of,
    part,
    serves,
    some,
    text_of,
)
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning
from koord_queue.checks.programs import SCHEDULER
from shared_api.quota_names import QuotaNamespaces
from shared_api.timestamps import read_time
from shared_api.unit_problems import (
    WHERE_TO_LOOK,
    Ready,
    explain_command,
    reason_to_act,
    reason_without_pods,
    waiting_text,
    without_pods_text,
)

LISTED: Final = QuotaNamespaces.LISTED.value
_LISTED_IN_FILE: Final = re.compile(rf"^ *quotaNamespaces: *[\"']?{LISTED}\b", re.MULTILINE)
QUOTA_GROUP_VERSION: Final = "scheduling.sigs.k8s.io/v1alpha1"
LONG_WITHOUT_STATUS: Final = timedelta(minutes=1)
"""The scheduler writes the status of a queue within seconds."""
UNREADABLE: Final = frozenset(
    {
        "BadName",
        "Cycle",
        "DuplicateName",
        "NamespaceTwice",
        "NegativeAmount",
        "ParentMissing",
        "SecondTree",
        "TooDeep",
        "UnknownPolicy",
        "UnknownReclaimPolicy",
        "Unreadable",
        "UnreadableAmount",
        "UnreadableAnnotation",
        "UnreadableAttribute",
        "UnreadableBudget",
        "UnreadableFairShare",
        "UnreadableLabel",
        "UnreadableLimit",
    }
)
"""Reasons of events on objects of which something cannot be used."""


def check_quotas(facts: Facts) -> Iterator[Finding]:
    """Yield whether there are quotas of the kind that the scheduler reads."""
    served = facts.served.get(QUOTA_GROUP_VERSION)
    if served is None or not served.is_known:
        why = "not asked" if served is None else served.why_unknown()
        yield unknown("quotas", f"which kinds are served: {why}")
        return
    if uses_resource_quotas(facts):
        yield ok("quotas", "the scheduler reads ResourceQuotas")
    elif serves(served, "elasticquotas"):
        yield from _judge_quotas(facts)
    elif serves(served, "elasticquotatrees"):
        yield ok("quotas", f"ElasticQuotaTrees are served{_who_may_name(facts)}")
    else:
        text = "neither ElasticQuota nor ElasticQuotaTree is served: every unit waits"
        fix = "install Koordinator's CRDs, or set pluginConfigs to ResourceQuota: docs/quotas.md"
        yield problem("quotas", text, fix)


def _judge_quotas(facts: Facts) -> Iterator[Finding]:
    if not facts.quotas.is_known:
        yield unknown("quotas", f"they cannot be listed: {facts.quotas.why_unknown()}")
    elif not facts.quotas.items:
        text = "there is no ElasticQuota: units that name none wait with NoQuota"
        yield warning("quotas", text, "create one: docs/quotas.md")
    else:
        count = count_of(facts.quotas.items, "ElasticQuota", is_cut=facts.quotas.is_cut)
        yield ok("quotas", count + _who_may_name(facts))


def _who_may_name(facts: Facts) -> str:
    """Return that any namespace may name a quota, as the end of a sentence; "" otherwise.

    It is not known of a scheduler that the chart has not installed.
    """
    schedulers = [
        each for each in facts.deployments.items if label_of(each, COMPONENT) == SCHEDULER
    ]
    flags = {
        flag_of(container, "--quota-namespaces")
        for each in schedulers
        for container in containers_of(each)
    }
    if not flags or LISTED in flags or _is_listed_in_file(facts):
        return ""
    return f"; any namespace may name each (quotaNamespaces is {QuotaNamespaces.OPEN})"


def _is_listed_in_file(facts: Facts) -> bool:
    """Return whether a configuration file of the installation says so."""
    texts = (
        text for each in facts.config_maps.items for text in (part(each, "data") or {}).values()
    )
    return any(_LISTED_IN_FILE.search(str(text)) is not None for text in texts)


def uses_resource_quotas(facts: Facts) -> bool:
    """Return whether the scheduler's configuration names the plugin for ResourceQuotas."""
    return any(
        "ResourceQuota" in str(text)
        for each in facts.config_maps.items
        for text in (part(each, "data") or {}).values()
    )


def check_queues(facts: Facts) -> Iterator[Finding]:
    """Yield the queues that admit nothing, with the reason of their condition Ready."""
    if not facts.queues.is_known:
        yield unknown("queues", f"they cannot be listed: {facts.queues.why_unknown()}")
        return
    queues = facts.queues.items
    system = facts.system_namespace
    here = [each for each in queues if text_of(each, "metadata", "namespace") == system]
    bad = [finding for each in here for finding in _judge_queue(each, facts)]
    elsewhere = [name_of(each) for each in queues if each not in here]
    if elsewhere:
        text = f"{some(elsewhere)}: queues count only in namespace {system}"
        bad.append(warning("queues", text, f"create them in namespace {system}"))
    count = count_of(here, "queue", is_cut=facts.queues.is_cut)
    yield from bad or [ok("queues", f"{count}, none has a problem")]


def _judge_queue(queue: Json, facts: Facts) -> Iterator[Finding]:
    name = text_of(queue, "metadata", "name")
    ready = condition_of(queue, "Ready")
    describe = f"kubectl -n {facts.system_namespace} describe queue {name}"
    if ready is None:
        created = read_time(text_of(queue, "metadata", "creationTimestamp"))
        if created is not None and facts.time - created > LONG_WITHOUT_STATUS:
            yield problem("queues", f"queue {name} has no status: no scheduler sees it", describe)
        return
    if part(ready, "status") != "False":
        return
    reason, message = text_of(ready, "reason"), text_of(ready, "message")
    text = f"queue {name} is not ready: {reason}: {message}"
    if reason == "Stopped":
        yield warning("queues", text, f"koord-queue resume {name}")
    else:
        yield problem("queues", text, describe)


def check_quota_policies(facts: Facts) -> Iterator[Finding]:
    """Yield the policies that do not count as they say, with the reason of their condition."""
    return _check_settings(facts, "limits", facts.quota_policies, _POLICIES)


def check_reservations(facts: Facts) -> Iterator[Finding]:
    """Yield the reservations that do not count as they say, likewise."""
    known = facts.queue_reservations
    return _check_settings(facts, "windows", known, _RESERVATIONS)


_POLICIES: Final = ("QuotaPolicy", "quota policy", "quota policies")
_RESERVATIONS: Final = ("QueueReservation", "reservation", "reservations")
"""Kinds of administrators, each with its nouns for one and several."""


def _check_settings(
    facts: Facts, check: str, known: Answer, words: tuple[str, str, str]
) -> Iterator[Finding]:
    """Yield the objects of a kind of administrators that do not count as they say."""
    kind, noun, nouns = words
    if not known.is_known:
        yield unknown(check, f"they cannot be listed: {known.why_unknown()}")
        return
    system = facts.system_namespace
    here = [each for each in known.items if text_of(each, "metadata", "namespace") == system]
    bad = []
    for each in here:
        ready = condition_of(each, "Ready")
        if part(ready, "status") == "False":
            name = text_of(each, "metadata", "name")
            why = f"{text_of(ready, 'reason')}: {text_of(ready, 'message')}"
            fix = f"kubectl -n {system} describe {kind.lower()} {name}"
            bad.append(warning(check, f"{noun} {name} is not ready: {why}", fix))
    elsewhere = [name_of(each) for each in known.items if each not in here]
    if elsewhere:
        text = f"{some(elsewhere)}: {nouns} count only in namespace {system}"
        bad.append(warning(check, text, f"create them in namespace {system}"))
    count = count_of(here, f"{kind} object", is_cut=known.is_cut)
    yield from bad or [ok(check, f"{count}, none has a problem")]


def check_units(facts: Facts) -> Iterator[Finding]:
    """Yield units that wait for a user to act, and admitted ones without pods."""
    if not facts.units.is_known:
        yield unknown("units", f"they cannot be listed: {facts.units.why_unknown()}")
        return
    waiting: dict[str, list[str]] = {}
    stuck: dict[str, list[str]] = {}
    for unit in facts.units.items:
        reason = _reason_to_act(unit)
        if reason:
            waiting.setdefault(reason, []).append(name_of(unit))
        reason = _reason_without_pods(unit, facts)
        if reason:
            stuck.setdefault(reason, []).append(name_of(unit))
    for reason, names in sorted(waiting.items()):
        fix = f"{explain_command(names[0])}; {WHERE_TO_LOOK}"
        yield warning("units", f"{waiting_text(len(names), reason)}: {some(names)}", fix)
    for reason, names in sorted(stuck.items()):
        namespace, _, name = names[0].partition("/")
        text = f"{without_pods_text(reason)}: {some(names)}"
        yield warning("units", text, f"kubectl -n {namespace} describe queueunit {name}")
    if not waiting and not stuck:
        count = count_of(facts.units.items, "unit", is_cut=facts.units.is_cut)
        yield ok("units", f"{count}, none waits until somebody acts")
    elif facts.units.is_cut:
        yield unknown("units", f"only the first {len(facts.units.items)} were looked at")


def _reason_to_act(unit: Json) -> str:
    """Return why a unit waits, if it needs action; "" otherwise."""
    condition = condition_of(unit, "QuotaReserved")
    waits = part(condition, "status") == "False"
    return reason_to_act(text_of(condition, "reason")) if waits else ""


def _reason_without_pods(unit: Json, facts: Facts) -> str:
    """Return why the pods of an admitted unit do not run, if that has lasted; "" otherwise."""
    admitted, ready = condition_of(unit, "Admitted"), condition_of(unit, "PodsReady")
    if (
        part(admitted, "status") != "True"
        or ready is None
        or not list_of(unit, "status", "admissions")
    ):
        return ""
    since = read_time(text_of(ready, "lastTransitionTime"))
    says = Ready(text_of(ready, "status"), text_of(ready, "reason"), since)
    return reason_without_pods(says, facts.time)


def check_objects(facts: Facts) -> Iterator[Finding]:
    """Yield objects that cannot be read, or of which something cannot be used, by their events."""
    if not facts.events.is_known:
        yield unknown("objects", f"events cannot be listed: {facts.events.why_unknown()}")
        return
    found: dict[tuple[str, str], Finding] = {}
    for event in facts.events.items:
        reason = text_of(event, "reason")
        if reason not in UNREADABLE or not _is_own(event):
            continue
        about = part(event, "regarding")
        kind, name = text_of(about, "kind"), text_of(about, "name")
        namespace = text_of(about, "namespace")
        key = f"{namespace}/{name}" if namespace else name
        text = f"{kind} {key}: {reason}: {text_of(event, 'note')}"
        where = f"-n {namespace} " if namespace else ""
        fix = f"kubectl {where}edit {kind.lower()} {name}"
        found[f"{kind} {key}", reason] = warning("objects", text, fix)
    yield from (found[key] for key in sorted(found))
    if not found:
        yield ok("objects", "the last hour has no event of an object that cannot be read")


def _is_own(event: Json) -> bool:
    return text_of(event, "reportingController").startswith("koord-queue")
