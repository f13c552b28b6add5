"""Notices of the engine become events on the objects they concern."""

from __future__ import annotations

import random
from typing import Any

from structlog.testing import capture_logs

from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.events import (
    FOLD_SECONDS,
    MAX_LINES,
    POLL_SECONDS,
    EventReporter,
    ObjectEvents,
)
from shared_api.client.event_recorder import EventRecorder
from shared_api.client.resource_types import ELASTIC_QUOTAS
from shared_api.objects.meta import Uid
from shared_api.testing.object_builders import elastic_quota_body
from tests.queue_scheduler.shell_kit import Json, SentEvents, ShellKit
from tests.stepped_host import exhaust


def recorded(kit: ShellKit, recorder: EventRecorder) -> list[Json]:
    """Send everything and return the events on the server."""
    for _ in range(5):
        exhaust(recorder.step)
        kit.send()
        kit.clock.advance(1.0)
    return kit.direct.list("events.events.k8s.io")


def new_recorder(kit: ShellKit) -> EventRecorder:
    return EventRecorder(
        kit.dispatcher,
        kit.clock,
        reporting_controller="koord-queue/test",
        reporting_instance=f"test-{random.Random(1).getrandbits(8)}",
    )


def test_an_event_is_recorded_on_its_object(kit: ShellKit) -> None:
    recorder = new_recorder(kit)
    events = ObjectEvents(recorder, kit.may_write)
    events.record("QueueUnit", "default/a", Uid("7"), "InvalidDemand", "no demand", warning=True)
    (event,) = recorded(kit, recorder)
    assert event["regarding"] == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "name": "a",
        "namespace": "default",
        "uid": "7",
    }
    assert (event["type"], event["reason"], event["note"]) == (
        "Warning",
        "InvalidDemand",
        "no demand",
    )


def test_a_follower_records_nothing(kit: ShellKit) -> None:
    recorder = new_recorder(kit)
    events = ObjectEvents(recorder, lambda: False)
    events.record("Queue", "koord-queue/q", Uid("7"), "UnknownPolicy", "what?", warning=True)
    assert recorded(kit, recorder) == []


def test_notices_are_passed_on_once(kit: ShellKit) -> None:
    sent = SentEvents()
    notices = EventReporter(kit.shared, sent, kit.may_write, kit.clock)
    kit.add_queue("odd", policy="Lottery")
    assert notices.step() == POLL_SECONDS
    notices.step()
    assert sent.reported == [("Queue", "koord-queue/odd", "UnknownPolicy")]
    assert sent.warnings == [True]
    assert "'Lottery' is unknown; Priority stays in force" in sent.notes[0]


def test_a_follower_keeps_its_notices_until_it_leads(kit: ShellKit) -> None:
    sent = SentEvents()
    notices = EventReporter(kit.shared, sent, kit.may_write, kit.clock)
    kit.leads = False
    kit.add_queue("odd", policy="Lottery")
    notices.step()
    assert sent.reported == []
    kit.leads = True
    notices.step()
    assert len(sent.reported) == 1


def notice_of(name: str, reason: str = "NoQueue", **more: Any) -> Notice:
    key, note = f"default/{name}", "queue mine does not exist"
    return Notice(kind="QueueUnit", key=key, uid=Uid(name), reason=reason, note=note, **more)


def test_a_notice_becomes_an_event_and_a_log_line(kit: ShellKit) -> None:
    sent = SentEvents()
    notices = EventReporter(kit.shared, sent, kit.may_write, kit.clock)
    with capture_logs() as logs:
        notices.report(notice_of("a"))
        notices.report(notice_of("b", warning=False))
        notices.step()
        notices.step()
    assert sent.reported == [("QueueUnit", f"default/{name}", "NoQueue") for name in ("a", "b")]
    assert sent.warnings == [True, False]
    assert logs == [
        {
            "event": "object needs attention",
            "log_level": level,
            "kind": "QueueUnit",
            "object": f"default/{name}",
            "reason": "NoQueue",
            "note": "queue mine does not exist",
        }
        for name, level in (("a", "warning"), ("b", "info"))
    ]


def test_of_thousands_the_log_has_some_and_their_count(kit: ShellKit) -> None:
    sent = SentEvents()
    notices = EventReporter(kit.shared, sent, kit.may_write, kit.clock)
    notices.step()
    with capture_logs() as logs:
        for second in range(30):
            for number in range(200):
                notices.report(notice_of(f"u{second}-{number}"))
            notices.step()
            kit.clock.advance(POLL_SECONDS)
        notices.report(notice_of("other", "NoQuota"))
        notices.step()
        assert len(logs) == MAX_LINES + 1, "another reason has its own lines"
        kit.clock.advance(FOLD_SECONDS)
        notices.step()
        notices.report(notice_of("later"))
        notices.step()
    assert len(sent.reported) == 30 * 200 + 2
    folded, later = logs[-2:]
    assert (folded["kind"], folded["reason"]) == ("QueueUnit", "NoQueue")
    assert folded["more"] == 30 * 200 - MAX_LINES
    assert later["object"] == "default/later"


def test_a_problem_of_a_quota_is_reported_on_that_quota(kit: ShellKit) -> None:
    sent = SentEvents()
    notices = EventReporter(kit.shared, sent, kit.may_write, kit.clock)
    for namespace in ("default", "other"):
        if namespace != "default":
            body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            kit.direct.create(body)
        kit.clock.advance(60.0)
        kit.direct.create(elastic_quota_body("twin", namespace=namespace, max={"cpu": 1}))
        quota = kit.client.get(ELASTIC_QUOTAS, namespace, "twin")
        kit.shared.apply(Engine.on_quota, quota)
    older = kit.client.get(ELASTIC_QUOTAS, "default", "twin")
    kit.shared.apply(Engine.on_quota, older)  # delivered again, last, as a resync does
    notices.step()
    assert [(kind, key) for kind, key, _ in sent.reported] == [
        ("ElasticQuota", "default/twin"),
        ("ElasticQuota", "other/twin"),
    ]
    assert "other/twin has its name, and does not count" in sent.notes[0]
    assert "the older default/twin counts" in sent.notes[1]
