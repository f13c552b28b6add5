"""What happens to a manifest that is submitted now, on a copy of the engine."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.try_out.submission import (
    Tried,
    TryOut,
    list_not_looked_up,
    read_manifest,
    rights_to_create,
)
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    ENABLE_PREEMPTION,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    PRIORITY,
    QUOTA_NAME,
)
from tests.properties.engine_kit import build_queue, build_quota, started
from tests.queue_scheduler.insight.changes_kit import WALL, SmallCluster
from tests.sample_jobs import sample

Json = dict[str, Any]


def job(name: str = "new", *, cpu: int = 1, quota: str = "a", priority: str = "") -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    meta: Json = {"name": name, "namespace": "ns", "labels": {QUOTA_NAME: quota}}
    meta["annotations"] = {PRIORITY: priority} if priority else {}
    spec = {"suspend": True, "parallelism": 1, "completions": 1, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def submit(
    cluster: SmallCluster,
    *jobs: Json,
    changes: bool = False,
    annotations: dict[str, str] | None = None,
) -> list[Tried]:
    """Submit jobs into namespaces with these annotations."""

    def namespace(name: str) -> Namespace | None:
        return Namespace(metadata=ObjectMeta(name=name, annotations=annotations or {}))

    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(jobs)}).encode()
    manifest = read_manifest(text, is_json=True, namespace="ns")
    tried = TryOut(cluster.engine.fork(), WALL, namespace)
    return list(tried.submit(manifest, with_changes=changes))


def test_a_job_that_fits_starts_now() -> None:
    (tried,) = submit(SmallCluster(), job(cpu=4))
    assert (tried.starts, tried.position, tried.also) == (True, 1, ())
    assert (tried.queue, tried.quota) == ("a", "a")
    assert tried.explanation is None


def test_a_job_that_does_not_fit_has_a_place_and_reasons() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("ahead", cpu=2)
    (tried,) = submit(cluster, job(cpu=2), changes=True)
    assert (tried.starts, tried.position) == (False, 2)
    assert tried.explanation is not None
    assert tried.explanation.position == 2
    assert Reason.OVER_QUOTA_MAX in {each.reason for each in tried.explanation.blockers}
    assert tried.changes is not None
    assert any(each.sufficient for each in tried.changes.found)


def test_jobs_are_created_in_order_and_each_takes_its_share() -> None:
    tried = submit(SmallCluster(), job("first", cpu=3), job("second", cpu=2), job("third", cpu=1))
    assert [each.starts for each in tried] == [True, False, True]
    assert [each.position for each in tried] == [1, 1, 2]


def test_the_names_of_jobs_before_it_are_taken() -> None:
    first, second = submit(SmallCluster(), job("same"), job("same"))
    assert first.verdict.errors == ()
    assert [each.field for each in second.verdict.errors] == ["metadata.name"]


def test_a_job_that_evicts_others_starts_and_names_them() -> None:
    cluster = SmallCluster(
        build_queue("a", annotations={ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"})
    )
    cluster.run("low", cpu=4)
    (tried,) = submit(cluster, job(cpu=2, priority="9"))
    assert tried.starts
    assert tried.victims == ("ns/low",)


def test_a_namespace_bounds_the_priority_of_its_jobs() -> None:
    (tried,) = submit(SmallCluster(), job(priority="9"), annotations={MAX_PRIORITY: "3"})
    assert tried.unit is not None
    assert tried.unit.spec.priority == 3
    assert any("counts in part" in each.message for each in tried.verdict.problems)


def test_a_job_of_a_quota_that_does_not_exist_is_held() -> None:
    (tried,) = submit(SmallCluster(), job(quota="none"))
    assert (tried.starts, tried.position) == (False, 0)
    assert tried.explanation is not None
    assert tried.explanation.verdict == "held"


def test_the_quota_of_its_namespace_is_the_one_that_the_engine_knows() -> None:
    cluster = SmallCluster(build_quota("b", cpu=1, namespaces='["ns"]'), build_queue("b"))
    body = job()
    body["metadata"]["labels"] = {}
    (tried,) = submit(cluster, body)
    assert (tried.queue, tried.quota) == ("b", "b")


def test_an_object_without_a_unit_changes_nothing() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    other, tried = submit(SmallCluster(), config, job(cpu=4))
    assert (other.unit, other.starts, other.position) == (None, None, 0)
    assert tried.starts


def test_the_unit_is_the_one_that_is_told_to_the_engine() -> None:
    cluster = SmallCluster()
    (tried,) = submit(cluster, job(cpu=2))
    assert tried.unit is not None
    want = msgspec.convert(tried.verdict.unit, QueueUnit)
    assert tried.unit.spec == want.spec
    cluster.workers.wake(Engine.on_queue_unit(cluster.engine, tried.unit))
    assert started(cluster.workers.run()) == ["new"]


def test_more_jobs_than_are_tried_are_refused() -> None:
    body = sample("leaderworkerset")
    body["spec"]["replicas"] = 101
    with pytest.raises(ValueError, match="at most 100 are tried"):
        submit(SmallCluster(), body)


def test_the_rights_that_are_needed_are_to_create_each_kind_of_object_once() -> None:
    other = job("c")
    other["metadata"]["namespace"] = "other"
    items = [job("a"), job("b"), other, {"kind": "X", "apiVersion": "v1"}]
    text = json.dumps({"kind": "List", "items": items}).encode()
    rights = rights_to_create(read_manifest(text, is_json=True, namespace="ns"))
    said = ["create jobs in namespace ns", "create jobs in namespace other"]
    assert [str(each) for each in rights] == said
    assert {each.group for each in rights} == {"batch"}


def test_what_a_dry_run_has_looked_up_is_not_listed() -> None:
    facts = TryOut(SmallCluster().engine.fork(), WALL, lambda _: None).facts
    without, with_run = (list_not_looked_up(facts, defaulted=each) for each in (False, True))
    assert len(without) == len(with_run) + 1
    assert any("LimitRanges" in each for each in with_run)
