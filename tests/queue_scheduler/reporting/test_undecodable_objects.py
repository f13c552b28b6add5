"""Objects that cannot be decoded: their owner gets an event and a condition, once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from queue_scheduler.reporting import undecodable_objects
from queue_scheduler.reporting.undecodable_objects import UndecodableObjects, build_unreadable_patch
from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUE_UNITS, QUEUES
from shared_api.fake_api_server.faults import Match
from shared_api.objects.meta import Timestamp
from shared_api.testing.object_builders import elastic_quota_body, queue_body, queue_unit_body
from tests.object_states import condition_of
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, UNIT_STATUS, Json, SentEvents, ShellKit
from tests.stepped_host import exhaust

NOW = Timestamp("2026-11-01T10:00:00Z")
BROKEN_POD_SET = {
    "name": "main",
    "count": 1,
    "template": {"metadata": {"labels": {"a": 5}}, "spec": {}},
}
KINDS: dict[str, ResourceType[Any]] = {
    kind.kind: kind for kind in (QUEUES, QUEUE_UNITS, ELASTIC_QUOTAS)
}


class Office:
    """A kit, and the objects that its informers could not decode."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.events = SentEvents()
        self.unreadable: dict[str, dict[str, DecodeFailure]] = {kind: {} for kind in KINDS}
        self.step = self.restarted()

    def restarted(self) -> UndecodableObjects:
        """Return one that has reported nothing yet."""
        kit = self.kit
        self.reporter = UndecodableObjects(
            {kind: partial(self.unreadable.__getitem__, kind) for kind in KINDS},
            self.events,
            kit.dispatcher,
            kit.client.get_raw,
            kit.may_write,
            kit.clock,
            kit.work_queue(),
        )
        return self.reporter

    def list(self) -> None:
        """Do what the informers do with a list."""
        for name, kind in KINDS.items():
            self.unreadable[name].clear()
            for item in self.kit.client.list_page(kind).items:
                if isinstance(item, DecodeFailure):
                    self.unreadable[name][f"{item.namespace}/{item.name}"] = item
                    self.reporter.on_undecodable(name)(item)

    def work(self) -> None:
        """Report everything, and send it."""
        for _ in range(3):
            exhaust(self.reporter.step)
            self.kit.send()
            self.list()

    def create_broken(self, name: str = "broken") -> None:
        self.kit.direct.create(queue_unit_body(name, quota="team", podSet=[BROKEN_POD_SET]))
        self.list()


@pytest.fixture
def office(kit: ShellKit) -> Office:
    return Office(kit)


def test_a_unit_gets_an_event_and_a_condition(office: Office) -> None:
    office.create_broken()
    office.work()
    assert office.events.reported == [("QueueUnit", "default/broken", "Unreadable")]
    assert office.events.warnings == [True]
    assert "$.spec.podSet[0].template.metadata.labels[...]" in office.events.notes[0]
    found = condition_of(office.kit.unit("broken"), "QuotaReserved")
    assert (found["status"], found["reason"]) == ("False", "Unreadable")
    assert "Expected `str`" in found["message"]


def test_it_is_reported_and_written_once_and_a_restart_writes_nothing(office: Office) -> None:
    office.create_broken()
    office.work()
    assert office.kit.writes() == 1
    office.restarted()
    office.list()
    office.work()
    assert office.kit.writes() == 1
    assert len(office.events.reported) == 2  # folded into one series by the recorder


def test_an_object_that_breaks_again_is_reported_again(office: Office) -> None:
    office.create_broken()
    office.work()
    fixed = {"spec": {"podSet": [{**BROKEN_POD_SET, "template": {"spec": {}}}]}}
    for fix in (fixed, {"spec": {"podSet": [BROKEN_POD_SET]}}):
        exhaust(office.reporter.step)
        office.kit.direct.patch("queueunits", "broken", fix, namespace="default")
        office.list()
        office.work()
    assert len(office.events.reported) == 2


def test_another_error_is_reported_again(office: Office) -> None:
    office.create_broken()
    office.work()
    fix = {"spec": {"podSet": [{**BROKEN_POD_SET, "template": {"spec": {"overhead": 3}}}]}}
    office.kit.direct.patch("queueunits", "broken", fix, namespace="default")
    office.list()
    office.work()
    assert len(office.events.reported) == 2
    assert "overhead" in condition_of(office.kit.unit("broken"), "QuotaReserved")["message"]


def test_a_repaired_object_is_left_alone(office: Office) -> None:
    office.create_broken()
    office.unreadable["QueueUnit"].clear()
    exhaust(office.reporter.step)
    office.kit.send()
    assert (office.events.reported, office.kit.writes()) == ([], 0)


def test_a_deleted_object_is_forgotten(office: Office) -> None:
    office.create_broken()
    office.kit.direct.delete("queueunits", "broken", "default")
    exhaust(office.reporter.step)
    assert office.kit.writes() == 0
    assert office.reporter.step() is None


def test_a_queue_gets_a_condition_and_a_quota_an_event(kit: ShellKit) -> None:
    office = Office(kit)
    labels = {"koord-queue/x": "y"}
    body = queue_body("odd")
    kit.direct.create({**body, "metadata": {**body["metadata"], "labels": labels}})
    kit.direct.create(elastic_quota_body("odd", max={"cpu": ["1"]}))  # type: ignore[dict-item] # what people write
    office.list()
    office.unreadable["Queue"]["koord-queue/odd"] = DecodeFailure(
        QUEUE_NAMESPACE, "odd", error="it is odd"
    )
    office.reporter.on_undecodable("Queue")(office.unreadable["Queue"]["koord-queue/odd"])
    exhaust(office.reporter.step)
    kit.send()
    assert {reported[:2] for reported in office.events.reported} == {
        ("ElasticQuota", "default/odd"),
        ("Queue", "koord-queue/odd"),
    }
    ready = condition_of({"status": kit.queue_status("odd")}, "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "Unreadable",
        "it is odd",
    )


def test_a_follower_reports_nothing_and_a_leader_catches_up(office: Office) -> None:
    """The object arrived before any replica led: at the start of every program."""
    office.kit.leads = False
    office.create_broken()
    assert office.reporter.step() is None
    assert office.events.reported == []
    office.kit.leads = True
    office.work()
    assert len(office.events.reported) == 1
    assert office.kit.writes() == 1


@pytest.mark.parametrize(
    "match", [Match(verb="get", plural="queueunits"), UNIT_STATUS], ids=["read", "write"]
)
def test_a_failed_write_is_retried(office: Office, match: Match) -> None:
    office.kit.server.faults.fail(503, times=5, match=match)
    office.create_broken()
    for _ in range(8):
        exhaust(office.reporter.step)
        office.kit.send()
        office.kit.clock.advance(1.0)
    assert condition_of(office.kit.unit("broken"), "QuotaReserved")["reason"] == "Unreadable"


@pytest.mark.parametrize(
    "match", [Match(verb="get", plural="queueunits"), UNIT_STATUS], ids=["read", "write"]
)
def test_a_busy_server_is_asked_again_when_it_said(office: Office, match: Match) -> None:
    office.kit.server.faults.fail(429, match=match, retry_after_seconds=60)
    office.create_broken()
    exhaust(office.reporter.step)
    office.kit.send()
    assert office.reporter.step() == pytest.approx(60.0)


# --- only the patch ---------------------------------------------------------------------------


def found(**status: Any) -> Json:
    return {"metadata": {"resourceVersion": "9"}, "status": status}


def test_other_conditions_stay_and_the_write_is_guarded() -> None:
    other = {"type": "Other", "status": "True"}
    old = {"type": "QuotaReserved", "status": "False", "lastTransitionTime": "earlier"}
    body = build_unreadable_patch(found(conditions=[old, other]), "QuotaReserved", "why", NOW)
    assert body is not None
    assert body["metadata"] == {"resourceVersion": "9"}
    first, second = body["status"]["conditions"]
    assert first == other
    assert (second["reason"], second["lastTransitionTime"]) == ("Unreadable", "earlier")


def test_the_time_moves_when_the_status_flips() -> None:
    old = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "earlier"}
    body = build_unreadable_patch(found(conditions=[old]), "QuotaReserved", "why", NOW)
    assert body is not None
    assert body["status"]["conditions"][0]["lastTransitionTime"] == NOW


@pytest.mark.parametrize("phase", ["Dequeued", "Running", "Succeed"])
def test_a_unit_that_is_not_waiting_keeps_its_condition(phase: str) -> None:
    assert build_unreadable_patch(found(phase=phase), "QuotaReserved", "why", NOW) is None


@pytest.mark.parametrize("phase", ["", "Enqueued", "TimeoutBackoff"])
def test_a_waiting_unit_gets_a_condition(phase: str) -> None:
    assert build_unreadable_patch(found(phase=phase), "QuotaReserved", "why", NOW) is not None


def test_an_object_whose_report_raises_is_reported_later(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_once(monkeypatch, undecodable_objects, "build_unreadable_patch")
    office.create_broken()
    assert office.reporter.step() == 0.0
    office.kit.clock.advance(1.0)
    exhaust(office.reporter.step)
    office.kit.send()
    assert office.kit.reason("broken") == "Unreadable"
