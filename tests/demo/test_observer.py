"""The order of arrival does not matter, the order of events does."""

from __future__ import annotations

import random

from tests.demo.observer import Observer
from tests.demo.told_events import Story


def busy_story() -> Story:
    """Return events of jobs that closely follow each other in a quota for one job."""
    story = Story()
    story.quota("team", 2)
    for name in ("a", "b", "c", "d"):
        story.whole_life(name, gpus=2)
    return story


def test_events_of_several_watches_are_sorted() -> None:
    story = busy_story()
    for seed in range(20):
        mixed = list(story.reported)
        random.Random(seed).shuffle(mixed)
        observer = Observer()
        for seen in mixed:
            observer.add(seen)
        observer.settle_all()
        assert observer.violations == []


def test_a_late_event_changes_the_result() -> None:
    story = Story()
    story.quota("team", 2)
    story.unit("a", "Dequeued", 2)
    story.unit("a", "Succeed", 2)
    story.unit("b", "Dequeued", 2)
    quota, taken, freed, next_taken = story.reported
    observer = Observer(hold_seconds=0)
    for seen in (quota, taken, next_taken):
        observer.add(seen)
    observer.settle(now=10)
    assert len(observer.violations) == 1
    observer.add(freed)
    observer.settle(now=10)
    assert observer.violations == []
    assert observer.late_count == 1


def test_a_late_violation_is_found_too() -> None:
    story = Story()
    story.quota("team", 2)
    story.unit("a", "Dequeued", 2)
    story.unit("b", "Dequeued", 2)
    story.unit("b", "Succeed", 2)
    quota, first, fault, end = story.reported
    observer = Observer(hold_seconds=0)
    for seen in (quota, first, end):
        observer.add(seen)
    observer.settle(now=10)
    observer.add(fault)
    observer.settle_all()
    assert len(observer.violations) == 1


def test_recent_events_are_held_back_with_all_later_versions() -> None:
    story = Story()
    story.quota("team", 1)
    story.unit("a", "Dequeued", 2)
    observer = Observer(hold_seconds=1)
    for seen in reversed(story.reported):
        observer.add(seen)
    observer.settle(now=1.5)  # the quota is of second 1, the unit of second 2
    assert observer.violations == []
    observer.settle(now=2.0)
    assert observer.violations == []
    observer.settle(now=3.0)
    assert len(observer.violations) == 1
