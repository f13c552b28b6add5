"""A unit says which other quotas its living pods are charged to, by their labels."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.pods_elsewhere import MAX_NAMES, SWEEP_SECONDS, PodsElsewhere
from shared_api.objects.pod import Pod
from tests.object_states import condition_of
from tests.properties.engine_kit import build_pod
from tests.queue_scheduler.shell_kit import ShellKit
from tests.queue_scheduler.unit_news import access_of
from tests.stepped_host import exhaust

LATER = 11 * 3600
"""Second of the day: after the units of these tests were created."""


class Moves:
    """A unit of two pods that run in the quota team, and the controller."""

    def __init__(self) -> None:
        self.kit = kit = ShellKit()
        for name in ("team", "other"):
            kit.add_quota(name, cpu=4)
        kit.add_unit("a")
        self.restart()
        self.write(
            {
                "phase": "Running",
                "admissions": [
                    {"name": "main", "replicas": 2, "running": 2, "resources": {"cpu": "2"}}
                ],
            }
        )
        for name in ("p", "q"):
            self.label(name, "team")

    def restart(self) -> None:
        self.reported = PodsElsewhere(access_of(self.kit), self.kit.clock)

    def label(self, name: str, quota: str) -> None:
        self.apply(
            build_pod(name, unit="default/a", namespace="default", quota=quota, created=LATER)
        )

    def apply(self, pod: Pod) -> None:
        self.kit.shared.apply(Engine.on_pod, pod)

    def write(self, status: dict[str, Any]) -> None:
        patch = {"namespace": "default", "subresource": "status"}
        self.kit.direct.patch("queueunits", "a", {"status": status}, **patch)
        self.reported.on_queue_unit(None, self.kit.learn("a"))

    def work(self) -> None:
        self.kit.clock.advance(SWEEP_SECONDS)
        for _ in range(2):
            exhaust(self.reported.step)
            self.kit.send()

    def says(self) -> tuple[str, str]:
        found = condition_of(self.kit.unit("a"), "PodsElsewhere")
        return found.get("status", ""), found.get("reason", "")


@pytest.fixture
def moves() -> Moves:
    return Moves()


def test_a_moved_pod_is_told_on_its_unit_until_it_is_back(moves: Moves) -> None:
    moves.work()
    assert moves.says() == ("", ""), "nothing has moved"
    moves.label("p", "other")
    moves.work()
    assert moves.says() == ("True", "PodsElsewhere")
    (event,) = moves.kit.reported
    assert (event.kind, event.key, event.reason) == ("QueueUnit", "default/a", "PodsElsewhere")
    assert "name quota other: " in event.note
    assert "Quota team stays charged" in event.note
    assert (moves.kit.used("team"), moves.kit.used("other")) == (2000, 1000)
    writes = moves.kit.writes()
    moves.label("q", "other")
    moves.work()
    assert moves.kit.writes() == writes, "it names quotas, and no numbers that move"
    for name in ("p", "q"):
        moves.label(name, "team")
    moves.work()
    assert moves.says() == ("False", "NoPodsElsewhere")
    assert (moves.kit.used("team"), moves.kit.used("other")) == (2000, 0)
    assert len(moves.kit.reported) == 1


def test_it_is_over_when_the_unit_gives_its_quota_back(moves: Moves) -> None:
    moves.label("p", "other")
    moves.work()
    moves.write({"phase": "Enqueued", "admissions": []})
    moves.work()
    assert moves.says() == ("False", "NoPodsElsewhere")


def test_whoever_leads_later_knows_it(moves: Moves) -> None:
    moves.kit.leads = False
    moves.label("p", "other")
    moves.work()
    assert moves.says() == ("", "")
    moves.kit.leads = True
    moves.restart()
    moves.work()
    assert moves.says() == ("True", "PodsElsewhere")


def test_pods_that_moved_before_the_admission_are_told_with_it() -> None:
    moves = Moves()
    moves.write({"phase": "Enqueued", "admissions": []})
    moves.label("p", "other")
    moves.work()
    assert moves.says() == ("", ""), "a unit that waits has no quota that it could leave"
    moves.write({"phase": "Running", "admissions": [{"name": "main", "replicas": 2, "running": 2}]})
    moves.work()
    assert moves.says() == ("True", "PodsElsewhere")


def test_a_unit_that_is_deleted_is_not_written(moves: Moves) -> None:
    moves.label("p", "other")
    moves.kit.shared.apply(Engine.on_queue_unit_gone, moves.kit.learn("a"))
    writes = moves.kit.writes()
    moves.work()
    assert moves.kit.writes() == writes


def test_a_message_names_few_quotas(moves: Moves) -> None:
    names = [f"q{number}" for number in range(MAX_NAMES + 2)]
    for name in names:
        moves.kit.add_quota(name, cpu=1)
        moves.label(f"of-{name}", name)
    moves.work()
    (event,) = moves.kit.reported
    assert f"name quotas {', '.join(names[:MAX_NAMES])} and others: " in event.note
