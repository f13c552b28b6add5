"""A record that has stopped is told by the events of the scheduler's pod."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.facts import Answer
from tests.koord_queue.checks.healthy import Json, ago, deployment, finding_texts, listed

PROGRAM = {"command": ["koord-queue-insight"], "args": []}
OFF = "ok: decisions are not recorded: insight.enabled is off"
FINE = "ok: the last hour has no event of a record that stopped"


def with_insight() -> Json:
    found = deployment("scheduler")
    found["spec"]["template"]["spec"]["containers"].append(PROGRAM)
    return found


def event(reason: str, at: str, pod: str = "a", **more: Any) -> Json:
    about = {"kind": "Pod", "namespace": more.pop("namespace", "koord-queue"), "name": pod}
    by = more.pop("by", "koord-queue/scheduler")
    said = {"reason": reason, "note": "no room", "eventTime": at, "regarding": about}
    return said | {"reportingController": by} | more


STOPPED = event("RecordStopped", ago(minutes=5))
AGAIN = event("RecordStopped", ago(minutes=50), series={"lastObservedTime": ago(minutes=1)})
RESUMED = event("RecordResumed", ago(minutes=3))


@pytest.mark.parametrize(
    ("stopped", "resumed", "want"),
    [
        pytest.param([], [], FINE, id="nothing"),
        pytest.param([STOPPED], [], "warning: a: no room", id="it has stopped"),
        pytest.param([STOPPED], [RESUMED], FINE, id="it goes on"),
        pytest.param([STOPPED, AGAIN], [RESUMED], "warning: a: no room", id="stopped again"),
        pytest.param(
            [STOPPED],
            [event("RecordResumed", ago(minutes=1), "b")],
            "warning: a: no room",
            id="the record of another pod goes on",
        ),
        pytest.param(
            [event("RecordStopped", ago(minutes=1), by="other")], [], FINE, id="of another program"
        ),
        pytest.param(
            [event("RecordStopped", ago(minutes=1), namespace="team-a")],
            [],
            FINE,
            id="of another namespace",
        ),
    ],
)
def test_a_record_that_has_stopped_is_told(
    stopped: list[Json], resumed: list[Json], want: str
) -> None:
    facts = {"deployments": listed(with_insight()), "events": listed(*stopped)}
    assert finding_texts("record", **facts, resumed=listed(*resumed)) == [want]


def test_without_the_insight_program_there_is_no_record() -> None:
    assert finding_texts("record", events=listed(STOPPED)) == [OFF]


def test_where_no_program_can_be_seen_events_tell() -> None:
    refused = Answer(right="list deployments")
    assert finding_texts("record", deployments=refused, events=listed(STOPPED)) == [
        "warning: a: no room"
    ]


@pytest.mark.parametrize("fact", ["events", "resumed"])
def test_events_that_may_not_be_listed_are_unknown(fact: str) -> None:
    facts = {fact: Answer(right="list events")}
    want = ["unknown: events cannot be listed: you may not list events"]
    assert finding_texts("record", deployments=listed(with_insight()), **facts) == want
