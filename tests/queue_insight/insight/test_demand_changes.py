"""How much less a unit may ask for to start."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.pod import Container, Pod, ResourceRequirements
from shared_api.objects.queue_unit import ConsumerReference
from tests.properties.engine_kit import build_pod, build_queue, build_quota, build_unit
from tests.queue_insight.insight.changes_kit import SmallCluster, build_node, of_kind, the


def test_the_request_of_a_pod_is_lowered_to_what_fits() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=2)
    cluster.wait("new", pods=(("main", 3, 1),))
    change = the(cluster.changes("new"), "request")
    want = "Make the job again so that each pod of main requests at most 666m of cpu."
    assert (change.description, change.minimal, change.patches) == (want, True, ())


def test_the_total_of_a_unit_without_pods_is_patched() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=2)
    cluster.wait("new", cpu=3)
    change = the(cluster.changes("new"), "request")
    assert change.description == "Patch it so that the unit requests at most 2 of cpu."
    (patch,) = change.patches
    assert (patch.kind, patch.name, patch.patch) == (
        "QueueUnit",
        "new",
        {"spec": {"request": {"cpu": "2"}}},
    )


def test_a_unit_may_have_fewer_pods() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=2)
    cluster.wait("new", pods=(("main", 5, 1),))
    change = the(cluster.changes("new"), "count")
    assert change.description == "Make the job again with 2 pods of main; it has 5."
    assert (change.minimal, change.patches) == (True, ())


def test_the_parallelism_of_a_job_is_patched() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=2)
    unit = build_unit("new", "a", pods=(("main", 5, 1),))
    job = ConsumerReference(api_version="batch/v1", kind="Job", name="train")
    assert cluster.apply(replace(unit, spec=replace(unit.spec, consumer_ref=job))) == []
    change = the(cluster.changes("new"), "count")
    assert change.description == "Set the parallelism of the job to 2 pods of main; it has 5."
    (patch,) = change.patches
    assert (patch.api_version, patch.kind, patch.namespace, patch.name) == (
        *("batch/v1", "Job"),
        *("ns", "train"),
    )
    assert patch.patch == {"spec": {"parallelism": 2}}


def test_a_unit_that_needs_its_least_is_asked_about_its_least() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=2)
    cluster.wait("new", pods=(("main", 6, 1, 4),))
    assert the(cluster.changes("new"), "count").description.startswith("Make the job again with 2 ")


def test_less_does_not_help_a_unit_that_waits_for_its_turn() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=2)
    cluster.wait("head", cpu=4, created=1)
    cluster.wait("new", cpu=1, created=2)
    assert of_kind(cluster.changes("new"), "request") == []


def test_a_unit_may_have_to_request_nothing() -> None:
    cluster = SmallCluster(build_node("node", cpu=9), mode=QuotaMode.RUNTIME)
    cluster.workers.wake(cluster.engine.on_pod(build_pod("bare", cpu=4, quota="a")))
    cluster.wait("new", cpu=2)
    change = the(cluster.changes("new"), "request")
    assert (change.description, change.minimal) == (
        "Nothing is left for it now: it would start only if the unit requested no cpu.",
        True,
    )
    assert not change.practical


def test_nothing_is_said_of_requesting_nothing_where_waiting_is_enough() -> None:
    cluster = SmallCluster(cpu=4)
    cluster.run("old", cpu=4)
    cluster.wait("new", cpu=2)
    assert of_kind(cluster.changes("new"), "request") == []


def test_a_unit_that_would_have_to_do_without_one_resource_is_not_advised_to() -> None:
    quota = build_quota("a", cpu=4)
    limits = {"cpu": "4", "nvidia.com/gpu": "2"}
    cluster = SmallCluster(replace(quota, spec=replace(quota.spec, max=dict(limits))))
    cluster.apply(build_node("node", cpu=9))
    unit = build_unit("new", "a")
    asked: dict[str, Any] = {"cpu": "5", "nvidia.com/gpu": "2"}
    for_gpus = build_pod("bare", cpu=1, unit="ns/gone")
    cluster.workers.wake(cluster.engine.on_pod(with_gpus(for_gpus, 2)))
    assert cluster.apply(replace(unit, spec=replace(unit.spec, request=asked))) == []
    change = the(cluster.changes("new"), "request")
    assert not change.practical
    assert "at most 3 of cpu, no nvidia.com/gpu" in change.description


def with_gpus(pod: Pod, gpus: int) -> Pod:
    requests: dict[str, Any] = {"cpu": "1", "nvidia.com/gpu": gpus}
    container = Container(resources=ResourceRequirements(requests=requests))
    return replace(pod, spec=replace(pod.spec, containers=(container,)))
