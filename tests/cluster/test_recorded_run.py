"""A run on a real API server, recorded: played again, it decides the same in the same order."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError

import pytest

from queue_insight.insight_program.recording import FILE
from queue_insight.record.checkpoint import thaw
from queue_insight.record.decision_log import DecisionLog, LogEntry
from queue_insight.record.record_file import read_store
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.decision import Dequeue, Preempt, Victim, WriteFailure
from shared_api.resource_list import format_amounts
from tests.cluster.api_audit import SCHEDULER_AGENT, Request
from tests.cluster.observer import PATHS, Observer, version_of
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import (
    MERGE,
    OWN_TIMES_SECONDS,
    QUOTA_LABEL,
    UNITS,
    QueueWorld,
    debug,
)
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of, is_true
from tests.waiting import until

Json = dict[str, Any]

PREEMPTS: Final = {
    "koord-queue/enable-queueunit-preemption": "true",
    "koord-queue/preempt-running-queueunits": "true",
}
WITHOUT_ELECTION: Final = "--leader-elect=false"
QUOTAS: Final = ("ants", "bees")
JOBS: Final = 20
"""Short ones of each quota; three of them have room at once."""
BARRED: Final = "barred"
"""A unit whose status the server lets nobody write."""
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"


class Run(NamedTuple):
    """What is known of a run after its end.

    Attributes:
        calls: The record.
        answers: What an engine answered to each call, when it was played again.
        again: The log entries of that.
        entries: The log entries of the record.
        writes: The scheduler's writes that admit a unit, as the server received them.
        evictions: Those that ask for an eviction.
        admitted: The versions in which units became admitted, as a watch saw them.
    """

    calls: Sequence[EngineCall]
    answers: Sequence[object]
    again: Sequence[LogEntry]
    entries: Sequence[LogEntry]
    writes: Sequence[Request]
    evictions: Sequence[Request]
    admitted: Sequence[int]

    def dequeues(self) -> list[Dequeue]:
        """Return the admissions that were decided again."""
        return [each for each in self.answers if isinstance(each, Dequeue)]

    def outcomes(self, name: str) -> list[EngineCall]:
        """Return the calls by which the engine learned what became of an admission."""
        return [call for call in self.calls if call.name == name]


@pytest.fixture(scope="module")
def run(controlplane_binaries: Path) -> Iterator[Run]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QueueWorld(controlplane_binaries, jobs=True) as world,
        Observer(world.api, {"queueunits": PATHS["queueunits"]}) as observer,
    ):
        insight = world.start_insight(f"--socket-dir={folder}", f"--record-dir={folder}")
        scheduler = world.start_scheduler(WITHOUT_ELECTION, f"--insight-socket-dir={folder}")
        world.start_controllers(WITHOUT_ELECTION)
        until(partial(is_followed, scheduler, datetime.now(UTC)))
        with labels_that_change(world):
            keep_busy(world)
        until(partial(is_followed, scheduler, datetime.now(UTC)))
        assert insight.stop() == 0
        assert not insight.errors()
        assert scheduler.stop() == 0
        yield read_run(Path(folder) / FILE, world, observer)


def is_followed(scheduler: ProgramProcess, since: datetime) -> bool:
    """Return whether all that the scheduler knew at a time has come to the insight program."""
    try:
        state = debug(scheduler, "/debug/insight")
    except HTTPError:
        return False
    return bool(state["connected"]) and datetime.fromisoformat(state["stateAt"]) >= since


def keep_busy(world: QueueWorld) -> None:
    """Run jobs that wait, one that evicts another, edit a quota, have a write refused."""
    for quota in QUOTAS:
        world.create_queue(quota, "Priority", PREEMPTS)
        world.create_quota(quota, cpu_max=3)
    world.create_job("low", QUOTAS[0], cpu="2", run_seconds=600)
    until(lambda: world.running_pods("low"))
    for number in range(JOBS):
        for quota in QUOTAS:
            world.create_job(f"{quota}-{number}", quota, run_seconds=0.2)
    priority = {"scheduling.x-k8s.io/priority": "100"}
    world.create_job("high", QUOTAS[0], cpu="3", annotations=priority)
    until(lambda: condition_of(world.unit_of("low"), "Evicted"), OWN_TIMES_SECONDS)
    world.delete_job("low")
    world.resize_quota(QUOTAS[1], 5)
    bar(world)
    for name in ("high", *(f"{quota}-{number}" for quota in QUOTAS for number in range(JOBS))):
        until(partial(is_done, world, name), OWN_TIMES_SECONDS)


def is_done(world: QueueWorld, job: str) -> bool:
    return bool(world.job(job).get("status", {}).get("succeeded"))


def bar(world: QueueWorld) -> None:
    """Have the server refuse each write of one unit's status, and try to admit it."""
    resources = {
        "apiGroups": ["scheduling.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["queueunits/status"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [resources]},
        "validations": [{"expression": f"object.metadata.name != '{BARRED}'"}],
    }
    world.api.request("POST", f"{ADMISSION}ies", {"metadata": {"name": BARRED}, "spec": spec})
    spec = {"policyName": BARRED, "validationActions": ["Deny"]}
    binding = {"metadata": {"name": BARRED}, "spec": spec}
    world.api.request("POST", f"{ADMISSION}ybindings", binding)
    world.create_unit(BARRED, "nobody", cpu=1)
    until(partial(is_refused, world, {"status": {"message": "probe"}}))
    world.patch_unit(BARRED, {"metadata": {"labels": {QUOTA_LABEL: QUOTAS[1]}}})
    until(lambda: HTTPStatus.UNPROCESSABLE_ENTITY in {each.status for each in admissions(world)})


def is_refused(world: QueueWorld, body: Json) -> bool:
    try:
        world.patch_unit(BARRED, body)
    except ApiError as error:
        return "denied" in str(error)
    return False


def admissions(world: QueueWorld) -> list[Request]:
    """Return the writes of the scheduler that admit a unit, whatever became of them."""
    return [each for each in status_writes(world) if each.body["status"].get("phase") == "Dequeued"]


def evictions(world: QueueWorld) -> list[Request]:
    """Return the writes of the scheduler that ask for an eviction."""
    return [each for each in status_writes(world) if is_true(each.body, "Evicted")]


def status_writes(world: QueueWorld) -> list[Request]:
    requests = world.audit.requests(SCHEDULER_AGENT)
    return [each for each in requests if each.resource == "queueunits/status"]


@contextmanager
def labels_that_change(world: QueueWorld) -> Iterator[None]:
    """Change labels of waiting units all the time, so that writes of their status conflict."""
    ended = threading.Event()

    def change() -> None:
        api, path = world.plane.client_for(), UNITS.format("default")
        while not ended.wait(0.02):
            for unit in api.request("GET", path)["items"]:
                name, version = unit["metadata"]["name"], unit["metadata"]["resourceVersion"]
                if unit.get("status", {}).get("phase") != "Enqueued":
                    continue
                with suppress(ApiError):
                    body = {"metadata": {"labels": {"test/seen": version}}}
                    api.request("PATCH", f"{path}/{name}", body, content_type=MERGE)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def read_run(path: Path, world: QueueWorld, observer: Observer) -> Run:
    """Return what is known of the run whose record this is."""
    with closing(read_store(path)) as store:
        first = store.first_wall()
        assert first is not None
        checkpoint = store.checkpoint_before(first)
        assert checkpoint is not None
        calls = list(store.calls_after(checkpoint, inf))
        entries = [entry for _, entry in store.select_decisions("ORDER BY id")]
    engine, log = thaw(checkpoint.data), DecisionLog()
    answers, again = [], []
    for call in calls:
        answers.append(play(engine, call))
        entry = log.entry_of(call, answers[-1], engine)
        again += [] if entry is None else [entry]
    asked = (admissions(world), evictions(world))
    return Run(calls, answers, again, entries, *asked, admitted_versions(observer))


def admitted_versions(observer: Observer) -> list[int]:
    """Return the versions in which units became admitted, in the order of the server's writes."""
    phases: dict[str, str] = {}
    found = []
    for seen in sorted(observer.seen, key=lambda each: version_of(each.body)):
        uid, phase = seen.body["metadata"]["uid"], seen.body.get("status", {}).get("phase", "")
        if phase == "Dequeued" != phases.get(uid):
            found.append(version_of(seen.body))
        phases[uid] = phase
    return found


def test_each_recorded_decision_comes_out_again_in_its_order(run: Run) -> None:
    assert [call.number for call in run.calls] == list(
        range(run.calls[0].number, run.calls[0].number + len(run.calls))
    )
    assert run.again == run.entries
    kinds = [entry.kind.value for entry in run.entries]
    assert kinds.count("Admitted") > len(QUOTAS) * JOBS
    assert {"Refused", "Evicts"} <= set(kinds)


def test_what_the_server_received_is_what_is_decided_again(run: Run) -> None:
    """The unit, the version that the decision is based on, and what it grants."""
    got = [
        (each.unit.partition("/")[2], each.resource_version, granted(each))
        for each in run.dequeues()
    ]
    want = [
        (
            each.name,
            each.body["metadata"]["resourceVersion"],
            [
                (admission["name"], admission["replicas"], admission["resources"])
                for admission in each.body["status"]["admissions"]
            ],
        )
        for each in run.writes
    ]
    assert sorted(got, key=repr) == sorted(want, key=repr)


def granted(decision: Dequeue) -> list[tuple[str, int, Json]]:
    return [(each.name, each.replicas, format_amounts(each.amounts)) for each in decision.grants]


def test_what_became_of_writes_is_in_the_record(run: Run) -> None:
    want = Counter(each.status for each in run.writes)
    failures = [call.args[1] for call in run.outcomes("on_write_failed")]
    assert failures.count(WriteFailure.CONFLICT) == want[HTTPStatus.CONFLICT]
    assert failures.count(WriteFailure.REFUSED) == want[HTTPStatus.UNPROCESSABLE_ENTITY] > 0
    assert len(run.outcomes("on_written")) == want[HTTPStatus.OK]


def test_units_are_admitted_in_the_order_of_decisions(run: Run) -> None:
    """Writes that are in flight together may overtake each other; others may not."""
    decided = {
        (each.uid, each.resource_version): call.number
        for call, each in zip(run.calls, run.answers, strict=True)
        if isinstance(each, Dequeue)
    }
    written = [
        (call.number, decided[call.args[0].uid, call.args[0].resource_version], call.args[1])
        for call in run.outcomes("on_written")
    ]
    versions = [int(unit.metadata.resource_version) for _, _, unit in written]
    assert sorted(versions) == list(run.admitted)
    for (reported, _, _), version in zip(written, versions, strict=True):
        later = [
            v for (_, number, _), v in zip(written, versions, strict=True) if number > reported
        ]
        assert version < min(later, default=version + 1)


def test_who_is_evicted_is_decided_again(run: Run) -> None:
    """All victims, except those whose write failed: the record says which."""
    rounds = [each for each in run.answers if isinstance(each, Preempt)]
    want = Counter(key_of(victim) for each in rounds for victim in each.victims)
    for call in run.outcomes("on_preempted"):
        want.subtract(key_of(victim) for victim in call.args[1])
    got = Counter(
        (each.name, each.body["metadata"]["resourceVersion"])
        for each in run.evictions
        if each.status == HTTPStatus.OK
    )
    assert got.total()
    assert got == +want


def key_of(victim: Victim) -> tuple[str, str]:
    return victim.unit.partition("/")[2], victim.resource_version
