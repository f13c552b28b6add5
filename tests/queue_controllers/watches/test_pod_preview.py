"""When pods of jobs are previewed by the API server, and what counts until it has answered."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.previewed_pod import NO_RESPONSE
from queue_controllers.extensions.batch_job import BatchJobAdapter
from queue_controllers.jobframework.generic_job import AWAITS_PREVIEW, JobFacts, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.reconcile.job_reader import PreviewRequest
from queue_controllers.watches.pod_preview import (
    IDLE_SECONDS,
    KNOWN_JOB_SECONDS,
    NEW_JOB_SECONDS,
    REPEAT_SECONDS,
    PodPreviews,
)
from shared_api.client.errors import Forbidden, Invalid, NotFound, ServerError
from shared_api.objects.meta import Uid
from shared_api.pod_requests import pod_requests
from shared_api.testing.virtual_clock import VirtualClock
from tests.job_situations import SUCCEEDED, facts

Json = dict[str, Any]

BUSY: Final = ServerError(500, "", "failed calling webhook")


class Server:
    """An API server whose admission the tests set."""

    def __init__(self) -> None:
        self.cpu = "3"
        self.trouble: Exception | None = None
        self.jobs: dict[str, Json] = {}
        self.asked: list[Json] = []
        self.reads = 0

    def get_raw(self, path: str) -> bytes:
        self.reads += 1
        name = path.rsplit("/", 1)[-1]
        if name not in self.jobs:
            raise NotFound(404, "NotFound", "no such job")
        return msgspec.json.encode(self.jobs[name])

    def create(self, resource_type: Any, namespace: str, body: Any, *, dry_run: bool) -> Any:
        assert dry_run
        assert resource_type.path(namespace) == "/api/v1/namespaces/team/pods"
        self.asked.append(body)
        if self.trouble is not None:
            raise self.trouble
        pod = copy.deepcopy(body)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": self.cpu}}
        return msgspec.convert(pod, ScheduledPod)


class World:
    """Previews, a server and a clock."""

    def __init__(self) -> None:
        self.clock, self.server = VirtualClock(), Server()
        self.changed: list[str] = []
        self.woken: list[str] = []
        self.previews = PodPreviews(self.server, self.clock, on_changed=self.changed.append)

    def job(self, name: str = "main", env: str = "") -> JobFacts:
        """Create a job on the server."""
        of = facts()
        uid = Uid(f"uid-{name}")
        container: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        container["env"] = [{"name": "X", "value": env}]
        self.server.jobs[name] = {
            "metadata": {"name": name, "namespace": "team", "uid": uid},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        metadata = msgspec.structs.replace(of.metadata, name=name, uid=uid)
        pod_sets = (msgspec.structs.replace(of.pod_sets[0], name=name),)
        return msgspec.structs.replace(of, metadata=metadata, pod_sets=pod_sets)

    def look(self, job: JobFacts, *, has_unit: bool = False) -> JobFacts:
        return self.previews(self.request(job, has_unit=has_unit))

    def request(self, job: JobFacts, *, has_unit: bool) -> PreviewRequest:
        return PreviewRequest(
            adapter=BatchJobAdapter(),
            job=job,
            context=ClusterContext(),
            has_unit=has_unit,
            wake=self.woken.append,
        )

    def run(self) -> float | None:
        """Run all due work; return when the next is due."""
        rest: float | None = 0.0
        while rest == 0.0:
            rest = self.previews.step()
        return rest

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and run the work that gets due."""
        until = self.clock.monotonic() + seconds
        while (rest := self.run()) is not None and self.clock.monotonic() + rest <= until:
            self.clock.advance(rest)
        self.clock.advance(max(until - self.clock.monotonic(), 0.0))
        self.run()


@pytest.fixture
def world() -> World:
    return World()


def cpu_of(job: JobFacts) -> int:
    return pod_requests(job.pod_sets[0].template.spec)["cpu"]


def answered(world: World, job: JobFacts) -> JobFacts:
    world.look(job)
    world.run()
    return world.look(job)


def test_a_reconcile_does_not_wait_and_the_job_is_held_until_the_answer(
    world: World,
) -> None:
    job = world.job()
    assert world.look(job).unknown_demand == AWAITS_PREVIEW
    assert world.server.asked == []
    world.run()
    assert world.woken == ["team/main"]
    got = world.look(job)
    assert (got.unknown_demand, cpu_of(got)) == ("", 3000)


def test_jobs_without_relevant_differences_share_one_preview(world: World) -> None:
    for name in ("main", "other"):
        assert cpu_of(answered(world, world.job(name, env=name))) == 3000
    assert len(world.server.asked) == 1
    assert world.server.reads == 2
    for _ in range(3):
        world.look(world.job())
    world.run()
    assert (len(world.server.asked), world.server.reads) == (1, 2)


@pytest.mark.parametrize(
    ("has_unit", "patience"), [(False, NEW_JOB_SECONDS), (True, KNOWN_JOB_SECONDS)]
)
def test_without_an_answer_in_time_the_watched_objects_count_with_a_note(
    world: World, has_unit: bool, patience: float
) -> None:
    job, world.server.trouble = world.job(), BUSY
    assert world.look(job, has_unit=has_unit).unknown_demand == AWAITS_PREVIEW
    world.pass_time(patience - 0.1)
    assert world.look(job, has_unit=has_unit).unknown_demand == AWAITS_PREVIEW
    world.pass_time(0.1)
    got = world.look(job, has_unit=has_unit)
    assert (got.unknown_demand, cpu_of(got), got.template_differences) == ("", 1000, NO_RESPONSE)
    world.server.trouble = None
    world.woken.clear()
    world.pass_time(60.0)
    assert world.woken == ["team/main"]
    assert cpu_of(world.look(job)) == 3000


def test_a_failing_server_is_retried_with_growing_delays(world: World) -> None:
    world.server.trouble = BUSY
    world.look(world.job())
    world.pass_time(600.0)
    assert 8 <= len(world.server.asked) <= 20


def test_an_answer_is_renewed_every_ten_minutes_and_its_jobs_are_reconciled(world: World) -> None:
    job = world.job()
    answered(world, job)
    world.pass_time(REPEAT_SECONDS + 1)
    assert (len(world.server.asked), world.changed) == (2, [])
    world.server.cpu = "5"
    world.pass_time(REPEAT_SECONDS + 1)
    assert world.changed == ["team"]
    assert cpu_of(world.look(job)) == 5000


@pytest.mark.parametrize(("namespace", "asks"), [("team", 2), ("", 2), ("other", 0)])
def test_a_change_repeats_the_preview_twice(world: World, namespace: str, asks: int) -> None:
    job = world.job()
    answered(world, job)
    world.previews.repeat_dry_runs(namespace)
    world.server.cpu = "7"
    assert cpu_of(world.look(job)) == 3000  # until there is another
    world.pass_time(60.0)
    assert len(world.server.asked) == 1 + asks
    assert world.changed == (["team"] if asks else [])


def test_endless_changes_delay_nothing(world: World) -> None:
    answered(world, world.job())
    for _ in range(10):
        world.previews.repeat_dry_runs("")
        world.pass_time(0.5)
    assert 3 <= len(world.server.asked) - 1 <= 5


def test_until_a_new_answer_comes_the_old_one_counts(world: World) -> None:
    job = world.job()
    answered(world, job)
    world.server.trouble = BUSY
    world.pass_time(2 * REPEAT_SECONDS)
    assert cpu_of(world.look(job)) == 3000


def test_a_refusal_is_previewed_again_and_its_end_is_reported(world: World) -> None:
    job, world.server.trouble = world.job(), Invalid(422, "Invalid", "policy says no")
    assert answered(world, job).pods_refused == "policy says no"
    world.pass_time(60.0)
    asked = len(world.server.asked)
    assert 4 <= asked <= 8
    assert world.changed == []
    world.server.trouble = None
    world.pass_time(120.0)
    assert world.changed == ["team"]
    assert world.look(job).pods_refused == ""


def test_a_resource_quota_without_room_refuses_nothing(world: World) -> None:
    full = 'pods "x" is forbidden: exceeded quota: q, requested: cpu=1'
    job, world.server.trouble = world.job(), Forbidden(403, "Forbidden", full)
    got = answered(world, job)
    assert (got.pods_refused, cpu_of(got)) == ("", 1000)
    assert "ResourceQuota" in got.template_differences
    world.server.trouble = None
    world.pass_time(10.0)
    assert cpu_of(world.look(job)) == 3000


def test_a_changed_template_is_another_preview(world: World) -> None:
    job = world.job()
    answered(world, job)
    pod_sets = (msgspec.structs.replace(facts(cpu="2").pod_sets[0], name="main"),)
    edited = msgspec.structs.replace(job, pod_sets=pod_sets)
    assert world.look(edited).unknown_demand == AWAITS_PREVIEW


def test_a_deleted_job_is_not_previewed(world: World) -> None:
    job = world.job()
    world.look(job)
    world.server.jobs.clear()
    assert world.run() is None
    assert world.server.asked == []


def test_another_job_of_its_name_is_not_mistaken_for_it(world: World) -> None:
    job = world.job()
    world.look(job)
    world.server.jobs["main"]["metadata"]["uid"] = "another"
    world.run()
    assert world.server.asked == []


def test_previews_that_no_job_needs_are_dropped(world: World) -> None:
    answered(world, world.job())
    world.pass_time(IDLE_SECONDS + 2 * REPEAT_SECONDS)
    asked = len(world.server.asked)
    assert world.run() is None
    assert asked <= 1 + IDLE_SECONDS / REPEAT_SECONDS


def test_limits_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_controllers.watches.pod_preview.MAX_RESULTS", 2)
    monkeypatch.setattr("queue_controllers.watches.pod_preview.MAX_WAITING_JOBS", 2)
    jobs = [world.job(f"j{number}") for number in range(3)]
    for number, job in enumerate(jobs):
        container = world.server.jobs[job.metadata.name]["spec"]["template"]["spec"]["containers"]
        container[0]["image"] = f"i{number}"
    said = [world.look(job).unknown_demand for job in jobs]
    assert said == [AWAITS_PREVIEW, AWAITS_PREVIEW, ""]
    for job in jobs:
        answered(world, job)
    assert sum([bool(world.look(job).unknown_demand) for job in jobs]) == 1


def test_results_are_bounded_by_their_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_controllers.watches.pod_preview.MAX_RESULT_BYTES", 50_000)
    jobs = [world.job(f"j{number}") for number in range(4)]
    for number, job in enumerate(jobs):
        spec = world.server.jobs[job.metadata.name]["spec"]["template"]["spec"]
        spec["containers"][0]["image"] = f"{number}" * 7000
        answered(world, job)
        world.clock.advance(1.0)
    assert [bool(world.look(job).unknown_demand) for job in jobs] == [True, True, False, False]


def test_a_result_that_has_grown_takes_more_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_controllers.watches.pod_preview.MAX_RESULT_BYTES", 50_000)
    grown, other = world.job(), world.job("other")
    world.server.jobs["other"]["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    answered(world, grown)
    world.server.trouble = Invalid(422, "", "x" * 60_000)
    world.pass_time(REPEAT_SECONDS)
    assert not world.look(grown).unknown_demand
    world.server.trouble = None
    world.clock.advance(1.0)
    answered(world, other)
    assert world.look(grown).unknown_demand == AWAITS_PREVIEW


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"unknown_demand": "nobody knows"}, id="no pods are known"),
        pytest.param({"pod_sets": ()}, id="it has no pod sets"),
    ],
)
def test_jobs_without_pods_are_not_previewed(world: World, changes: Json) -> None:
    job = msgspec.structs.replace(world.job(), **changes)
    assert world.look(job) == job
    assert world.run() is None


def test_an_answer_is_recalled_without_a_preview(world: World) -> None:
    def recall(job: JobFacts) -> JobFacts:
        return world.previews.recall(world.request(job, has_unit=True))

    job = world.job()
    assert recall(job) == job, "it was not requested"
    assert world.run() is None
    world.server.trouble = BUSY
    world.look(job)
    assert recall(job).unknown_demand == AWAITS_PREVIEW, "it is about to be requested"
    world.pass_time(KNOWN_JOB_SECONDS)
    assert NO_RESPONSE in recall(job).template_differences
    assert recall(job) == world.look(job, has_unit=True)
    world.server.trouble = None
    world.pass_time(120.0)
    asked = len(world.server.asked)
    assert recall(job) == world.look(job)
    assert cpu_of(recall(job)) == 3000
    assert len(world.server.asked) == asked
    ended = msgspec.structs.replace(job, status=StatusFacts(outcome=SUCCEEDED))
    assert recall(ended) == ended


def test_a_job_whose_preview_raises_delays_no_other(world: World) -> None:
    bad, good = world.job("bad"), world.job("good")
    world.look(bad)
    world.look(good)
    del world.server.jobs["bad"]["spec"]["template"]
    world.run()
    assert world.woken == ["team/good"]
    assert world.look(good).unknown_demand == ""
