"""The events of a unit, its job and its pods: the newest, and no more than can be read."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from queue_insight.page.unit_events import EVENT_PODS, EVENTS_PAGE, MAX_EVENTS, read_events
from queue_insight.page.unit_objects import KnownPod
from shared_api.client.errors import status_error
from shared_api.client.transport import Request
from shared_api.objects.meta import Uid
from tests.queue_insight.page.visitor_kit import JOB, PlayedApi, unit

EVENTS = "/api/v1/namespaces/default/events"


def event(number: int, **more: Any) -> dict[str, Any]:
    time = f"2026-01-01T10:{number // 60 % 60:02}:{number % 60:02}Z"
    about = {"kind": "Pod", "name": "a"}
    return {"lastTimestamp": time, "reason": f"r{number}", "involvedObject": about} | more


def by_selector(answers: dict[str, list[dict[str, Any]]]) -> PlayedApi:
    def answer(request: Request) -> dict[str, Any]:
        return {"items": answers.get(dict(request.query)["fieldSelector"], [])}

    return PlayedApi({EVENTS: answer})


def test_events_of_all_its_objects_are_in_order() -> None:
    api = by_selector(
        {
            "involvedObject.uid=unit-uid": [event(1), event(4)],
            "involvedObject.uid=job-uid": [event(3)],
            "involvedObject.kind=Pod,involvedObject.name=a": [event(2, type="Warning", count=5)],
        }
    )
    got = read_events(api.client(), unit(JOB, "a"))
    assert [each.reason for each in got.events] == ["r4", "r3", "r2", "r1"]
    warned = got.events[2]
    assert (warned.type, warned.count, warned.about) == ("Warning", 5, "Pod/a")
    assert (got.more, got.pods_left_out, got.problem) == (False, 0, "")
    assert {dict(each.query)["limit"] for each in api.asked} == {str(EVENTS_PAGE)}


def test_of_ten_thousand_events_the_newest_are_shown() -> None:
    api = PlayedApi(
        {
            EVENTS: {
                "items": [event(n, message="m" * 9000) for n in range(EVENTS_PAGE)],
                "metadata": {"continue": "c"},
            }
        }
    )
    got = read_events(api.client(), unit(JOB))
    assert (len(got.events), got.more) == (MAX_EVENTS, True)
    assert got.events[0].reason == f"r{EVENTS_PAGE - 1}"
    assert len(got.events[0].message) < 1100


def test_pods_without_a_node_come_first() -> None:
    pods = tuple(KnownPod(name=f"p{n}", node="" if n > 7 else "n1") for n in range(10))
    api = by_selector({})
    got = read_events(api.client(), unit(None)._replace(pods=pods))
    asked = [dict(each.query)["fieldSelector"] for each in api.asked]
    names = [each.rpartition("=")[2] for each in asked[1:]]
    assert names == ["p8", "p9", "p0", "p1", "p2", "p3", "p4", "p5"]
    assert (got.pods_left_out, len(names)) == (2, EVENT_PODS)


def test_no_field_of_a_unit_makes_another_selector() -> None:
    api = by_selector({})
    job = replace(JOB, uid=Uid("x,involvedObject.kind=Secret"))
    odd = (KnownPod(name="a,involvedObject.namespace=b", node=""),)
    read_events(api.client(), unit(job)._replace(pods=odd))
    asked = [dict(each.query)["fieldSelector"] for each in api.asked]
    assert asked == ["involvedObject.uid=unit-uid"]


def test_a_refusal_is_said_once() -> None:
    api = PlayedApi({EVENTS: status_error(403, "", "events is forbidden")})
    got = read_events(api.client(), unit(JOB, "a", "b"))
    assert (got.events, len(api.asked)) == ([], 1)
    assert got.problem.endswith("events is forbidden")


def test_events_of_the_newer_form_have_their_time_elsewhere() -> None:
    series = {"count": 7, "lastObservedTime": "2026-01-01T12:00:00Z"}
    newer: list[dict[str, Any]] = [
        {"eventTime": "2026-01-01T11:00:00.000001Z", "reason": "once"},
        {"eventTime": "2026-01-01T11:00:00.000001Z", "reason": "often", "series": series},
        {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"}, "reason": "old"},
        {"reason": "none"},
    ]
    got = read_events(by_selector({"involvedObject.uid=unit-uid": newer}).client(), unit(None))
    assert [(each.reason, each.count) for each in got.events] == [
        ("often", 7),
        ("once", 1),
        ("old", 1),
        ("none", 1),
    ]
