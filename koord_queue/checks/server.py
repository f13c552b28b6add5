"""The API server: its version, the CRDs, its clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from koord_queue.checks.facts import Facts, Json, condition_of, list_of, part, serves, some, text_of
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning
from shared_api.crds import DEFINITIONS, GROUP, VERSION, Definition
from shared_api.timestamps import MAX_CLOCK_SKEW, read_time
from shared_api.version import VERSION as RELEASE

OLDEST: Final = (1, 29)
"""The chart's `kubeVersion`: rules of CRDs in CEL are stable since then."""
SELECTS_FIELDS: Final = (1, 32)
"""Field selectors of QueueUnits work since then."""
WARN_SKEW: Final = timedelta(seconds=5)
"""A Lease lasts 15 s and is renewed every few: below this nothing is decided wrongly. The Date
header has whole seconds, so that a difference of one is none."""

_INSTALL: Final = "kubectl apply --server-side -f crds/"
_NUMBER: Final = re.compile(r"v?(\d+)\.(\d+)")


def check_server(facts: Facts) -> Iterator[Finding]:
    """Yield whether the API server is reached, and new enough."""
    if not facts.server.is_known:
        yield problem(
            "server", f"it cannot be asked: {facts.server.why_unknown()}", "kubectl version"
        )
        return
    shown = text_of(facts.server.value, "gitVersion")
    number = _NUMBER.match(shown)
    if number is None:
        yield unknown("server", f"its version {shown!r} cannot be read")
        return
    version = (int(number[1]), int(number[2]))
    if version < OLDEST:
        least = ".".join(map(str, OLDEST))
        text = f"Kubernetes {shown} is too old: CRD rules need {least}"
        yield problem("server", text, f"upgrade the cluster to {least} or newer")
    elif version < SELECTS_FIELDS:
        text = f"Kubernetes {shown}; field selectors of queueunits need 1.32"
        yield ok("server", text)
    else:
        yield ok("server", f"Kubernetes {shown}")


def check_clock(facts: Facts) -> Iterator[Finding]:
    """Yield whether the clocks of this machine and of the programs agree with the API server's."""
    if facts.server_time is None:
        yield unknown("clock", "the API server does not say its time")
        return
    ahead = facts.now - facts.server_time
    if abs(ahead) > WARN_SKEW:
        yield _skewed("this machine's clock", ahead, "set this machine's clock (timedatectl)")
    else:
        yield ok("clock", "this machine and the API server agree on the time")
    for lease in facts.leases.items:
        renewed = read_time(text_of(lease, "spec", "renewTime"))
        if renewed is not None and renewed - facts.server_time > WARN_SKEW:
            holder = text_of(lease, "spec", "holderIdentity")
            fix = "set the clock of the node that it runs on"
            yield _skewed(f"the clock of {holder}", renewed - facts.server_time, fix)


def _skewed(whose: str, ahead: timedelta, fix: str) -> Finding:
    seconds = abs(ahead.total_seconds())
    way = "ahead of" if ahead > timedelta() else "behind"
    text = f"{whose} is {seconds:.0f} s {way} the API server's"
    if abs(ahead) > MAX_CLOCK_SKEW:
        return problem("clock", text, fix)
    return warning("clock", text, fix)


def check_crds(facts: Facts) -> Iterator[Finding]:
    """Yield whether the CRDs are installed, served, and have what this version needs."""
    served = facts.served.get(f"{GROUP}/{VERSION}")
    findings: list[Finding] = []
    for definition in DEFINITIONS:
        name = f"{definition.plural}.{GROUP}"
        answer = facts.crds.get(definition.plural)
        if served is not None and served.is_known and not serves(served, definition.plural):
            findings.append(_missing(definition, f"{name}/{VERSION} is not served"))
        elif answer is None or not answer.is_known:
            why = "not asked" if answer is None else answer.why_unknown()
            cannot = unknown("crds", f"their schemas cannot be read: {why}")
            findings += [] if cannot in findings else [cannot]
        elif answer.value is None:
            findings.append(_missing(definition, f"the CRD {name} is missing"))
        else:
            findings += _judge_crd(definition, answer.value)
    *most, last = [definition.plural for definition in DEFINITIONS]
    text = f"{', '.join(most)} and {last} are those of this version"
    yield from findings or [ok("crds", text)]


def _missing(definition: Definition, text: str) -> Finding:
    """Return that a kind is missing; without an optional one, only what it is for is."""
    if definition.is_optional:
        return warning("crds", f"{text}: no {definition.kind} counts", _INSTALL)
    return problem("crds", text, _INSTALL)


def _judge_crd(definition: Definition, found: Json) -> Iterator[Finding]:
    name = f"{definition.plural}.{GROUP}"
    established = condition_of(found, "Established")
    if part(established, "status") != "True":
        why = text_of(established, "message") or "it is not established yet"
        yield problem(
            "crds", f"the CRD {name} is not served: {why}", f"kubectl describe crd {name}"
        )
        return
    versions = [
        each for each in list_of(found, "spec", "versions") if part(each, "name") == VERSION
    ]
    if not versions:
        yield problem("crds", f"the CRD {name} has no version {VERSION}", _INSTALL)
        return
    schema = part(versions[0], "schema", "openAPIV3Schema")
    wanted = definition.schema()
    missing = sorted(set(field_paths(wanted)) - set(field_paths(schema)))
    if missing:
        text = f"the CRD {name} is older than this version: it lacks {some(missing)}"
        yield problem("crds", text, f"{_INSTALL} of version {RELEASE}")
    elif without_texts(schema) != without_texts(wanted):
        text = f"the schema of the CRD {name} is not that of this version"
        yield warning("crds", text, f"{_INSTALL} of version {RELEASE}")


def field_paths(schema: Json, prefix: str = "") -> Iterator[str]:
    """Yield the path of each field of an OpenAPI schema, as `status.podSet[].count`."""
    for name, body in (part(schema, "properties") or {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path
        yield from field_paths(body, path)
    items = part(schema, "items")
    if items is not None:
        yield from field_paths(items, f"{prefix}[]")


def without_texts(schema: Json) -> Json:
    """Return a schema without descriptions, which change nothing."""
    if isinstance(schema, Mapping):
        kept: Mapping[str, Any] = schema
        return {
            key: without_texts(value)
            for key, value in kept.items()
            if key != "description" or isinstance(value, Mapping)
        }
    if isinstance(schema, list):
        return [without_texts(each) for each in schema]
    return schema
