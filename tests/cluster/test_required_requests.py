"""Jobs whose pods request nothing that their quota governs: a warning, or a refusal by setting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.queue_world import MERGE, QUOTAS, QueueWorld, reason_of
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, stays, until

CONFIG = """\
apiVersion: scheduling.k8s.io/v1
kind: KoordQueueConfiguration
pluginConfigs:
  ElasticQuotaV2: {mode: max, requiredRequests: [memory]}
"""
"""Quotas of these tests govern cpu alone, except one."""


@pytest.fixture(scope="module")
def world(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueueWorld]:
    config = tmp_path_factory.mktemp("config") / "scheduler.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    with QueueWorld(controlplane_binaries) as world:
        for name in ("gold", "strict", "line"):
            world.create_quota(name, cpu_max=2)
        world.start_scheduler(f"--config={config}")
        world.start_controllers()
        yield world


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
