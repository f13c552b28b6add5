"""Nodes on which nothing may be reserved: a ConfigMap names them, each report for a while. Pure.

The text is JSON, node -> reports: `{"node-1": [{"lastUpdateTimestamp": "2026-11-01T10:00:00Z"}]}`.
A node counts as bad until its newest report is too old; one that is named without a time, until it
is removed. A clock may be ahead, by as long as a report counts: a later time would exclude its node
for years. What cannot be parsed does not count, and is reported; the rest does count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from shared_api.text_decoding import TextError, decode_json

MAX_NODES: Final = 500
"""Limit of one blacklist: the names stand in every reservation. Those reported last count."""

HOSTNAME: Final = "kubernetes.io/hostname"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class BlacklistError(ValueError):
    """A blacklist that cannot be parsed; the message is one line."""


class Blacklist(msgspec.Struct, frozen=True):
    """The content of a blacklist."""

    nodes: tuple[str, ...] = ()
    """The bad ones, sorted."""
    unread: str = ""
    """Which entries cannot be parsed, and why, in one line; "" if all can."""


class _Report(msgspec.Struct, frozen=True):
    last_update: datetime | None = msgspec.field(name="lastUpdateTimestamp", default=None)


MAX_LISTED: Final = 3
"""How many entries that cannot be parsed are reported: the first ones show what is wrong."""

_reports_decoder: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_report_decoder: Final = msgspec.json.Decoder(_Report)
_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


def read_blacklist(text: str, now: datetime, keep_seconds: float) -> Blacklist:
    """Return the bad nodes, and what could not be parsed.

    Raises:
        BlacklistError: Nothing of it can be parsed.
    """
    if not text:
        return Blacklist()
    try:
        entries = decode_json(text, dict[str, msgspec.Raw])
    except TextError as error:
        raise BlacklistError(f"not a map of nodes to reports: {error}") from error
    last: dict[str, datetime] = {}
    unread: dict[str, str] = {}
    for node, entry in entries.items():
        reports, why = _read_reports(entry, now, keep_seconds)
        if why:
            unread[node] = why
        if reports or not why:
            last[node] = _last_of(reports)
    bad = [
        node
        for node, moment in last.items()
        if node and (now - moment).total_seconds() < keep_seconds
    ]
    newest = sorted(bad, key=lambda node: (last[node], node))[-MAX_NODES:]
    return Blacklist(nodes=tuple(sorted(newest)), unread=_list_unread(unread))


def _read_reports(
    entry: msgspec.Raw, now: datetime, ahead_seconds: float
) -> tuple[list[_Report], str]:
    """Return the reports of a node that count, and why the last of the others does not."""
    reports: list[_Report] = []
    why = ""
    try:
        for each in _reports_decoder.decode(entry):
            try:
                report = _report_decoder.decode(each)
            except msgspec.DecodeError as error:
                why = str(error)
                continue
            if _is_too_far_ahead(report, now, ahead_seconds):
                why = f"{report.last_update} is too far in the future"
            else:
                reports.append(report)
    except msgspec.DecodeError as error:
        why = str(error)
    return reports, why


def _is_too_far_ahead(report: _Report, now: datetime, ahead_seconds: float) -> bool:
    moment = _moment_of(report)
    return moment is not None and (moment - now).total_seconds() > ahead_seconds


def _list_unread(unread: Mapping[str, str]) -> str:
    lines = [f"{node}: {why}" for node, why in sorted(unread.items())[:MAX_LISTED]]
    if len(unread) > MAX_LISTED:
        lines.append(f"and {len(unread) - MAX_LISTED} more")
    return "; ".join(lines)


def _last_of(reports: Iterable[_Report]) -> datetime:
    moments = [moment for each in reports if (moment := _moment_of(each)) is not None]
    return max(moments, default=_ALWAYS)


def _moment_of(report: _Report) -> datetime | None:
    moment = report.last_update
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


def avoid_nodes(spec: Mapping[str, Any], nodes: tuple[str, ...]) -> dict[str, Any]:
    """Return a pod's spec, as JSON values, that avoids these nodes as well.

    Terms are alternatives, so each existing one gets the requirement. A term without requirements
    matches no node, as does a selector without terms: both are left unchanged.

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
