"""Users' mistakes, and what a job waits for, are shown by `kubectl describe job`.

A job whose pods request nothing that their quota governs is warned, or refused by setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.queue_world import MERGE, QUOTA_LABEL, QUOTAS, QueueWorld, reason_of
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, stays, until

CONFIG = """\
apiVersion: scheduling.k8s.io/v1
kind: KoordQueueConfiguration
pluginConfigs:
  ElasticQuotaV2: {mode: max, requiredRequests: [memory]}
"""
"""Quotas of these tests govern cpu alone, except `strict` and `line`."""


@pytest.fixture(scope="module")
def world(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueueWorld]:
    folder = tmp_path_factory.mktemp("config")
    controllers, scheduler = folder / "controllers.yaml", folder / "scheduler.yaml"
    controllers.write_text("reportUnqueuedJobs: true\n", encoding="utf-8")
    scheduler.write_text(CONFIG, encoding="utf-8")
    with QueueWorld(controlplane_binaries) as world:
        for name in ("gold", "silver", "amber", "strict", "line"):
            world.create_quota(name, cpu_max=2)
        world.plane.kubectl("create", "namespace", "quiet")
        world.start_scheduler(f"--config={scheduler}")
        world.start_controllers(f"--config={controllers}")
        yield world


def shown(world: QueueWorld, name: str) -> str:
    return world.plane.kubectl("describe", "job", name)


def test_a_misspelled_quota_is_named_on_an_unmanaged_job(world: QueueWorld) -> None:
    misspelled = QUOTA_LABEL.replace("name", "nmae")
    world.create_job("misspelled", "", labels={misspelled: "gold"})
    until(lambda: "KeyWithoutEffect" in world.event_notes("misspelled"))
    text = shown(world, "misspelled")
    assert f"Did you mean {QUOTA_LABEL}?" in text
    assert "no queue will resume it" in text


def test_a_misspelled_setting_is_named_on_a_queued_job(world: QueueWorld) -> None:
    annotations = {"koord-queue/runing-timeout": "10m"}
    world.create_job("set", "amber", cpu="1", annotations=annotations)
    until(lambda: "KeyWithoutEffect" in world.event_notes("set"))
    assert "Did you mean koord-queue/running-timeout?" in shown(world, "set")


def test_a_job_that_waits_names_its_unit_and_its_queue(world: QueueWorld) -> None:
    world.create_job("first", "silver", cpu="2", run_seconds=600)
    until(lambda: not world.job("first")["spec"]["suspend"])
    world.create_job("second", "silver", cpu="2")
    note = until(lambda: world.event_notes("second").get("Queued", ""))
    assert note.startswith("Queue unit second waits in queue silver: ")
    assert "Queued" not in world.event_notes("first")


def test_unmanaged_jobs_among_queued_ones_are_warned_where_enabled(world: QueueWorld) -> None:
    world.create_job("beside", "", suspend=False)
    until(lambda: "NotQueued" in world.event_notes("beside"))
    assert "names no queue or quota" in shown(world, "beside")
    world.create_job("alone", "", suspend=False, namespace="quiet")
    stays(partial(_is_told_nothing, world, "alone"), STILL_SECONDS)


def _is_told_nothing(world: QueueWorld, name: str) -> bool:
    return world.event_notes(name) == {}


# --- what its pods do not request -----------------------------------------------------------------


def without_requests(**requests: str) -> dict[str, Any]:
    """Return a pod's spec whose container requests only these."""
    return {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}


def govern(world: QueueWorld, quota: str, **maximum: str | None) -> None:
    path = f"{QUOTAS.format('default')}/{quota}"
    world.api.request("PATCH", path, {"spec": {"max": maximum}}, content_type=MERGE)


def test_a_job_that_uses_nothing_of_its_quota_is_warned(world: QueueWorld) -> None:
    world.create_job("free", "gold", pod_spec=without_requests(memory="1Gi"))
    note = until(lambda: world.event_notes("free").get("NothingRequested", ""))
    said = "It requests no cpu, which quota gold governs: nothing of the quota is reserved for it"
    assert note.startswith(f"{said}. To have its pods counted, set resources.requests")
    assert not world.job("free")["spec"]["suspend"]
    reserved = condition_of(world.unit("free"), "QuotaReserved")
    assert (reserved["status"], reserved["reason"]) == ("True", "NothingRequested")
    assert said in world.plane.kubectl("describe", "job", "free")


def test_a_job_that_uses_its_quota_is_not_warned(world: QueueWorld) -> None:
    world.create_job("pays", "gold", cpu="1")
    until(lambda: not world.job("pays")["spec"]["suspend"])
    stays(lambda: "NothingRequested" not in world.event_notes("pays"), STILL_SECONDS)
    assert condition_of(world.unit("pays"), "QuotaReserved")["reason"] == "QuotaReserved"


def test_a_job_without_a_required_request_waits_and_holds_up_no_other(world: QueueWorld) -> None:
    govern(world, "strict", memory="4Gi")
    world.create_job("lacks", "strict", cpu="1")
    until(partial(_waits_for, world, "lacks", "RequestsMissing"))
    words = "pod set lacks requests no memory, which quota strict asks of every pod"
    way_out = f"{words}. Recreate the job with them in resources.requests of its containers"
    until(lambda: way_out in world.plane.kubectl("describe", "job", "lacks"))
    assert condition_of(world.unit("lacks"), "QuotaReserved")["message"] == words
    both = without_requests(cpu="1", memory="1Gi")
    world.create_job("has", "strict", pod_spec=both)
    until(lambda: not world.job("has")["spec"]["suspend"])
    assert world.job("lacks")["spec"]["suspend"]


def test_a_job_starts_when_its_quota_governs_the_resource_no_longer(world: QueueWorld) -> None:
    govern(world, "line", memory="4Gi")
    world.create_job("later", "line", cpu="1")
    until(partial(_waits_for, world, "later", "RequestsMissing"))
    govern(world, "line", memory=None)
    until(lambda: not world.job("later")["spec"]["suspend"])


def _waits_for(world: QueueWorld, name: str, reason: str) -> bool:
    return reason_of(world.unit(name)) == reason
