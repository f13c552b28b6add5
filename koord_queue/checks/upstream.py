"""What of an installation of upstream's koord-queue (in Go) behaves otherwise here.

The facts are those of its chart: Deployments without the labels of this one, flags, environment
variables; and the settings of queues, quotas and trees that only upstream reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord_queue.checks.facts import (
    PART_OF,
    Facts,
    Json,
    containers_of,
    label_of,
    list_of,
    name_of,
    part,
    some,
    text_of,
)
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning
from koord_queue.checks.programs import SCHEDULER

CHECK: Final = "upstream"
PAGE: Final = "docs/coming-from.md"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"

PROGRAMS: Final = ("koord-queue", "koord-queue-controllers", "jobextensions", "kube-queue")
"""Names of upstream's commands and images."""

_CONTROLLERS_BACKOFF: Final = "the controllers' backoffTimeout says how long a unit is put back"
FLAGS: Final = {
    "--scheduleSuspendTimeInMillSecond": "workers rest until something changes",
    "--enableApiHandler": "the debug API is always there: --debug-address",
    "--enableParentLimit": "a parent's max always counts",
    "--enableVisibilityServer": "the debug API and koord-queue-insight answer its questions",
    "--feature-gates": "what they switch is always on here, or not there",
    "--admissionCheckControllerWorker": "one thread is enough",
    "--podInitialBackoffSeconds": _CONTROLLERS_BACKOFF,
    "--podMaxBackoffSeconds": _CONTROLLERS_BACKOFF,
    "--default-queue-policy": "label ElasticQuotas koord-queue/queue-policy",
    "--wqqps": "what is due is worked on at once; --kube-api-qps limits requests",
    "--default-requeue-period": "jobs are looked at when something changes",
    "--enable-pod-reclaim": "the pods of a suspended job are its operator's",
    "--enable-network-aware": "no topologies are copied",
}
"""Flags that are accepted here without effect, and what counts instead."""

REFUSED: Final = {
    "--defaultPreemptible": (
        "false",
        "label jobs quota.scheduling.koordinator.sh/preemptible=false instead",
    ),
}
"""Flags with a value with which a program here does not start, and what to do instead."""

MANAGE_ALL: Final = "--manage-all-jobs"
VARIABLES: Final = {"QueueGroupPlugin": "plugins of the configuration file says the same"}
"""Environment variables without effect here."""

NO_POLICY: Final = frozenset({"Round"})
QUEUE_ARGS: Final = "koord-queue/queue-args"
WAITS_FOR_PODS: Final = "koord-queue/wait-for-pods-running"
ENABLES_PREEMPTION: Final = "koord-queue/enable-queueunit-preemption"


def check_upstream(facts: Facts) -> Iterator[Finding]:
    """Yield what of upstream's programs and settings behaves otherwise here."""
    if not facts.all_deployments.is_known:
        why = facts.all_deployments.why_unknown()
        yield unknown(CHECK, f"whether upstream's programs are installed: {why}")
        return
    found = [each for each in facts.all_deployments.items if is_upstreams(each)]
    findings = [finding for each in found for finding in _judge_program(each, facts)]
    findings += _judge_queues(facts)
    if found:
        findings += _judge_quotas(facts)
    yield from findings or [ok(CHECK, "nothing is installed that upstream reads otherwise")]


def is_upstreams(deployment: Json) -> bool:
    """Return whether a Deployment runs a program of upstream's."""
    if label_of(deployment, PART_OF_LABEL) == PART_OF and label_of(deployment, COMPONENT):
        return False
    return any(_is_program(each) for each in containers_of(deployment))


def _is_program(container: Json) -> bool:
    image = text_of(container, "image").partition("@")[0].rpartition("/")[2].partition(":")[0]
    command = [str(each) for each in list_of(container, "command")][:1]
    return image in PROGRAMS or any(each.rpartition("/")[2] in PROGRAMS for each in command)


def _judge_program(deployment: Json, facts: Facts) -> Iterator[Finding]:
    name = text_of(deployment, "metadata", "name")
    ours = {label_of(each, COMPONENT) for each in facts.deployments.items}
    runs = part(deployment, "spec", "replicas") != 0
    if runs and SCHEDULER in ours:
        text = f"{name} is upstream's, and runs beside the programs of this version"
        scale = f"kubectl -n {facts.system_namespace} scale deployment {name} --replicas 0"
        yield problem(CHECK, f"{text}: both decide about the same units", scale)
    for container in containers_of(deployment):
        given = dict(_flags(container))
        yield from _judge_flags(name, given)
        for each in list_of(container, "env"):
            variable = text_of(each, "name")
            if variable in VARIABLES:
                text = f"{name}: {variable} has no effect here: {VARIABLES[variable]}"
                yield warning(CHECK, text, PAGE)


def _judge_flags(name: str, given: dict[str, str]) -> Iterator[Finding]:
    for flag, value in given.items():
        if flag in REFUSED and value == REFUSED[flag][0]:
            text = f"{name}: {flag}={value} is refused here"
            yield warning(CHECK, text, REFUSED[flag][1])
        elif flag in FLAGS:
            text = f"{name}: {flag} has no effect here: {FLAGS[flag]}"
            yield warning(CHECK, text, PAGE)
        elif flag == MANAGE_ALL and value == "true":
            text = f"{name}: {flag} suspends jobs here that are not created suspended"
            yield warning(CHECK, text, "docs/jobs.md, Which jobs are managed")


def _flags(container: Json) -> Iterator[tuple[str, str]]:
    """Yield the flags of a container; Go takes one dash or two, and switches without a value."""
    words = [str(each) for key in ("command", "args") for each in list_of(container, key)]
    for place, word in enumerate(words):
        if not word.startswith("-"):
            continue
        flag, has_value, value = f"--{word.lstrip('-')}".partition("=")
        after = words[place + 1] if place + 1 < len(words) else ""
        if not has_value:
            value = "true" if not after or after.startswith("-") else after
        yield flag, value


def _judge_queues(facts: Facts) -> Iterator[Finding]:
    settings: dict[str, list[str]] = {}
    for queue in facts.queues.items:
        annotations = part(queue, "metadata", "annotations") or {}
        policy = text_of(queue, "spec", "queuePolicy")
        if policy in NO_POLICY:
            settings.setdefault(f"policy {policy} does not exist here", []).append(name_of(queue))
        if QUEUE_ARGS in annotations:
            settings.setdefault(f"{QUEUE_ARGS} has no effect", []).append(name_of(queue))
    for text, names in settings.items():
        yield warning(CHECK, f"{some(names)}: {text}", "docs/queues.md, Order")


def _judge_quotas(facts: Facts) -> Iterator[Finding]:
    """Yield what is decided otherwise, once for all objects: upstream is installed."""
    if facts.quotas.items:
        text = (
            "jobs are compared with what koord-scheduler would grant, where upstream compares with"
            " max alone"
        )
        fix = "for upstream's rule: pluginConfigs.ElasticQuotaV2.mode=max; docs/quotas.md"
        yield warning(CHECK, text, fix)
    evicting = _queues_with(facts, ENABLES_PREEMPTION)
    if evicting:
        text = f"{some(evicting)}: only a strictly lower priority is evicted here"
        yield warning(CHECK, text, "docs/preemption.md")
    waiting = _queues_with(facts, WAITS_FOR_PODS)
    if waiting:
        text = f"{some(waiting)}: a unit whose pods do not run within 10 minutes is requeued here"
        yield warning(CHECK, text, "docs/queues.md, Settings of a queue")


def _queues_with(facts: Facts, annotation: str) -> list[str]:
    """Return the names of the queues of which an annotation is true."""
    return [
        name_of(each)
        for each in facts.queues.items
        if text_of(each, "metadata", "annotations", annotation) == "true"
    ]
