"""The newest warning of other clients about a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from queue_controllers.watches.event_lookup import (
    MAX_WHY_CHARS,
    NOT_TO_BE_READ,
    EventReader,
    JobEvent,
)
from shared_api.client.errors import ApiFailure, ConnectionLost, Forbidden
from shared_api.client.flow_control import Lane
from shared_api.client.resource_client import Page, ResourceType
from shared_api.objects.meta import ObjectMeta, Uid

JOB = ObjectMeta(name="main", namespace="team", uid=Uid("uid-1"))
TEN = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)


def event(message: str, at: str = "10:00:05", **changes: Any) -> JobEvent:
    body = {
        "metadata": {"name": message, "creationTimestamp": "2026-11-01T09:00:00Z"},
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": f"2026-11-01T{at}Z",
        **changes,
    }
    return msgspec.convert(body, JobEvent)


class Events:
    """A server that answers with these events, or fails."""

    def __init__(self, *events: JobEvent, failure: ApiFailure | None = None) -> None:
        self._events, self._failure = events, failure
        self.asked: list[tuple[str, str, int, Lane]] = []

    def list_page(
        self,
        resource_type: ResourceType[JobEvent],
        *,
        namespace: str = "",
        field_selector: str = "",
        limit: int = 0,
        lane: Lane = Lane.NORMAL,
    ) -> Page[JobEvent]:
        assert resource_type.group == ""
        self.asked.append((namespace, field_selector, limit, lane))
        if self._failure is not None:
            raise self._failure
        return Page(items=self._events, resource_version="1", continue_token="")


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param((), "", id="none"),
        pytest.param(
            (event("b", "10:00:09"), event("a")), "FailedCreate: b", id="the newest, not the last"
        ),
        pytest.param(
            (
                event("first", "10:00:09"),
                event("a", series={"lastObservedTime": "2026-11-01T10:00:30.000000Z"}),
            ),
            "FailedCreate: a",
            id="by when a series was last seen",
        ),
        pytest.param((event("a", "09:58:59"),), "", id="of an earlier run"),
        pytest.param((event("a", "09:59:30"),), "FailedCreate: a", id="by a clock that is behind"),
        pytest.param(
            (event("a", reportingComponent="koord-queue/koord-queue-controllers"),), "", id="ours"
        ),
        pytest.param((event("a\n b"),), "FailedCreate: a b", id="in one line"),
    ],
)
def test_the_message(events: tuple[JobEvent, ...], want: str) -> None:
    assert EventReader(Events(*events))(JOB, TEN) == want


def test_a_long_one_is_cut() -> None:
    assert len(EventReader(Events(event("x" * 1000)))(JOB, None)) == MAX_WHY_CHARS


def test_it_is_one_small_request_of_low_priority() -> None:
    events = Events()
    EventReader(events)(JOB, TEN)
    assert events.asked == [("team", "involvedObject.uid=uid-1,type=Warning", 100, Lane.LOW)]


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        pytest.param(Forbidden(403, "Forbidden", "no"), NOT_TO_BE_READ, id="forbidden"),
        pytest.param(ConnectionLost("no", sent=True), "", id="no answer"),
    ],
)
def test_a_failed_lookup_is_no_error(failure: ApiFailure, want: str) -> None:
    assert EventReader(Events(failure=failure))(JOB, TEN) == want


# --- children -----------------------------------------------------------------------------------


class EventsOf(Events):
    """A server that answers by the involved object."""

    def __init__(self, **events: JobEvent) -> None:
        super().__init__()
        self._of = events

    def list_page(self, *args: Any, field_selector: str = "", **more: Any) -> Page[JobEvent]:
        super().list_page(*args, field_selector=field_selector, **more)
        uid = field_selector.removeprefix("involvedObject.uid=").removesuffix(",type=Warning")
        found = self._of.get(uid)
        items = () if found is None else (found,)
        return Page(items=items, resource_version="1", continue_token="")


def child(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="team", uid=Uid(name))


FAMILY: dict[str, list[tuple[str, ObjectMeta]]] = {
    "uid-1": [("JobSet", child("set"))],
    "set": [("Job", child(f"job{n}")) for n in range(9)],
}


@pytest.mark.parametrize(
    ("events", "want", "asked"),
    [
        pytest.param({"uid-1": event("own")}, "FailedCreate: own", 1, id="its own comes first"),
        pytest.param({"set": event("of it")}, "JobSet set: FailedCreate: of it", 2, id="a child's"),
        pytest.param({"job1": event("deep")}, "Job job1: FailedCreate: deep", 4, id="of its child"),
        pytest.param({"job7": event("far")}, "", 4, id="no more than a few are asked"),
    ],
)
def test_events_of_children(events: dict[str, JobEvent], want: str, asked: int) -> None:
    client = EventsOf(**events)
    assert EventReader(client, lambda job: FAMILY.get(job.uid, []))(JOB, None) == want
    assert len(client.asked) == asked
