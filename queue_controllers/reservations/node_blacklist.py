"""Nodes on which nothing may be reserved: a ConfigMap names them, each report for a while. Pure.

The text is JSON, node -> reports: `{"node-1": [{"lastUpdateTimestamp": "2026-11-01T10:00:00Z"}]}`.
A node counts as bad until its newest report is too old; one that is named without a time, until it
is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

MAX_NODES: Final = 500
"""Of one blacklist: the names stand in every reservation. Those reported last count."""

HOSTNAME: Final = "kubernetes.io/hostname"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class BlacklistError(ValueError):
    """A blacklist that can not be read, in one line."""


class _Report(msgspec.Struct, frozen=True):
    last_update: datetime | None = msgspec.field(name="lastUpdateTimestamp", default=None)


_decoder: Final = msgspec.json.Decoder(dict[str, tuple[_Report, ...]])
_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


def read_blacklist(text: str, now: datetime, keep_seconds: float) -> tuple[str, ...]:
    """Return the bad nodes, sorted.

    Raises:
        BlacklistError: it is not the JSON it should be.
    """
    if not text:
        return ()
    try:
        reports = _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise BlacklistError(f"not a map of nodes to reports: {error}") from error
    last = {node: _last_of(each) for node, each in reports.items()}
    bad = [
        node
        for node, moment in last.items()
        if node and (now - moment).total_seconds() < keep_seconds
    ]
    return tuple(sorted(sorted(bad, key=lambda node: (last[node], node))[-MAX_NODES:]))


def _last_of(reports: tuple[_Report, ...]) -> datetime:
    moments = [each.last_update for each in reports if each.last_update is not None]
    if not moments:
        return _ALWAYS
    return max(each.replace(tzinfo=each.tzinfo or UTC) for each in moments)


def avoid_nodes(spec: Mapping[str, Any], nodes: tuple[str, ...]) -> dict[str, Any]:
    """Return a pod's spec, as JSON values, that keeps off these nodes as well.

    Terms are alternatives, so each existing one gets the requirement. A term without requirements
    matches no node, as does a selector without terms: both are left so.

    Source: kubernetes v1.36.3, component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
    """
    if not nodes:
        return dict(spec)
    kept_off = {"key": HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED)
    if required is None:
        narrowed = [{"matchExpressions": [kept_off]}]
    else:
        narrowed = [
            _narrowed(term or {}, kept_off) for term in required.get("nodeSelectorTerms") or ()
        ]
    node_affinity = {
        **node_affinity,
        _REQUIRED: {**(required or {}), "nodeSelectorTerms": narrowed},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _narrowed(term: Mapping[str, Any], kept_off: Mapping[str, Any]) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or ()
    if not (expressions or term.get("matchFields")):
        return dict(term)
    return {**term, "matchExpressions": [*expressions, kept_off]}
