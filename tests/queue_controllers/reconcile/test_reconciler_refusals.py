"""Writes that the API server refuses, over the fake one: reports, and what continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queue_controllers.configuration import read_configuration
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_controllers.controllers_world import evict_after_release

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

JOBS = Match(plural="jobs", verb="patch")
STAMPED = "koord-queue/stamped-quota"


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_job_that_may_not_be_resumed_reports_it(world: World, status: int) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.faults.fail(status, times=EVERY_TIME, match=JOBS, message="policy says no")
    world.admit()
    world.settle(5.0)
    assert world.notes_on_jobs() == {
        "ReleaseRefused": "It is admitted, and cannot be resumed: policy says no"
    }
    world.server.faults.clear()
    world.settle(20.0)
    assert not world.is_suspended()


def test_a_job_that_may_not_be_resumed_is_evicted_when_its_time_is_over(
    world: World,
) -> None:
    world.start(configuration=read_configuration({"job": {"runningTimeout": "30s"}}, {"job"}))
    world.job()
    world.settle()
    world.server.faults.fail(403, times=EVERY_TIME, match=JOBS, message="policy says no")
    world.admit()
    world.settle(25.0)
    assert world.phase() == "Dequeued"
    world.settle(30.0)
    assert world.phase() == "TimeoutBackoff"


@pytest.mark.parametrize(("conflicts", "fails"), [(2, False), (9, True)])
def test_conflicts_without_end_count_as_errors(
    world: World, conflicts: int, *, fails: bool
) -> None:
    """A webhook may answer with them; a single one mostly means a newer version."""
    world.start()
    world.job()
    world.settle()
    world.server.faults.fail(409, times=conflicts, match=JOBS, message="no")
    world.admit()
    world.settle(120.0)
    assert not world.is_suspended()
    metric = "controller_runtime_reconcile_errors_total"
    count = world.host.metrics.registry.get_sample_value(metric, {"controller": "job"})
    assert bool(count) is fails


def test_a_start_that_is_late_because_of_a_restart_is_no_refusal(world: World) -> None:
    configuration = read_configuration({"job": {"runningTimeout": "30s"}}, {"job"})
    world.start(configuration=configuration)
    world.job()
    world.settle()
    world.admit()
    world.clock.advance(60.0)
    world.start(configuration=configuration)
    assert not world.is_suspended()


def test_a_job_that_may_not_be_suspended_reports_it(world: World) -> None:
    world.start()
    world.server.faults.fail(403, times=EVERY_TIME, match=JOBS, message="policy says no")
    world.job(suspend=False)
    world.settle(5.0)
    assert world.notes_on_jobs() == {"SuspendRefused": "It cannot be suspended: policy says no"}


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_a_job_whose_unit_may_not_be_written_reports_it(world: World, verb: str) -> None:
    world.start()
    units = Match(plural="queueunits", verb=verb)
    world.server.faults.fail(403, times=EVERY_TIME, match=units, message="policy says no")
    world.job()
    world.settle()
    world.patch_job({"metadata": {"annotations": {"scheduling.x-k8s.io/priority": "7"}}})
    world.settle(5.0)
    assert world.notes_on_jobs().keys() == {"UnitRefused"}


def stamps(world: World) -> dict[str, str]:
    """Return the annotations of the job's pod template."""
    template = world.get_job()["spec"]["template"]
    return dict(template.get("metadata", {}).get("annotations", {}))


def test_resumed_without_annotations_it_warns_about_the_charges(
    world: World,
) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.faults.fail(422, times=1, match=JOBS, message="field is immutable")
    world.admit()
    world.settle(5.0)
    assert not world.is_suspended()
    assert stamps(world) == {}
    assert world.notes_on_jobs().keys() == {"NotStamped"}
    evict_after_release(world)
    world.admit()
    world.settle()
    assert stamps(world)[STAMPED] == "gold", "the next release tries it again"


def test_refused_for_another_reason_it_is_resumed_with_annotations(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.faults.fail(422, times=4, match=JOBS, message="not in office hours")
    world.admit()
    world.settle(20.0)
    assert not world.is_suspended()
    assert stamps(world)[STAMPED] == "gold"


def test_a_unit_that_may_not_be_deleted_does_not_block_the_next_job(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.faults.fail(403, times=EVERY_TIME, match=Match(verb="delete"))
    world.direct.delete("jobs", "main", "team", propagation="Orphan")
    world.settle(8.0)
    job = world.job()
    world.settle(8.0)
    own = f"main-{job['metadata']['uid'].replace('-', '')[:8]}"
    assert sorted(world.units()) == ["main", own]
    world.admit(own)
    world.settle(2.0)
    assert not world.is_suspended()
    world.server.faults.clear()
    world.settle(60.0)
    assert world.units() == [own]
