"""The APIService of the aggregated API, whose failure would be felt by the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord_queue.checks.facts import Facts, condition_of, containers_of, flag_of, part, text_of
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning

NAME: Final = "v1alpha1.visibility.koord-queue"
GROUP_VERSION: Final = "visibility.koord-queue/v1alpha1"
_DELETE: Final = f"kubectl delete apiservice {NAME}"


def check_api_service(facts: Facts) -> Iterator[Finding]:
    """Yield whether the aggregated API answers, and whether its APIService does harm."""
    wanted = serves_visibility(facts)
    logs = f"kubectl -n {facts.system_namespace} logs deployment/koord-queue -c insight"
    answer = facts.api_service
    if not answer.is_known:
        yield from _by_discovery(facts, logs)
    elif answer.value is None:
        if wanted:
            yield problem("apiservice", f"{NAME} is missing", "helm upgrade, which creates it")
        else:
            text = "the aggregated API is off: commands need a port-forward or --server"
            yield ok("apiservice", text)
    elif part(answer.value, "spec", "service") is None:
        text = "the aggregated API is not published: the insight program has not served it yet"
        yield warning("apiservice", text, logs)
    else:
        available = condition_of(answer.value, "Available")
        if part(available, "status") == "True":
            yield ok("apiservice", f"{NAME} is available")
            return
        why = f"{text_of(available, 'reason')}: {text_of(available, 'message')}"
        text = f"{NAME} is not available ({why.strip(': ') or 'no condition yet'})"
        if wanted:
            yield problem("apiservice", text, f"{logs}; while it lasts: {_DELETE}")
        else:
            stale = f"{text}; nobody serves it: namespaces cannot be deleted"
            yield problem("apiservice", stale, _DELETE)


def _by_discovery(facts: Facts, logs: str) -> Iterator[Finding]:
    """Yield what can be seen without the right to read the APIService."""
    served = facts.served.get(GROUP_VERSION)
    if served is not None and served.is_known and served.value is not None:
        yield ok("apiservice", f"{GROUP_VERSION} is served")
        return
    if served is not None and served.failure:
        text = f"{GROUP_VERSION} does not answer: {served.failure}"
        yield problem("apiservice", text, logs)
        return
    yield unknown("apiservice", f"it cannot be read: {facts.api_service.why_unknown()}")


def serves_visibility(facts: Facts) -> bool:
    """Return whether a program of the installation is told to serve the aggregated API."""
    return any(
        flag_of(container, "--visibility-address")
        for each in facts.deployments.items
        for container in containers_of(each)
    )
