"""Shadow mode over the fake API server, every step called on one thread."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from queue_insight.shadow.folder import FILE, read_lines
from queue_insight.shadow.lines import (
    Header,
    JobEnded,
    JobSeen,
    JobStarted,
    JobStopped,
    Line,
    ObjectGone,
    ObjectSeen,
)
from queue_insight.shadow.story import read_story
from queue_insight.shadow_program.flags import read_shadow_flags
from queue_insight.shadow_program.wiring import Shadow, build_shadow
from shared_api.client.read_only import ReadOnlyTransport
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.leader_election import SoleLeader
from shared_api.process.loop_thread import Step
from shared_api.program_flags import FlagError
from shared_api.testing.object_builders import elastic_quota_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.load_plan import build_namespace
from tests.queue_scheduler.all_flags import parse_all_flags
from tests.sample_jobs import QUOTA_CRD
from tests.stepped_host import SteppedHost, settle, writes_to
from tests.tidy.source_tree import ROOT

Json = dict[str, Any]

OBJECTS: Final = """
kind: ElasticQuota
metadata: {name: team, namespace: koord-queue}
spec: {min: {cpu: 2}, max: {cpu: 2}}
---
kind: ShadowPlaces
kueueQueues: {main: team}
"""


class Follower(SoleLeader):
    """A replica that does not lead."""

    def is_leader(self) -> bool:
        return False


class Town:
    """A cluster without our CRDs, and the shadow that watches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.direct = self.server.direct
        self.objects = folder / "objects.yaml"
        self.objects.write_text(OBJECTS)
        self.shadow: Shadow | None = None

    def start(self, *more: str, leadership: SoleLeader | None = None) -> Shadow:
        """Start the shadow, in place of one that ran before."""
        folder = f"--shadow-record-dir={self.folder / 'record'}"
        arguments = ["--shadow", folder, *(more or [f"--shadow-objects={self.objects}"])]
        flags = parse_all_flags(arguments)
        shadow = read_shadow_flags(flags)
        assert shadow is not None
        wire = ReadOnlyTransport(self.server, "koord-queue", "koord-queue-shadow")
        self.host = SteppedHost(wire, self.clock, leadership or SoleLeader("test"))
        self.shadow = build_shadow(self.host, flags, shadow, wait_seconds=0.0)
        self.settle()
        return self.shadow

    def settle(self, seconds: float = 3.0) -> None:
        assert self.shadow is not None
        settle(self.shadow.steps, self.clock, seconds, tick=0.5)

    def informers(self) -> list[Step]:
        """Return the steps by which caches follow, and nothing is recorded."""
        assert self.shadow is not None
        return self.shadow.steps()[:-1]

    def stop(self) -> None:
        if self.shadow is not None:
            self.shadow.recorder.close()

    def lines(self) -> list[Line]:
        return list(read_lines(self.folder / "record"))

    def kinds(self, name: str) -> list[str]:
        """Return the kinds of the lines about a job, in order."""
        uids = {each.uid for each in self.lines() if isinstance(each, JobSeen) and name in each.job}
        got = (JobSeen, JobStarted, JobStopped, JobEnded)
        found = [each for each in self.lines() if isinstance(each, got) and each.uid in uids]
        return [type(each).__name__ for each in found]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.host.metrics.registry.get_sample_value(f"koord_queue_shadow_{name}", labels)

    # --- what others do -----------------------------------------------------------------------

    def job(self, name: str, *, queue: str = "main", suspend: bool = True, **meta: Any) -> Json:
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
        pod = {"restartPolicy": "Never", "containers": [container]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels, **meta},
            "spec": {"suspend": suspend, "template": {"spec": pod}},
        }
        return self.direct.create(body)

    def run(self, job: Json, name: str = "") -> None:
        """Resume a job, and let its pod run on a node."""
        meta = job["metadata"]
        self.direct.patch("jobs", meta["name"], {"spec": {"suspend": False}})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        owner |= {"name": meta["name"], "uid": meta["uid"]}
        pod = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"}
        name = name or meta["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": pod,
        }
        self.direct.create(body)
        running = {"status": {"phase": "Running"}}
        self.direct.patch("pods", name, running, subresource="status")

    def complete(self, name: str) -> None:
        done = [{"type": each, "status": "True"} for each in ("SuccessCriteriaMet", "Complete")]
        times = {"startTime": self.now(), "completionTime": self.now()}
        status = {"conditions": done, "succeeded": 1, **times}
        self.direct.patch("jobs", name, {"status": status}, subresource="status")

    def pod(self, name: str, *, group: str = "", node: str = "", **meta: Any) -> None:
        """Create a pod of Kueue: held, or on a node; a group has two."""
        labels = {"kueue.x-k8s.io/queue-name": "main", **meta.pop("labels", {})}
        if group:
            labels["kueue.x-k8s.io/pod-group-name"] = group
            meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        held = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, **meta},
            "spec": {"containers": [container], **({"nodeName": node} if node else held)},
        }
        self.direct.create(body)

    def scheduled(self, *names: str) -> None:
        """Say that pods got their node now."""
        for name in names:
            said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now()}
            status = {"phase": "Running", "conditions": [said]}
            self.direct.patch("pods", name, {"status": status}, subresource="status")

    def end(self, *names: str) -> None:
        """Let pods run to their end."""
        for name in names:
            ended = {"name": "c", "state": {"terminated": {"finishedAt": self.now()}}}
            status = {"phase": "Succeeded", "containerStatuses": [ended]}
            self.direct.patch("pods", name, {"status": status}, subresource="status")

    def now(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path)
    yield town
    town.stop()


def test_the_record_has_the_life_of_a_job_and_nothing_is_written(town: Town) -> None:
    town.start()
    with structlog.testing.capture_logs() as logs:
        job = town.job("train")
        town.settle(20.0)
        town.run(job)
        town.settle(10.0)
        town.complete("train")
        town.settle()
    assert town.kinds("train") == ["JobSeen", "JobStarted", "JobEnded"]
    (story,) = read_story(town.lines()).jobs.values()
    assert story.started == story.seen.submitted + 20
    assert story.run_seconds == 10
    would = [each for each in logs if each["event"] == "would start"]
    assert [(each["job"], each["quota"], each["has_started"]) for each in would] == [
        ("default/train", "team", False)
    ]
    assert town.metric("starts_total") == 1
    assert writes_to(town.server) == []


PODS: Final = "--shadow-kinds=pod,podgroup"


def test_the_record_has_the_lives_of_a_pod_and_a_group(town: Town) -> None:
    town.start(f"--shadow-objects={town.objects}", PODS)
    town.pod("alone")
    town.pod("g-0", group="g")
    town.settle(10.0)
    assert town.kinds("/alone") == ["JobSeen"]
    assert town.kinds("/g") == [], "a pod of it is missing"
    town.pod("g-1", group="g", node="node-1")
    town.clock.advance(20.0)
    town.scheduled("g-1")
    town.settle(10.0)
    town.end("g-1")
    town.settle(5.0)
    town.end("g-0")
    town.settle()
    for name in ("alone", "g-0", "g-1"):
        town.direct.delete("pods", name)
        town.settle()
    found = {each.seen.job: each for each in read_story(town.lines()).jobs.values()}
    group, alone = found["default/g"], found["default/alone"]
    assert (group.seen.submitted, group.seen.kind) == (alone.seen.submitted + 10, "podgroup")
    assert (group.started, group.run_seconds) == (group.seen.submitted + 20, 15)
    assert town.kinds("/g") == ["JobSeen", "JobStarted", "JobEnded"]
    assert town.kinds("/alone") == ["JobSeen", "JobEnded"]
    assert town.metric("starts_total") == 2
    assert writes_to(town.server) == []


def test_a_pod_that_is_deleted_as_it_ends_has_ended_and_its_name_is_free(town: Town) -> None:
    town.start(f"--shadow-objects={town.objects}", PODS)
    for name in ("brief", "stopped"):
        town.pod(name, node="node-1")
        town.scheduled(name)
    town.settle(10.0)
    town.end("brief")
    settle(town.informers, town.clock, 1.0, tick=0.5)
    for name in ("brief", "stopped"):
        town.direct.delete("pods", name)
    town.settle()
    town.end("stopped")
    town.settle()
    assert town.kinds("/stopped") == ["JobSeen", "JobStarted"], "it is not gone yet"
    town.direct.delete("pods", "stopped")
    town.settle()
    town.pod("brief")
    town.settle()
    found = [(each.seen.job, each.outcome) for each in read_story(town.lines()).jobs.values()]
    assert sorted(found) == [
        ("default/brief", ""),
        ("default/brief", "succeeded"),
        ("default/stopped", "deleted"),
    ]


def test_a_group_that_ends_and_is_deleted_between_two_looks_is_seen(town: Town) -> None:
    town.start(f"--shadow-objects={town.objects}", PODS)
    pair = ("g-0", "g-1")
    for turn in range(2):
        for name in pair:
            town.pod(name, group="g", node="node-1")
            town.scheduled(name)
        town.end(*pair)
        settle(town.informers, town.clock, 1.0, tick=0.5)
        for name in pair:
            town.direct.delete("pods", name)
        town.settle()
        assert [each.outcome for each in read_story(town.lines()).jobs.values()] == [
            "succeeded"
        ] * (turn + 1)


def test_pods_of_jobs_are_counted_once(town: Town) -> None:
    town.start(f"--shadow-objects={town.objects}", f"{PODS},job")
    job = town.job("train")
    town.run(job, "train-pod")
    town.pod("left", labels={"controller-uid": "u-9"})
    town.settle()
    assert [each.job for each in town.lines() if isinstance(each, JobSeen)] == ["default/train"]


def test_a_group_that_runs_without_a_number_is_named_once(town: Town) -> None:
    with structlog.testing.capture_logs() as logs:
        town.start(f"--shadow-objects={town.objects}", PODS)
        for name in ("p-0", "p-1"):
            town.pod(name, node="node-1", labels={"scheduling.x-k8s.io/pod-group": "p"})
            town.settle()
    assert town.kinds("/p") == []
    said = [(each["job"], each["why"]) for each in logs if "left out" in each["event"]]
    assert said == [("default/p", "there is no PodGroup p (scheduling.x-k8s.io)")]


def test_a_restart_with_other_kinds_ends_what_is_not_followed_any_more(town: Town) -> None:
    town.start(f"--shadow-objects={town.objects}", PODS)
    town.pod("alone")
    town.settle()
    town.stop()
    town.start(f"--shadow-objects={town.objects}")
    assert town.kinds("alone") == ["JobSeen", "JobEnded"]


def test_it_says_what_waits_in_reality_and_in_its_books(town: Town) -> None:
    town.start()
    for name in ("one", "two", "three"):
        town.job(name)
    town.settle()
    assert town.metric("waiting_jobs", side="real") == 3
    assert town.metric("waiting_jobs", side="shadow") == 2


def test_a_job_that_is_suspended_again_has_two_runs(town: Town) -> None:
    town.start()
    job = town.job("train")
    town.run(job)
    town.settle()
    town.direct.patch("jobs", "train", {"spec": {"suspend": True}})
    failed = {"status": {"phase": "Failed"}}
    town.direct.patch("pods", "train", failed, subresource="status")
    town.settle(10.0)
    town.run(job, "train-2")
    town.settle()
    town.direct.delete("jobs", "train")
    town.settle()
    assert town.kinds("train") == ["JobSeen", "JobStarted", "JobStopped", "JobStarted", "JobEnded"]


def test_after_a_restart_it_goes_on_and_notes_what_it_missed(town: Town) -> None:
    town.start()
    gone, runs = town.job("gone"), town.job("runs")
    town.run(runs)
    town.settle()
    town.stop()
    town.direct.delete("jobs", gone["metadata"]["name"])
    town.complete("runs")
    missed = town.job("missed")
    town.run(missed)
    town.clock.advance(100.0)
    town.complete("missed")
    with structlog.testing.capture_logs() as logs:
        town.start()
    assert town.kinds("gone") == ["JobSeen", "JobEnded"]
    assert town.kinds("runs") == ["JobSeen", "JobStarted", "JobEnded"]
    assert town.kinds("missed") == ["JobSeen", "JobStarted", "JobEnded"]
    assert sum(isinstance(each, Header) for each in town.lines()) == 2
    starts = [each["job"] for each in logs if each["event"] == "would start"]
    assert "default/gone" not in starts, "what was decided before is not told again"


def test_quotas_of_the_cluster_are_followed_if_it_has_them(town: Town) -> None:
    town.direct.create(QUOTA_CRD)
    quota = elastic_quota_body("team", namespace="default", min={"cpu": 4}, max={"cpu": 4})
    town.direct.create(quota)
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    town.direct.create({**node, "status": {"allocatable": {"cpu": "1", "memory": "8Gi"}}})
    town.start("--shadow-kinds=job")
    town.job("train", queue="team")
    town.settle()
    assert town.metric("starts_total") == 0, "the node has one core"
    more = {"status": {"allocatable": {"cpu": "8"}}}
    town.direct.patch("nodes", "node-1", more, subresource="status")
    town.settle()
    assert town.metric("starts_total") == 1
    before = len(town.lines())
    runtime = {"quota.scheduling.koordinator.sh/runtime": '{"cpu":4}'}
    town.direct.patch("elasticquotas", "team", {"metadata": {"annotations": runtime}})
    town.settle()
    assert len(town.lines()) == before, "what koord-scheduler calculates is no change"
    town.direct.delete("elasticquotas", "team")
    town.settle()
    assert type(town.lines()[-1]).__name__ == "ObjectGone"


def test_policies_of_the_namespace_of_queues_are_recorded(town: Town) -> None:
    town.direct.create(QUOTA_CRD)
    town.direct.create_from(ROOT / "crds" / "quotapolicies.yaml")
    town.direct.create(build_namespace("koord-queue"))
    for name, namespace in (("counts", "koord-queue"), ("elsewhere", "default")):
        town.direct.create(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "QuotaPolicy",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"quotas": ["team"], "userLimits": [{"users": ["ann"], "running": 1}]},
            }
        )
    town.start("--shadow-kinds=job")

    def recorded() -> list[Json]:
        seen = [each for each in town.lines() if isinstance(each, ObjectSeen)]
        return [each.body for each in seen if each.body["kind"] == "QuotaPolicy"]

    (body,) = recorded()
    assert body["metadata"]["name"] == "counts"
    assert body["spec"]["userLimits"][0]["running"] == 1
    where = {"namespace": "koord-queue"}
    told = {"status": {"observedGeneration": 1}}
    town.direct.patch("quotapolicies", "counts", told, subresource="status", **where)
    town.settle()
    assert len(recorded()) == 1, "its status is no change"
    town.direct.delete("quotapolicies", "counts", **where)
    town.settle()
    gone = town.lines()[-1]
    assert isinstance(gone, ObjectGone)
    assert (gone.kind, gone.key) == ("QuotaPolicy", "koord-queue/counts")


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"namespace": "kube-system"}, id="the system's"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}]},
            id="part of another job",
        ),
    ],
)
def test_some_jobs_do_not_count(town: Town, meta: Json) -> None:
    owners = [
        {**each, "name": "set", "uid": "u-1", "controller": True}
        for each in meta.get("ownerReferences", ())
    ]
    town.start()
    town.job("other", **{**meta, "ownerReferences": owners})
    town.settle()
    assert town.kinds("other") == []


def test_a_replica_that_does_not_lead_records_nothing(town: Town) -> None:
    shadow = town.start(leadership=Follower("test"))
    assert all(check()[0] for check in shadow.ready_checks().values())
    assert not (town.folder / "record").exists()


def test_a_full_record_is_left_as_it_is_and_said(town: Town) -> None:
    objects = f"--shadow-objects={town.objects}"
    with structlog.testing.capture_logs() as logs:
        town.start(objects, "--shadow-record-limit=1Ki")
        for number in range(20):
            town.job(f"train-{number}")
        town.settle()
    size = (town.folder / "record" / "shadow.jsonl").stat().st_size
    assert size < 3000
    assert town.metric("record_full") == 1
    assert sum(each["event"] == "nothing is recorded any more" for each in logs) == 1
    assert town.lines(), "it can be read"


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(("--shadow-kinds=job,unknown",), "unknown not known", id="an unknown kind"),
        pytest.param(
            ("--shadow-kinds=pod,statefulset",),
            "statefulset not followed: only this queue's gate",
            id="pods of a set",
        ),
        pytest.param(("--shadow-objects=/nowhere",), "/nowhere: No such file", id="no file"),
        pytest.param(("--config=FOLDER/config.yaml",), "need plugin", id="quotas without a plugin"),
        pytest.param(("--shadow-record-dir=FOLDER",), "line 1", id="a record of something else"),
    ],
)
def test_a_wrong_flag_is_named(town: Town, flags: tuple[str, ...], want: str) -> None:
    (town.folder / "config.yaml").write_text("plugins: [{name: ResourceQuota}]")
    (town.folder / FILE).write_text("{}\n")
    named = [each.replace("FOLDER", str(town.folder)) for each in flags]
    with pytest.raises(FlagError, match=want):
        town.start(f"--shadow-objects={town.objects}", *named)


def test_quotas_that_come_later_find_their_plugin(town: Town) -> None:
    town.direct.create(QUOTA_CRD)
    town.start("--shadow-kinds=job")
    town.job("train", queue="team")
    limit = {"cpu": 4}
    town.direct.create(elastic_quota_body("team", namespace="default", min=limit, max=limit))
    town.settle()
    assert town.metric("starts_total") == 1
