"""What happens to a manifest that is submitted now, on a copy of the engine."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from queue_insight.try_out.submission import (
    Tried,
    TryOut,
    list_not_looked_up,
    read_manifest,
    rights_to_create,
)
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import UserLimit
from shared_api.well_known_labels import (
    ENABLE_PREEMPTION,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    PRIORITY,
    QUOTA_NAME,
    STOP_POLICY,
)
from tests.properties.engine_kit import build_policy, build_queue, build_quota, started
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster
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


def create(cluster: SmallCluster, body: Json) -> QueueUnit:
    """Create a job, as its manifest says; return its unit, which the engine has decided about."""
    (tried,) = submit(cluster, body)
    assert tried.unit is not None
    cluster.apply(tried.unit)
    return tried.unit


def test_a_job_that_waits_is_updated_in_its_place() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    before = create(cluster, job(cpu=2, priority="5"))
    cluster.wait("behind", cpu=2)
    (tried,) = submit(cluster, job(cpu=2, priority="5"), changes=True)
    assert (tried.exists, tried.starts, tried.position) == (True, False, 1)
    assert tried.verdict.errors == ()
    assert tried.unit == before, "nothing of it has changed"
    assert tried.changes is not None


@pytest.mark.parametrize(
    ("body", "starts", "position"),
    [
        pytest.param(job(cpu=1), True, 2, id="it asks for less"),
        pytest.param(job(cpu=2, priority="9"), False, 1, id="it is more urgent"),
        pytest.param(job(cpu=2, quota="b"), True, 1, id="it goes to another quota"),
    ],
)
def test_what_the_manifest_changes_of_a_job_counts(body: Json, starts: bool, position: int) -> None:
    cluster = SmallCluster(build_quota("b", cpu=2), build_queue("b"))
    cluster.run("old", cpu=3)
    cluster.wait("ahead", cpu=2)
    before = create(cluster, job(cpu=2))
    (tried,) = submit(cluster, body)
    assert (tried.exists, tried.starts, tried.position) == (True, starts, position)
    assert tried.unit is not None
    assert tried.unit.metadata.uid == before.metadata.uid
    assert cluster.engine.record("ns/new") is not None
    (again,) = submit(cluster, job(cpu=2))
    assert (again.starts, again.position) == (False, 2), "only the fork was told"


def test_a_job_that_has_started_is_neither_started_nor_charged_again() -> None:
    cluster = SmallCluster()
    create(cluster, job(cpu=3))
    (tried, other) = submit(cluster, job(cpu=3), job("other", cpu=1))
    assert (tried.exists, tried.starts, tried.explanation) == (True, None, None)
    assert other.starts, "one core is left"


def quota(cpu: int | str, name: str = "a", **labels: str) -> Json:
    amounts = {"cpu": cpu}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "kq", "labels": labels},
        "spec": {"min": amounts, "max": amounts},
    }


def queue(name: str = "a", **annotations: str) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name, "namespace": "kq", "annotations": annotations},
        "spec": {"queuePolicy": "Priority"},
    }


@pytest.mark.parametrize(
    ("others", "starts"),
    [
        pytest.param([], False, id="the quota as it is"),
        pytest.param([quota(9)], True, id="a larger quota"),
        pytest.param([quota(9), queue(**{STOP_POLICY: "Hold"})], False, id="a stopped queue"),
        pytest.param([quota(9, "new")], False, id="a quota that does not exist"),
    ],
)
def test_queues_and_quotas_that_exist_are_updated_first(others: list[Json], starts: bool) -> None:
    *got, tried = submit(SmallCluster(), *others, job(cpu=5))
    assert tried.starts == starts
    assert [each.verdict.errors for each in got] == [()] * len(others)
    reasons = {"NoJob": "It exists, and is no job", "UnknownKind": "create it first"}
    assert all(reasons[each.verdict.reason] in each.verdict.message for each in got)


def policy(name: str = "p", namespace: str = "koord-queue", **limit: Any) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"quotas": ["a"], "userLimits": [{"users": ["*"], **limit}]},
    }


def test_limits_of_policies_in_the_manifest_count() -> None:
    cluster = SmallCluster(cpu=9)
    got, first, second = submit(cluster, policy(running=1), job("one"), job("two"), changes=True)
    assert (got.verdict.reason, got.verdict.errors) == ("NoJob", ())
    assert got.verdict.message.startswith("It is no job")
    assert (first.starts, second.starts) == (True, False)
    assert second.explanation is not None
    assert [each.reason for each in second.explanation.blockers] == [Reason.USER_LIMIT]
    assert second.changes is not None
    assert "QuotaPolicy p" in second.changes.found[0].description


def test_a_policy_that_exists_is_updated() -> None:
    cluster = SmallCluster(cpu=9)
    cluster.engine.on_quota_policy(build_policy("p", ["a"], UserLimit(users=("*",), running=0)))
    (held,) = submit(cluster, job())
    got, tried = submit(cluster, policy(max={"cpu": "2"}), job())
    assert (held.starts, tried.starts) == (False, True)
    assert got.verdict.message.startswith("It exists, and is no job")


def test_a_policy_that_counts_for_nothing_is_not_applied() -> None:
    got, tried = submit(SmallCluster(), policy(namespace="team", running=0), job())
    assert got.verdict.reason == "UnknownKind"
    assert tried.starts


def test_a_policy_that_cannot_be_read_is_an_error() -> None:
    got, tried = submit(SmallCluster(), policy(running=-1), job())
    (error,) = got.verdict.errors
    assert (error.field, tried.starts) == ("spec.userLimits[0].running", True)


def test_the_order_of_a_manifest_does_not_matter_to_quotas() -> None:
    tried, _ = submit(SmallCluster(), job(cpu=5), quota(9))
    assert tried.starts


def test_an_update_of_a_quota_that_is_refused_is_an_error_and_changes_nothing() -> None:
    got, tried = submit(SmallCluster(), quota("many"), job(cpu=5))
    (error,) = got.verdict.errors
    assert error.field == "spec.min.cpu"
    assert error.message
    assert not tried.starts


def test_queues_and_quotas_take_the_right_to_create_them() -> None:
    text = json.dumps({"kind": "List", "items": [quota(9), queue(), job()]}).encode()
    rights = rights_to_create(read_manifest(text, is_json=True, namespace="ns"))
    assert [each.resource for each in rights] == ["elasticquotas", "queues", "jobs"]


def test_a_job_that_is_twice_in_a_manifest_is_one() -> None:
    first, second = submit(SmallCluster(), job("same", cpu=3), job("same", cpu=3))
    assert (first.exists, first.starts) == (False, True)
    assert (second.exists, second.starts) == (True, None)


def test_another_kind_of_the_same_name_is_another_job() -> None:
    cluster = SmallCluster()
    cluster.wait("new", cpu=9)  # of no job
    (tried,) = submit(cluster, job())
    assert (tried.exists, tried.starts) == (False, True)
    assert tried.unit is not None
    assert tried.unit.metadata.name != "new"


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
