"""The status write that admits a unit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.unit_writes.admission_patches import build_dequeue_patch
from shared_api.objects.meta import Timestamp
from shared_api.queue_unit_phases import Phase
from shared_api.testing.object_builders import pod_set
from tests.object_states import condition_of
from tests.queue_scheduler.shell_kit import ShellKit


def test_the_patch_is_guarded_and_grants_every_pod_set(kit: ShellKit) -> None:
    sets = [pod_set("head", 1), pod_set("workers", 2)]
    unit = kit.add_unit("a", podSet=sets)
    patch = build_dequeue_patch(unit, kit.dequeue(), Timestamp("2026-11-01T10:00:00Z"))
    assert patch["metadata"] == {"resourceVersion": unit.metadata.resource_version}
    assert patch["status"]["admissions"] == [
        {"name": "head", "replicas": 1, "running": 0, "resources": {"cpu": "1"}},
        {"name": "workers", "replicas": 2, "running": 0, "resources": {"cpu": "2"}},
    ]
    assert patch["status"]["message"] == "admitted through queue team, charged to quota team"


def test_the_patch_says_that_no_governed_resource_is_requested(kit: ShellKit) -> None:
    unit = kit.add_unit("a")
    decision = replace(kit.dequeue(), unrequested=("memory", "nvidia.com/gpu"))
    patch = build_dequeue_patch(unit, decision, Timestamp("2026-11-01T10:00:00Z"))
    assert condition_of(patch, "QuotaReserved") == {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "NothingRequested",
        "message": "It requests no memory or nvidia.com/gpu, which quota team governs: nothing of"
        " the quota is reserved for it",
        "lastTransitionTime": "2026-11-01T10:00:00Z",
    }
    assert condition_of(patch, "Admitted")["status"] == "True"


@pytest.mark.parametrize("waits", [True, False])
def test_the_patch_says_that_the_queue_waits_for_the_pods(kit: ShellKit, waits: bool) -> None:
    unit = kit.add_unit("a")
    decision = replace(kit.dequeue(), is_waited_for=waits)
    patch = build_dequeue_patch(unit, decision, Timestamp("2026-11-01T10:00:00Z"))
    found = condition_of(patch, "PodsReady")
    assert found == (
        {
            "type": "PodsReady",
            "status": "False",
            "reason": "WaitForPodsRunning",
            "message": "queue team waits until its pods run",
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        }
        if waits
        else {}
    )


def test_in_strict_mode_the_patch_asks_for_nodes_with_the_number_of_the_attempt(
    kit: ShellKit,
) -> None:
    unit = kit.add_unit("a")
    unit = replace(unit, status=replace(unit.status, attempts=1))
    decision = replace(kit.dequeue(), to=Phase.SCHED_READY)
    patch = build_dequeue_patch(unit, decision, Timestamp("2026-11-01T10:00:00Z"))
    status = patch["status"]
    assert (status["phase"], status["attempts"]) == ("SchedReady", 2)
    assert status["message"] == "Waiting scheduler to schedule this queueUnit"
    assert status["admissions"][0]["replicas"] == 1
    assert condition_of(patch, "Admitted")["status"] == "True"
