"""Queue.status: at most once a second, only on change, and not after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from queue_scheduler.engine.engine import Engine
from queue_scheduler.queue_objects import queue_status
from queue_scheduler.queue_objects.queue_status import (
    MAX_ITEMS,
    QueueFigures,
    QueueStatuses,
    build_status_patch,
    is_shown,
    read_figures,
)
from queue_scheduler.queue_objects.status_writer import (
    MIN_INTERVAL_SECONDS,
    OBJECTS_PER_STEP,
    RETRY_BACKOFF,
    StatusWriter,
)
from queue_scheduler.queueing.queue_options import STATUS_INTERVAL_SECONDS as INTERVAL_SECONDS
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUES
from shared_api.client.writes import Dropped, Written
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue import FairShare, Queue, QueueStatus
from shared_api.testing.object_builders import queue, to_struct
from shared_api.well_known_labels import BACKFILL, MAX_DEPTH, STOP_POLICY
from tests.object_states import condition_of
from tests.properties.engine_kit import build_check
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.scheduler_world import running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, QUEUE_STATUS, HeldWrites, ShellKit

NOW = Timestamp("2026-11-01T10:00:00Z")


class Writer:
    """A kit with its writer; the queue's own watch is `learn_queue`."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.status = self.restarted()

    def restarted(self) -> StatusWriter[Queue, QueueFigures]:
        """Return a writer without knowledge of earlier writes."""
        kit = self.kit
        self.status = StatusWriter(
            QueueStatuses(), kit.shared, kit.dispatcher, self, kit.may_write, kit.clock
        )
        return self.status

    def is_readable(self, key: str) -> bool:
        return self.kit.is_readable(key)

    def note_written(self, written: Queue) -> None:
        self.kit.note_written(written)
        self.kit.shared.apply(Engine.on_queue, written)

    def pass_time(self, seconds: float) -> None:
        until = self.kit.clock.monotonic() + seconds
        while self.kit.clock.monotonic() < until:
            self.status.step()
            self.kit.send()
            self.kit.clock.advance(0.1)

    def pretend(self, body: dict[str, Any]) -> None:
        """Change the queue's status as another writer would, and report it to the engine."""
        self.kit.direct.patch(
            "queues", "team", body, namespace=QUEUE_NAMESPACE, subresource="status"
        )
        self.kit.learn_queue("team")

    def writes(self) -> int:
        return self.kit.writes("queues")


@pytest.fixture
def writer(kit: ShellKit) -> Writer:
    writer = Writer(kit)
    writer.pass_time(INTERVAL_SECONDS + 1.0)  # the first status of the empty queue
    kit.server.journal.clear()
    return writer


def test_an_unreadable_queue_is_left_alone(writer: Writer) -> None:
    writer.pass_time(2.0)
    before = writer.writes()
    writer.kit.unreadable.add(f"{QUEUE_NAMESPACE}/team")
    writer.kit.add_unit("a")
    writer.pass_time(60.0)
    assert writer.writes() == before
    writer.kit.unreadable.clear()
    writer.pass_time(2.0)
    assert writer.kit.queue_status("team")["pending"] == 1


def test_counts_positions_and_condition(writer: Writer) -> None:
    kit = writer.kit
    for name, priority in (("run", 9), ("low", 1), ("high", 5)):
        kit.add_unit(name, cpu=4, priority=priority)
    kit.dequeue()
    writer.pass_time(2.0)
    status = kit.queue_status("team")
    assert (status["pending"], status["admitted"]) == (2, 1)
    assert status["queueItemDetails"]["active"] == [
        {"name": "high", "namespace": "default", "priority": 5, "position": 1},
        {"name": "low", "namespace": "default", "priority": 1, "position": 2},
    ]
    thing = {"status": status}
    assert condition_of(thing, "Ready")["status"] == "True"


def test_a_constantly_changing_queue_is_written_every_few_seconds(writer: Writer) -> None:
    for number in range(110):
        writer.kit.add_unit(f"u{number}")
        writer.pass_time(0.1)
    assert writer.writes() == 3
    writer.pass_time(INTERVAL_SECONDS)
    assert writer.kit.queue_status("team")["pending"] == 110
    assert writer.writes() == 4


def test_the_first_change_after_a_quiet_time_is_written_at_once(writer: Writer) -> None:
    writer.kit.add_unit("a", cpu=9)
    writer.pass_time(MIN_INTERVAL_SECONDS)
    assert writer.kit.queue_status("team")["pending"] == 1


def test_without_changes_nothing_is_written(writer: Writer) -> None:
    writer.kit.add_unit("a", cpu=9)
    writer.pass_time(2.0)
    assert writer.writes() == 1
    writer.pass_time(60.0)
    assert writer.writes() == 1


def test_a_restart_writes_nothing(writer: Writer) -> None:
    writer.kit.add_unit("a", cpu=9)
    writer.pass_time(2.0)
    writer.restarted()
    writer.pass_time(10.0)
    assert writer.writes() == 1


def test_the_last_valid_policy_survives_a_restart() -> None:
    with running_world() as world:
        world.start()
        world.add_quota(cpu=1)
        world.settle(2.0)
        for policy in ("Block", "Lottery"):
            patch = {"spec": {"queuePolicy": policy}}
            world.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
            world.settle(INTERVAL_SECONDS + 1.0)
        for _ in range(2):
            world.start(settle_seconds=INTERVAL_SECONDS + 1.0)
            assert world.queue()["status"]["policyInForce"] == "Block"
            ready = condition_of(world.queue(), "Ready")
            assert ready["message"] == "policy 'Lottery' is unknown; Block stays in force"


def test_a_follower_writes_nothing(writer: Writer) -> None:
    writer.kit.leads = False
    writer.kit.add_unit("a")
    writer.pass_time(5.0)
    assert writer.writes() == 0


def test_a_conflict_is_retried_with_the_fresh_queue(writer: Writer) -> None:
    kit = writer.kit
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    kit.direct.patch("queues", "team", changed, namespace=QUEUE_NAMESPACE)
    kit.add_unit("a")
    writer.pass_time(1.5)
    assert kit.queue_status("team")["pending"] == 0
    kit.learn_queue("team")
    writer.pass_time(2.0)
    assert kit.queue_status("team")["pending"] == 1


def test_a_lost_write_is_repeated(writer: Writer) -> None:
    writer.kit.server.faults.fail(503, times=5, match=QUEUE_STATUS)
    writer.kit.add_unit("a")
    writer.pass_time(6.0)
    assert writer.kit.queue_status("team")["pending"] == 1


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(None, id="cleared"),
        pytest.param({"pending": 77}, id="overwritten"),
        pytest.param({"conditions": []}, id="condition removed"),
    ],
)
def test_a_status_changed_by_another_writer_is_restored(writer: Writer, theirs: Any) -> None:
    kit = writer.kit
    kit.add_unit("a")
    writer.pass_time(INTERVAL_SECONDS + 1.0)
    writer.pretend({"status": theirs})
    writer.pass_time(MIN_INTERVAL_SECONDS)
    status = kit.queue_status("team")
    assert (status["pending"], len(status["queueItemDetails"]["active"])) == (1, 1)
    assert condition_of({"status": status}, "Ready")["status"] == "True"


def test_constant_changes_are_corrected_at_the_usual_rate(writer: Writer) -> None:
    kit = writer.kit
    kit.add_unit("a")
    writer.pass_time(INTERVAL_SECONDS + 1.0)
    before = writer.writes()
    for _ in range(100):
        writer.pretend({"status": None})
        writer.pass_time(0.2)
    assert writer.writes() - before <= 20 / INTERVAL_SECONDS + 1


def test_a_status_that_the_server_does_not_keep_is_written_once(kit: ShellKit) -> None:
    writes = HeldWrites()
    status = StatusWriter(QueueStatuses(), kit.shared, writes, kit, kit.may_write, kit.clock)
    status.step()
    # An older CRD drops fields it does not know.
    kept = kit.client.get(QUEUES, QUEUE_NAMESPACE, "team")
    writes.settle(Written(kept))
    kit.shared.apply(Engine.on_queue, kept)
    for _ in range(10):
        kit.clock.advance(INTERVAL_SECONDS + 1.0)
        status.step()
    assert len(writes.writes) == 1


def test_a_refused_write_is_retried_less_and_less_and_logged_once(writer: Writer) -> None:
    kit = writer.kit
    kit.server.faults.fail(403, times=10_000, match=QUEUE_STATUS)
    kit.add_unit("a")
    with capture_logs() as logs:
        writer.pass_time(600.0)
    assert 10 <= writer.writes() <= 20
    assert [(log["event"], log["name"]) for log in logs] == [("status is not written", "team")]
    kit.server.faults.clear()
    writer.pass_time(RETRY_BACKOFF.cap_seconds + 1.0)
    assert kit.queue_status("team")["pending"] == 1
    kit.add_unit("b")
    kit.server.faults.fail(403, times=1, match=QUEUE_STATUS)
    writer.pass_time(INTERVAL_SECONDS + 3.0)
    assert kit.queue_status("team")["pending"] == 2


def test_counts_that_change_while_a_write_is_pending_are_written_after_it(kit: ShellKit) -> None:
    writes = HeldWrites()
    status = StatusWriter(QueueStatuses(), kit.shared, writes, kit, kit.may_write, kit.clock)
    status.step()
    kit.clock.advance(INTERVAL_SECONDS + 1.0)
    status.step()
    assert len(writes.writes) == 1  # it is in flight
    kit.add_unit("a")
    status.step()
    assert [write.body["status"]["pending"] for write in writes.writes] == [0, 1]
    # The older write is superseded, which is no failure of the newer one.
    writes.settle(Dropped("superseded"))
    kit.clock.advance(INTERVAL_SECONDS + 1.0)
    status.step()
    assert len(writes.writes) == 2


def test_many_queues_are_looked_at_some_at_a_time_and_all_within_a_second(kit: ShellKit) -> None:
    names = {f"q-{number:03}" for number in range(2 * OBJECTS_PER_STEP)}  # and "team"
    for name in sorted(names):
        kit.shared.apply(Engine.on_queue, queue(name))
    writes = HeldWrites()
    status = StatusWriter(QueueStatuses(), kit.shared, writes, kit, kit.may_write, kit.clock)
    pauses = [status.step()]
    assert len(writes.writes) == OBJECTS_PER_STEP
    pauses += [status.step(), status.step()]
    assert {write.name for write in writes.writes} == {*names, "team"}
    assert len(writes.writes) == len(names) + 1
    assert sum(pauses) == pytest.approx(MIN_INTERVAL_SECONDS)


def test_a_change_during_a_round_is_seen_in_the_next(writer: Writer) -> None:
    kit = writer.kit
    team = kit.direct.get("queues", "team", QUEUE_NAMESPACE)
    for number in range(OBJECTS_PER_STEP):
        name = f"x-{number:03}"
        meta = {"name": name, "namespace": QUEUE_NAMESPACE}
        kit.direct.create({**team, "metadata": meta, "status": {}})
        kit.learn_queue(name)
    writer.pass_time(2 * INTERVAL_SECONDS)  # all are shown as they are
    kit.learn_queue("team")  # a round begins
    writer.status.step()
    kit.add_unit("a")  # "team" was looked at already
    writer.status.step()
    writer.pass_time(INTERVAL_SECONDS + 1.0)
    assert kit.queue_status("team")["pending"] == 1


def test_a_deleted_queue_is_forgotten(writer: Writer) -> None:
    writer.kit.add_unit("a")
    writer.kit.direct.delete("queues", "team", QUEUE_NAMESPACE)
    writer.pass_time(1.0)
    writer.kit.shared.apply(Engine.on_queue_gone, "team")
    writer.kit.server.journal.clear()
    writer.pass_time(5.0)
    assert writer.writes() == 0


@pytest.mark.parametrize(
    ("annotations", "want_writes"),
    [
        pytest.param({"koord-queue/queue-items-refresh-interval": "20s"}, 1, id="rarer"),
        pytest.param({"koord-queue/queue-items-refresh-interval": "1ms"}, 6, id="never more often"),
        pytest.param({"koord-queue/queue-items-refresh-interval": "soon"}, 2, id="nonsense"),
    ],
)
def test_the_interval_of_the_annotation(
    writer: Writer, annotations: dict[str, str], want_writes: int
) -> None:
    patch = {"metadata": {"annotations": annotations}}
    writer.kit.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    writer.kit.learn_queue("team")
    writer.pass_time(10.0)
    writer.kit.server.journal.clear()
    for number in range(60):
        writer.kit.add_unit(f"u{number}")
        writer.pass_time(0.1)
    assert abs(writer.writes() - want_writes) <= 1


def test_items_are_hidden_where_the_queue_says_so(writer: Writer) -> None:
    patch = {"metadata": {"annotations": {"koord-queue/disable-show-queue-items": ""}}}
    writer.kit.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    writer.kit.learn_queue("team")
    writer.kit.add_unit("a")
    writer.pass_time(2.0)
    status = writer.kit.queue_status("team")
    assert (status["pending"], status["queueItemDetails"]["active"]) == (1, [])


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"policy": "Lottery"}, "UnknownPolicy", id="unknown policy"),
        pytest.param({"policy": "Intelligent"}, "Ready", id="Intelligent"),
        pytest.param({"admissionChecks": [{"name": "prov"}]}, "Ready", id="checks"),
        pytest.param({"metadata": {STOP_POLICY: "Hold"}}, "Stopped", id="stopped"),
        pytest.param({"metadata": {STOP_POLICY: "HoldAndDrain"}}, "Stopped", id="drained"),
        pytest.param({"metadata": {STOP_POLICY: "hold"}}, "UnreadableAnnotation", id="misspelled"),
        pytest.param({"metadata": {MAX_DEPTH: "x"}}, "UnreadableAnnotation", id="not a number"),
        pytest.param({"fairShare": {"halfLife": "0s"}}, "UnreadableFairShare", id="fair share"),
        pytest.param({}, "Ready", id="ready"),
    ],
)
def test_the_condition_says_what_keeps_the_queue_from_working(
    kit: ShellKit, spec: dict[str, Any], want: str
) -> None:
    written = {"koord-queue/available-quota": "*", **spec.pop("metadata", {})}
    kit.add_queue("other", metadata={"annotations": written}, **spec)
    figures = kit.shared.ask(read_figures, "other", max_items=MAX_ITEMS)
    assert figures is not None
    assert (figures.reason, figures.ready) == (want, want == "Ready")


@pytest.mark.parametrize(
    ("shown", "want"),
    [
        pytest.param(None, {"halfLife": "1h", "resourceWeights": {"cpu": 1}}, id="new"),
        pytest.param(
            FairShare(priority="First", resource_weights={"gpu": 1}),
            {"halfLife": "1h", "priority": None, "resourceWeights": {"cpu": 1, "gpu": None}},
            id="what is left out of a merge patch would stay",
        ),
        pytest.param(FairShare(half_life="1h", resource_weights={"cpu": 1}), "", id="shown"),
    ],
)
def test_the_fair_share_in_force_is_written(
    kit: ShellKit, shown: FairShare | None, want: object
) -> None:
    stated = {"halfLife": "1h", "resourceWeights": {"cpu": 1}}
    takes = {"annotations": {"koord-queue/available-quota": "*"}}
    kit.add_queue("other", policy="Fair", fairShare=stated, metadata=takes)
    figures = kit.shared.ask(read_figures, "other", max_items=MAX_ITEMS)
    assert figures is not None
    assert "a restart of the scheduler forgets" in figures.message
    queue = Queue(status=QueueStatus(fair_share_in_force=shown))
    patch = build_status_patch(queue, figures, NOW)
    assert patch["status"].get("fairShareInForce", "") == want


@pytest.mark.parametrize(
    ("served", "active", "want", "reported"),
    [
        pytest.param(None, "", "Ready", "in order", id="not checked yet"),
        pytest.param(False, "", "AdmissionChecksNotServed", "CRD of kueue.x-k8s.io", id="no CRD"),
        pytest.param(True, "", "AdmissionCheckMissing", "do not exist: prov", id="missing"),
        pytest.param(True, "True", "Ready", "in order", id="active"),
        pytest.param(
            True, "False", "AdmissionCheckInactive", "prov (no controller)", id="inactive"
        ),
    ],
)
def test_the_condition_reports_checks_that_are_missing_or_inactive(
    kit: ShellKit, *, served: bool | None, active: str, want: str, reported: str
) -> None:
    takes = {"annotations": {"koord-queue/available-quota": "team"}}
    kit.add_queue("team-b", metadata=takes, admissionChecks=[{"name": "prov"}])
    kit.add_quota("team-c", 1)
    if served is not None:
        kit.engine.on_admission_checks_served(are_served=served)
    if active:
        kit.engine.on_admission_check(build_check("prov", active, "no controller"))
    figures = kit.shared.ask(read_figures, "team-b", max_items=MAX_ITEMS)
    assert figures is not None
    assert (figures.reason, figures.ready) == (want, want != "AdmissionCheckInactive")
    assert reported in figures.message
    alone = kit.shared.ask(read_figures, "team-c", max_items=MAX_ITEMS)
    assert alone is not None
    assert alone.reason == "Ready", "it lists no check"


@pytest.mark.parametrize(("policy", "want"), [("Intelligent", True), ("Block", False)])
def test_a_policy_that_does_not_backfill_says_so(kit: ShellKit, policy: str, *, want: bool) -> None:
    asks = {"annotations": {BACKFILL: "true", "koord-queue/available-quota": "*"}}
    kit.add_queue("other", policy=policy, metadata=asks)
    figures = kit.shared.ask(read_figures, "other", max_items=MAX_ITEMS)
    assert figures is not None
    assert figures.ready
    assert figures.message.endswith("does not backfill") == want


def test_a_queue_that_admits_nothing_says_why_and_when_that_is_over(writer: Writer) -> None:
    kit = writer.kit
    quota = kit.client.get(ELASTIC_QUOTAS, "default", "team")
    kit.shared.apply(Engine.on_quota_gone, quota)
    writer.pass_time(INTERVAL_SECONDS + 1.0)
    ready = condition_of({"status": kit.queue_status("team")}, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoQuota")
    assert ready["message"].startswith("quota team does not exist")
    kit.shared.apply(Engine.on_quota, quota)
    writer.pass_time(INTERVAL_SECONDS + 1.0)
    ready = condition_of({"status": kit.queue_status("team")}, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Ready")


def test_a_reason_that_holds_all_units_precedes_one_that_holds_some(kit: ShellKit) -> None:
    kit.add_queue("nobodys", policy="Lottery", admissionChecks=[{"name": "prov"}])
    figures = kit.shared.ask(read_figures, "nobodys", max_items=MAX_ITEMS)
    assert figures is not None
    assert figures.reason == "NoQuota"


def test_the_list_ends_at_a_hundred(kit: ShellKit) -> None:
    for number in range(MAX_ITEMS + 5):
        kit.add_unit(f"u{number:03}")
    figures = kit.shared.ask(read_figures, "team", max_items=MAX_ITEMS)
    assert figures is not None
    assert (figures.pending, len(figures.items)) == (MAX_ITEMS + 5, MAX_ITEMS)


def test_a_written_status_is_recognized(kit: ShellKit) -> None:
    kit.add_unit("a")
    figures = kit.shared.ask(read_figures, "team", max_items=MAX_ITEMS)
    assert figures is not None
    before = queue("team", metadata={"resourceVersion": "5"})
    assert not is_shown(before, figures)
    patch = build_status_patch(before, figures, NOW)
    assert patch["metadata"] == {"resourceVersion": "5"}
    shown = {"metadata": {"name": "team"}, "status": patch["status"]}
    assert is_shown(to_struct(Queue, shown), figures)


def test_an_unknown_queue_has_no_counts(kit: ShellKit) -> None:
    assert kit.shared.ask(read_figures, "nobody", max_items=1) is None


def test_queues_are_not_read_again_while_nothing_changes(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    ask = writer.kit.shared.ask

    def note(question: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(question)
        return ask(question, *args, **kwargs)

    monkeypatch.setattr(writer.kit.shared, "ask", note)
    writer.pass_time(INTERVAL_SECONDS)
    assert asked == []
    writer.kit.add_unit("a")
    writer.pass_time(INTERVAL_SECONDS)
    assert asked
    assert writer.kit.queue_status("team")["pending"] == 1


def test_a_queue_whose_status_raises_delays_no_other(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.add_queue("other")
    writer = Writer(kit)
    raise_once(monkeypatch, queue_status, "build_status_patch")
    writer.status.step()
    kit.send()
    shown = [name for name in ("team", "other") if kit.queue_status(name)]
    assert len(shown) == 1
    writer.pass_time(3.0)
    assert all(kit.queue_status(name) for name in ("team", "other"))
