"""The rules of the observer, each with an example that keeps it and one that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.demo.account_book import AccountBook
from tests.demo.told_events import GPU, Story, pod_body, unit_body


def judge(story: Story) -> tuple[AccountBook, list[str]]:
    book = AccountBook()
    return book, [wrong for seen in story.reported for wrong in book.apply(seen)]


def reported(add: Callable[[Story], object]) -> list[str]:
    story = Story()
    story.quota("root", 6)
    story.quota("team", 4, parent="root")
    story.quota("other", 4, parent="root")
    add(story)
    return judge(story)[1]


def test_a_correct_life_has_no_complaints() -> None:
    story = Story()
    story.quota("team", 2)
    for name in ("a", "b", "c"):
        story.whole_life(name, gpus=2)
    book, wrong = judge(story)
    assert wrong == []
    assert list(book.complaints_at_the_end(3)) == []
    assert book.used == {"team": {GPU: 0}}


def over_max(story: Story) -> None:
    story.unit("a", "Dequeued", 3)
    story.unit("b", "Dequeued", 2)


def over_parent(story: Story) -> None:
    story.unit("a", "Dequeued", 4)
    story.unit("b", "Dequeued", 3, quota="other")


def over_by_pods(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Dequeued", 3)
    story.job("a", suspend=False)
    story.pod("a", gpus=3)
    story.pod("a", gpus=3, name="one-too-many")


def over_by_living_pods(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Dequeued", 3)
    story.job("a", suspend=False)
    story.pod("a", gpus=3)
    story.unit("a", "TimeoutBackoff", 3)
    story.unit("b", "Dequeued", 3)


def reserved_counts(story: Story) -> None:
    story.unit("a", "Reserved", 3)
    story.unit("b", "Dequeued", 3)


@pytest.mark.parametrize(
    ("add", "want"),
    [
        pytest.param(over_max, "team/b takes quota team to 5", id="max"),
        pytest.param(over_parent, "team/b takes quota root to 7", id="max of the parent"),
        pytest.param(over_by_pods, "team/a takes quota team to 6", id="more pods than admitted"),
        pytest.param(over_by_living_pods, "takes quota team to 6", id="pods that remain"),
        pytest.param(reserved_counts, "takes quota team to 6", id="reserved is charged"),
    ],
)
def test_usage_above_max_is_detected(add: Callable[[Story], object], want: str) -> None:
    wrong = reported(add)
    assert len(wrong) == 1
    assert want in wrong[0]


def test_a_lowered_quota_is_allowed_but_further_usage_is_not() -> None:
    def lower(story: Story) -> None:
        story.unit("a", "Dequeued", 4)
        story.quota("team", 2, parent="root")
        story.unit("a", "Running", 4)

    def give_some_back(story: Story) -> None:
        story.unit("b", "Dequeued", 1)
        story.unit("a", "Dequeued", 3)
        story.quota("team", 1, parent="root")
        story.unit("b", "Succeed", 1)

    def take_more(story: Story) -> None:
        lower(story)
        story.unit("b", "Dequeued", 1)

    assert reported(lower) == []
    assert reported(give_some_back) == []
    assert "takes quota team to 5" in reported(take_more)[0]


def test_reclaimed_pods_are_released() -> None:
    def give_back(story: Story) -> None:
        back = [{"name": "main", "count": 1}]
        story.add("queueunits", unit_body("a", "Running", 4, reclaimable=back))
        story.unit("b", "Dequeued", 4)

    assert reported(give_back) == []


def pod_of_a_waiting_unit(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Enqueued")
    story.pod("a", "Pending")


def pod_without_unit(story: Story) -> None:
    story.job("a", suspend=True)
    story.pod("a", "Pending")


def released_while_waiting(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Enqueued")
    story.job("a", suspend=False)


def released_twice(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Dequeued")
    for suspend in (False, True, False):
        story.job("a", suspend=suspend)


def second_unit(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Enqueued")
    story.add("queueunits", unit_body("a", "Enqueued", 1, uid="another"))


def vanished_unit(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Running")
    story.add("queueunits", unit_body("a", "Running", 1), is_gone=True)


@pytest.mark.parametrize(
    ("add", "want"),
    [
        pytest.param(pod_of_a_waiting_unit, "before admission: team/a is Enqueued", id="a pod"),
        pytest.param(pod_without_unit, "team/a has no queue unit", id="a pod, no unit"),
        pytest.param(released_while_waiting, "without being admitted", id="a release"),
        pytest.param(released_twice, "released a second time", id="two releases"),
        pytest.param(second_unit, "a second queue unit", id="two units"),
        pytest.param(vanished_unit, "vanished while Running", id="a deleted unit"),
    ],
)
def test_a_wrong_order_is_detected(add: Callable[[Story], object], want: str) -> None:
    wrong = reported(add)
    assert len(wrong) == 1
    assert want in wrong[0]


def test_an_eviction_allows_a_second_release() -> None:
    def evict(story: Story) -> None:
        story.job("a", suspend=True)
        for _ in range(2):
            story.unit("a", "Dequeued")
            story.job("a", suspend=False)
            story.job("a", suspend=True)
            story.unit("a", "TimeoutBackoff")

    assert reported(evict) == []


def test_a_pod_without_an_owner_is_ignored() -> None:
    foreign = pod_body("a", "Running", 4, name="foreign")
    del foreign["metadata"]["ownerReferences"]
    assert reported(lambda story: story.add("pods", foreign)) == []


def never_completed(story: Story) -> None:
    story.job("a", suspend=True)
    story.unit("a", "Enqueued")


def unit_left_behind(story: Story) -> None:
    story.whole_life("a")
    story.unit("a", "Running")


def too_few_pods(story: Story) -> None:
    story.job("a", suspend=True, pods=2)
    story.unit("a", "Dequeued")
    story.job("a", suspend=False, pods=2)
    story.add(
        "jobs",
        {
            "metadata": {"namespace": "team", "name": "a", "uid": "job-a"},
            "spec": {"suspend": False, "completions": 2},
            "status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1},
        },
    )
    story.unit("a", "Succeed")


@pytest.mark.parametrize(
    ("add", "want"),
    [
        pytest.param(never_completed, "team/a completed 0 times", id="a job that waits"),
        pytest.param(unit_left_behind, "is Running, not Succeed", id="a unit that does not end"),
        pytest.param(unit_left_behind, "still charged", id="its charge"),
        pytest.param(too_few_pods, "1 of 2 pods succeeded", id="a pod that never ran"),
        pytest.param(lambda _: None, "1 jobs were submitted, 0 were seen", id="a lost job"),
    ],
)
def test_what_is_missing_at_the_end_is_reported(add: Callable[[Story], object], want: str) -> None:
    story = Story()
    add(story)
    book, _ = judge(story)
    assert any(want in complaint for complaint in book.complaints_at_the_end(1))
