"""Whether Kueue is served, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queue_controllers.configuration import Configuration, read_configuration
from queue_controllers.decision.job_settings import LeaveToKueue
from queue_controllers.watches.kueue_presence import LOOK_SECONDS, KueuePresence
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.sample_jobs import KUEUE_WORKLOADS, crd
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

LABEL = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}
CRD = KUEUE_WORKLOADS["metadata"]["name"]
PATIENCE = 2 * LOOK_SECONDS + 2.0


def make_kueues(world: World) -> None:
    world.job(suspend=False)
    world.patch_job(LABEL)


def test_a_label_of_kueue_where_there_is_none_changes_nothing(world: World) -> None:
    world.direct.create(crd("admissionchecks"))  # of Kueue's group, and used here too
    world.start()
    make_kueues(world)
    world.settle()
    assert world.units() == ["main"]
    assert world.is_suspended()


def test_a_job_of_kueue_is_left_alone(world: World) -> None:
    world.direct.create(KUEUE_WORKLOADS)
    world.start()
    make_kueues(world)
    world.settle()
    assert world.units() == []
    assert not world.is_suspended()


def test_kueue_is_installed_and_removed(world: World) -> None:
    world.start()
    make_kueues(world)
    world.settle()
    world.direct.create(KUEUE_WORKLOADS)
    world.settle(PATIENCE)
    assert world.units() == []
    assert world.is_suspended(), "Kueue keeps it unchanged"
    world.direct.delete("customresourcedefinitions", CRD)
    world.settle(LOOK_SECONDS)
    assert world.units() == [], "a restarted server may not know its kinds for a moment"
    world.settle(PATIENCE)
    assert world.units() == ["main"]


@pytest.mark.parametrize("value", [True, False])
def test_a_setting_decides_it(world: World, *, value: bool) -> None:
    if not value:
        world.direct.create(KUEUE_WORKLOADS)
    world.start(configuration=read_configuration({"leaveToKueue": value}, {"job"}))
    make_kueues(world)
    world.settle()
    assert (world.units() == []) is value


def test_the_flag_precedes_the_file(world: World) -> None:
    configuration: Configuration = read_configuration({"leaveToKueue": True}, {"job"})
    world.start("--leave-to-kueue=false", configuration=configuration)
    make_kueues(world)
    world.settle()
    assert world.units() == ["main"]


def test_nothing_is_decided_before_it_is_known(world: World) -> None:
    world.server.faults.fail(
        503, times=EVERY_TIME, match=Match(when=lambda info: "kueue.x-k8s.io" in info.path)
    )
    make_kueues(world)
    world.start()
    world.settle(3.0)
    assert writes_to(world.server) == []
    world.server.faults.clear()
    world.settle(PATIENCE)
    assert world.units() == ["main"]


def test_what_was_found_counts_while_the_server_cannot_answer(world: World) -> None:
    world.direct.create(KUEUE_WORKLOADS)
    world.start()
    seen: list[bool] = []
    presence = KueuePresence(
        world.host.client, world.clock, LeaveToKueue.AUTO, on_changed=lambda: seen.append(True)
    )
    presence.step()
    world.server.faults.fail(503, times=EVERY_TIME)
    for _ in range(5):
        world.clock.advance(LOOK_SECONDS)
        presence.step()
    assert presence.leaves_jobs()
    assert seen == []
