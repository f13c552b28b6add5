"""The numbers of the table and the summary."""

from __future__ import annotations

import pytest

from tests.demo.cluster_picture import ClusterPicture, GpuUse
from tests.demo.load_plan import REAL_GPUS
from tests.demo.told_events import Story


def picture_of(story: Story) -> ClusterPicture:
    picture = ClusterPicture(REAL_GPUS)
    for seen in story.reported:
        picture.apply(seen)
    return picture


def test_a_row_counts_units_by_phase() -> None:
    story = Story()
    story.quota("team", 8)
    for name, phase in (("a", "Enqueued"), ("b", "Dequeued"), ("c", "Running"), ("d", "Succeed")):
        story.job(name, suspend=phase == "Enqueued")
        story.unit(name, phase, 2)
    (row,) = picture_of(story).rows(("team",), now=100.0)
    assert (row.waiting, row.running, row.done) == (1, 2, 1)
    assert (row.used, row.least, row.most) == (4, 1, 8)
    assert row.longest_wait_seconds == pytest.approx(98.0)  # job a was created at second 2


def test_a_job_has_its_times() -> None:
    story = Story()
    story.whole_life("a")
    picture = picture_of(story)
    job = picture.jobs["team", "a"]
    assert (job.submitted_at, job.released_at, job.ended_at) == (1.0, 4.0, 9.0)
    assert job.succeeded
    assert picture.is_everything_settled()


def test_it_is_not_settled_before_the_units_have_ended() -> None:
    story = Story()
    story.whole_life("a")
    last = story.reported.pop()
    picture = picture_of(story)
    assert not picture.is_everything_settled()
    picture.apply(last)
    assert picture.is_everything_settled()


def test_pods_without_a_node_are_counted_until_they_have_one() -> None:
    story = Story()
    for name in ("a", "b"):
        story.pod(name, "Pending")
        refused = {"type": "PodScheduled", "status": "False", "message": f"no node for {name}"}
        story.reported[-1].body["status"]["conditions"] = [refused]
    (row,) = picture_of(story).rows(("team",), now=9.0)
    assert (row.unplaced_pods, row.why_unplaced) == (2, "no node for a")
    story.pod("a", "Running")
    story.add("pods", story.reported[1].body, is_gone=True)
    (row,) = picture_of(story).rows(("team",), now=9.0)
    assert (row.unplaced_pods, row.why_unplaced) == (0, "")


def test_gpus_are_counted_while_pods_run() -> None:
    story = Story()
    story.whole_life("a", gpus=4)
    use = picture_of(story).use
    assert use.samples == [(6.0, 4), (8.0, 0)]
    assert use.seconds == {"team": 8.0}


def test_use_is_summed_up_to_the_time_of_the_question() -> None:
    use = GpuUse()
    use.change("a", 2, at=1.0)
    use.change("b", 1, at=2.0)
    use.add_up(4.0)
    assert use.seconds == {"a": 6.0, "b": 2.0}


def test_a_deleted_quota_has_no_limits() -> None:
    story = Story()
    story.quota("team", 8)
    story.add("elasticquotas", story.reported[0].body, is_gone=True)
    (row,) = picture_of(story).rows(("team",), now=1.0)
    assert (row.least, row.most) == (0, 0)
