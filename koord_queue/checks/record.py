"""Whether decisions are recorded, by the events of the scheduler's pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from koord_queue.checks.facts import Answer, Facts, Json, containers_of, part, text_of
from koord_queue.checks.findings import Finding, ok, unknown, warning
from shared_api.timestamps import read_time

STOPPED: Final = "RecordStopped"
RESUMED: Final = "RecordResumed"
PAGE: Final = "docs/record.md#when-recording-stops"
COMMAND: Final = "koord-queue-insight"

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def check_record(facts: Facts) -> Iterator[Finding]:
    """Yield whether recording has stopped; decisions go on without."""
    if facts.deployments.is_known and facts.deployments.items and not _is_wanted(facts):
        yield ok("record", "decisions are not recorded: insight.enabled is off")
        return
    for answer in (facts.events, facts.resumed):
        if not answer.is_known:
            yield unknown("record", f"events cannot be listed: {answer.why_unknown()}")
            return
    stopped = _newest(facts.events, STOPPED, facts.system_namespace)
    resumed = _newest(facts.resumed, RESUMED, facts.system_namespace)
    bad = [
        warning("record", f"{pod}: {text_of(event, 'note')}", PAGE)
        for pod, event in sorted(stopped.items())
        if _time_of(event) > _time_of(resumed.get(pod))
    ]
    yield from bad or [ok("record", "the last hour has no event of a record that stopped")]


def _is_wanted(facts: Facts) -> bool:
    return any(
        COMMAND in (part(container, "command") or ())
        for deployment in facts.deployments.items
        for container in containers_of(deployment)
    )


def _newest(events: Answer, reason: str, namespace: str) -> dict[str, Json]:
    """Return the newest event of a reason, by the name of the pod."""
    found: dict[str, Json] = {}
    for event in events.items:
        about = part(event, "regarding")
        is_own = text_of(event, "reportingController").startswith("koord-queue")
        if not is_own or text_of(event, "reason") != reason:
            continue
        if text_of(about, "namespace") == namespace:
            pod = text_of(about, "name")
            if _time_of(event) >= _time_of(found.get(pod)):
                found[pod] = event
    return found


def _time_of(event: Json) -> datetime:
    series = text_of(event, "series", "lastObservedTime")
    return read_time(series or text_of(event, "eventTime")) or _NEVER
