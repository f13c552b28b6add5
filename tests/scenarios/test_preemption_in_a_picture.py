"""The story of docs/concepts/preemption.md happens with what the page says to type."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.queue_scheduler.scheduler_world import running_world
from tests.scenarios.preemption_kit import Stage
from tests.tidy.source_tree import ROOT

PAGE = ROOT / "docs/concepts/preemption.md"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with running_world() as world:
        yield Stage(world)


def annotations_to_type() -> dict[str, str]:
    """Return what the first command of the page sets on the queue."""
    before_the_story, _, _ = PAGE.read_text(encoding="utf-8").partition("## ")
    words = before_the_story.split()
    return dict(word.split("=", 1) for word in words if word.startswith("koord-queue/"))


def test_the_newest_unit_of_the_lowest_priority_makes_room_and_waits_again(stage: Stage) -> None:
    stage.open(6, annotations=annotations_to_type())
    for name, priority in (("steady", 7), ("sweep-1", 5), ("sweep-2", 5)):
        stage.add(name, priority, cpu=2)
        stage.run(name)
        stage.world.settle(5.0)
    stage.add("urgent", 9, cpu=2)
    assert stage.evicted("sweep-2") == ("True", "Preempted")
    assert [stage.evicted(each)[0] for each in ("steady", "sweep-1")] == ["", ""]
    assert stage.phase("urgent") == "Enqueued", "the pods of sweep-2 are still there"
    stage.stop("sweep-2")
    assert (stage.phase("urgent"), stage.phase("sweep-2")) == ("Dequeued", "Enqueued")
