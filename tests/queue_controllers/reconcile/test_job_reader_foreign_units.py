"""Units that name a job and must not count as its unit, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_api.fake_api_server.faults import EVERY_TIME, Match, RequestInfo
from tests.queue_controllers.controllers_world import make_unit
from tests.stepped_host import exhaust, writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

OURS = {
    "koord-queue/managed-by": "koord-queue-controllers",
    "koord-queue/job-created-at": "2026-11-01T10:00:00Z",
}


def test_a_unit_in_another_namespace_neither_releases_a_job_nor_takes_its_unit(
    world: World,
) -> None:
    world.start()
    world.job()
    world.settle()
    make_unit(world, consumer={"namespace": "team"}, namespace="other")
    world.admit(namespace="other")
    world.settle(10.0)
    assert world.is_suspended()
    assert world.phase() == "Enqueued"
    assert "annotations" not in world.get_unit(namespace="other")["metadata"]


def test_a_name_taken_by_a_unit_without_a_kind_is_not_retried_for_ever(
    world: World,
) -> None:
    job = world.job()
    make_unit(world, consumer={"kind": "", "uid": job["metadata"]["uid"]})
    world.start()
    world.settle(5.0)
    own = f"main-{job['metadata']['uid'].replace('-', '')[:8]}"
    assert sorted(world.units()) == ["main", own]
    assert writes_to(world.server) == ["create queueunits"]


def test_a_unit_stays_whose_job_is_missing_only_in_the_cache(world: World) -> None:
    controllers = world.start()
    for verb in ("list", "watch"):
        world.server.faults.fail(503, times=EVERY_TIME, match=Match(verb=verb, plural="jobs"))
    world.server.watches.drop(Match(plural="jobs"))
    job = world.job()
    make_unit(world, consumer={"uid": job["metadata"]["uid"]}, annotations=OURS)
    before = world.get_unit()["metadata"]["uid"]
    world.settle(4.0)

    def while_it_is_read(info: RequestInfo) -> bool:
        """Change the unit, with the event of its watch, before the response about the job."""
        if info.verb == "get" and info.plural == "jobs":
            world.admit()
            exhaust(controllers.steps()[2])
        return False

    world.server.faults.fail(500, times=1, match=Match(when=while_it_is_read))
    world.settle(4.0)
    assert world.get_unit()["metadata"]["uid"] == before
