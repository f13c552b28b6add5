"""The programs: whether their pods are ready, whether one leads, and of which version they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from koord_queue.checks.facts import (
    COMPONENT,
    INSTANCE,
    VERSION,
    Facts,
    Json,
    condition_of,
    containers_of,
    flag_of,
    label_of,
    list_of,
    name_of,
    part,
    text_of,
)
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning
from shared_api.timestamps import read_time

LEASE_FLAG: Final = "--leader-elect-lease-name"
DEFAULT_LEASE_SECONDS: Final = 15
"""Duration of a lease that does not state one: the programs' default."""
SCHEDULER_LEASE: Final = "koord-queue-scheduler"
CONTROLLERS_LEASE: Final = "koord-queue-controllers"
"""Leases of programs that are started without a name for theirs."""
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = "controllers"

_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)")


def check_programs(facts: Facts) -> Iterator[Finding]:
    """Yield whether all pods of the programs are ready."""
    namespace = facts.system_namespace
    if not facts.deployments.is_known:
        yield unknown("programs", f"they cannot be seen: {facts.deployments.why_unknown()}")
        return
    deployments = facts.deployments.items
    if not any(label_of(each, COMPONENT) == SCHEDULER for each in deployments):
        yield _judge_outside(facts)
        return
    bad = [finding for each in deployments for finding in _judge_deployment(each, namespace)]
    names = ", ".join(text_of(each, "metadata", "name") for each in deployments)
    yield from bad or [ok("programs", f"ready: {names}")]


def _judge_outside(facts: Facts) -> Finding:
    """Return what is known where the chart has installed no scheduler.

    It may run as a process, as in the demo, or in a Deployment that is not the chart's.
    """
    url = facts.server_url
    if url and facts.debug_api.is_known and facts.debug_api.value is not None:
        return ok("programs", f"a scheduler answers at {url}; it was not installed by the chart")
    leases = {text_of(each, "metadata", "name"): each for each in facts.leases.items}
    own = leases.get(SCHEDULER_LEASE)
    if own is not None and not list(judge_lease(SCHEDULER_LEASE, own, facts.time)):
        text = f"a scheduler renews lease {SCHEDULER_LEASE}; it was not installed by the chart"
        return ok("programs", text)
    text = f"no scheduler is installed in namespace {facts.system_namespace}"
    if facts.debug_api.right:
        return unknown("programs", f"{text}; whether one runs at {url}: you may not read it")
    if url:
        why = facts.debug_api.why_unknown() or "it has no debug API"
        text = f"{text}, and none answers at {url}: {why}"
    return problem("programs", text, "helm install, or name its namespace: --system-namespace")


def _judge_deployment(deployment: Json, namespace: str) -> Iterator[Finding]:
    name = text_of(deployment, "metadata", "name")
    wanted = part(deployment, "spec", "replicas")
    wanted = 1 if wanted is None else int(wanted)
    ready = int(part(deployment, "status", "readyReplicas") or 0)
    scale = f"kubectl -n {namespace} scale deployment {name} --replicas 1"
    if wanted == 0:
        yield problem("programs", f"{name} is scaled to 0", scale)
    elif ready == 0:
        why = _why_not(deployment)
        look = f"kubectl -n {namespace} get pods; kubectl -n {namespace} logs deployment/{name}"
        yield problem("programs", f"none of the pods of {name} is ready{why}", look)
    elif ready < wanted:
        text = f"{ready} of {wanted} pods of {name} are ready"
        yield warning("programs", text, f"kubectl -n {namespace} get pods")


def _why_not(deployment: Json) -> str:
    for kind in ("ReplicaFailure", "Progressing", "Available"):
        condition = condition_of(deployment, kind)
        is_bad = part(condition, "status") == ("True" if kind == "ReplicaFailure" else "False")
        if is_bad and text_of(condition, "message"):
            return f": {text_of(condition, 'message')}"
    return ""


def check_alone(facts: Facts) -> Iterator[Finding]:
    """Yield other installations: each decides about the units of all namespaces."""
    if not facts.schedulers.is_known:
        why = facts.schedulers.why_unknown()
        yield unknown("alone", f"whether there is another installation: {why}")
        return
    running = [each for each in facts.schedulers.items if _decides(each)]
    here = [each for each in running if _namespace_of(each) == facts.system_namespace]
    others = here[1:] + [each for each in running if each not in here]
    for each in others:
        text = f"{name_of(each)} is of another installation: both decide about the same units"
        uninstall = f"helm uninstall {label_of(each, INSTANCE)} --namespace {_namespace_of(each)}"
        yield problem("alone", text, uninstall)
    if not others:
        yield ok("alone", "there is no other installation in this cluster")


def _decides(scheduler: Json) -> bool:
    """Return whether it runs, and is no shadow, which only watches."""
    watches = any("--shadow" in list_of(each, "args") for each in containers_of(scheduler))
    return part(scheduler, "spec", "replicas") != 0 and not watches


def _namespace_of(scheduler: Json) -> str:
    return text_of(scheduler, "metadata", "namespace")


def check_leases(facts: Facts) -> Iterator[Finding]:
    """Yield whether each program holds its Lease, and renews it.

    A program that does has reached the API server, has its rights, and has filled its caches.
    """
    if not facts.deployments.is_known:
        yield unknown("leases", f"their names are unknown: {facts.deployments.why_unknown()}")
        return
    if not facts.leases.is_known:
        yield unknown("leases", f"they cannot be read: {facts.leases.why_unknown()}")
        return
    names = lease_names(facts.deployments.items) or _leases_outside(facts)
    if not facts.deployments.items and not names:
        yield unknown("leases", "their names are unknown: no program was found")
        return
    found = {text_of(each, "metadata", "name"): each for each in facts.leases.items}
    bad = [
        problem("leases", text, _log_of(deployment, facts.system_namespace))
        for name, deployment in names.items()
        for text in judge_lease(name, found.get(name), facts.time)
    ]
    holders = ", ".join(names) or "no program takes one"
    yield from bad or [ok("leases", f"renewed in time: {holders}" if names else holders)]


def _leases_outside(facts: Facts) -> dict[str, str]:
    """Return the Leases of programs that the chart has not installed, by their usual names."""
    if facts.deployments.items:
        return {}
    found = {text_of(each, "metadata", "name") for each in facts.leases.items}
    return {name: "" for name in (SCHEDULER_LEASE, CONTROLLERS_LEASE) if name in found}


def _log_of(deployment: str, namespace: str) -> str:
    if not deployment:
        return "the log of the program"
    return f"kubectl -n {namespace} logs deployment/{deployment}"


def lease_names(deployments: list[Json]) -> dict[str, str]:
    """Return the names of the programs' Leases, each with its Deployment."""
    return {
        flag_of(container, LEASE_FLAG): text_of(each, "metadata", "name")
        for each in deployments
        for container in containers_of(each)
        if flag_of(container, LEASE_FLAG) and flag_of(container, "--leader-elect") != "false"
    }


def judge_lease(name: str, lease: Json, now: datetime) -> Iterator[str]:
    """Yield what is wrong with a Lease.

    Args:
        name: Its name.
        lease: The object, or None.
        now: The API server's time.
    """
    holder = text_of(lease, "spec", "holderIdentity")
    if not holder:
        why = "does not exist" if lease is None else "has no holder"
        yield f"lease {name} {why}: the program is not running, or is not ready"
        return
    renewed = read_time(text_of(lease, "spec", "renewTime"))
    lasts = part(lease, "spec", "leaseDurationSeconds")
    age = None if renewed is None else (now - renewed).total_seconds()
    if age is None or age > (lasts if isinstance(lasts, int) else DEFAULT_LEASE_SECONDS):
        since = "never" if age is None else f"{age:.0f} s ago"
        yield f"lease {name} was last renewed {since}, by {holder}: it has stopped"


def check_versions(facts: Facts) -> Iterator[Finding]:
    """Yield whether the programs are of the version of this command line."""
    if not facts.deployments.is_known:
        yield unknown("versions", f"they cannot be seen: {facts.deployments.why_unknown()}")
        return
    if not facts.deployments.items:
        yield unknown("versions", f"no program was found; this command line is {facts.version}")
        return
    found = {
        text_of(each, "metadata", "name"): version_of(each) for each in facts.deployments.items
    }
    own = _NUMBERS.match(facts.version)
    other = {name: version for name, version in found.items() if _differs(version, own)}
    for name, version in other.items():
        text = f"{name} is {version}, this command line {facts.version}: answers may lack fields"
        yield warning("versions", text, f"pip install 'koord-queue=={version}'")
    if not other:
        yield ok("versions", f"{facts.version} here, and of all programs")


def version_of(deployment: Json) -> str:
    """Return the version of a program: its label, or the tag of its image; "" if neither says."""
    label = label_of(deployment, VERSION)
    if label:
        return label
    containers = containers_of(deployment)
    image = text_of(containers[0], "image") if containers else ""
    _, colon, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    return tag if colon else ""


def _differs(version: str, own: re.Match[str] | None) -> bool:
    """Return whether the first two numbers differ; a version that cannot be read does not."""
    number = _NUMBERS.match(version)
    return number is not None and own is not None and number.groups() != own.groups()
