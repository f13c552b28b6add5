"""What is seen of jobs, as lines: in whatever order, and however late it is seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from queue_insight.shadow.lines import FORMAT, Header, JobEnded, Line
from queue_insight.shadow.story import Story
from queue_insight.shadow_program.job_watch import JobName, ObservedJob
from queue_insight.shadow_program.observer import Observer

BEGAN = 1000.0
NAME = JobName("job", "a/train")


class Watched:
    """A record that began at 1000 s."""

    def __init__(self) -> None:
        self.story = Story()
        self.lines: list[Line] = []
        self.write(Header(at=BEGAN, format=FORMAT, version="1"))
        self.observer = Observer(self.story, self.write)

    def write(self, line: Line) -> None:
        self.story.take(line)
        self.lines.append(line)

    def see(self, at: float, **job: Any) -> list[tuple[str, float]]:
        """See the job at a time; return the new lines as kind and time."""
        count = len(self.lines)
        self.observer.see(NAME, observed(**job), at)
        return [(type(each).__name__, each.at) for each in self.lines[count:]]

    def miss(self, at: float) -> list[tuple[str, float]]:
        count = len(self.lines)
        self.observer.see(NAME, None, at)
        return [(type(each).__name__, each.at) for each in self.lines[count:]]


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def observed(
    *,
    uid: str = "u-1",
    nodes: tuple[float, ...] = (),
    living: int = 0,
    suspended: bool = False,
    outcome: str = "",
    ended: float | None = None,
    started: float | None = None,
    cpu: str | None = "1",
    has_object: bool = True,
) -> ObservedJob:
    return ObservedJob(
        uid=uid,
        key=NAME.key,
        kind=NAME.kind,
        submitted=moment(990),
        kueue_queue="",
        has_object=has_object,
        unit=None if cpu is None else {"spec": {"cpu": cpu}},
        suspended=suspended,
        node_since=tuple(map(moment, nodes)),
        living_pods=living,
        started=None if started is None else moment(started),
        outcome=outcome,
        ended=None if ended is None else moment(ended),
    )


def test_what_has_not_changed_is_not_told_again() -> None:
    watched = Watched()
    assert watched.see(1001, suspended=True) == [("JobSeen", 1001)]
    assert watched.see(1002, suspended=True) == []
    assert watched.see(1010, nodes=(1008, 1009), living=2) == [("JobStarted", 1008)]
    assert watched.see(1011, nodes=(1009,), living=1) == []
    assert watched.see(1021, outcome="succeeded", ended=1020) == [("JobEnded", 1020)]
    assert watched.see(1022, outcome="succeeded", ended=1020) == []
    assert watched.miss(1030) == [], "it had ended before it was deleted"


def test_changes_count_until_it_starts() -> None:
    watched = Watched()
    watched.see(1001)
    assert watched.see(1002, cpu="2") == [("JobSeen", 1002)]
    assert watched.see(1003, cpu="2") == []
    watched.see(1004, cpu="2", nodes=(1004,), living=1)
    assert watched.see(1005, cpu="1", nodes=(1004,), living=1) == [], "its work goes on"


def test_a_stop_counts_when_no_pod_is_left_and_old_pods_start_nothing() -> None:
    watched = Watched()
    watched.see(1001, nodes=(1001,), living=1)
    assert watched.see(1005, suspended=True, nodes=(1001,), living=1) == []
    assert watched.see(1006, suspended=True, nodes=(1001,)) == [("JobStopped", 1006)]
    assert watched.see(1007, nodes=(1001,)) == []
    assert watched.see(1009, nodes=(1001, 1008), living=1) == [("JobStarted", 1008)]


def test_what_is_seen_late_has_the_times_that_the_objects_state() -> None:
    watched = Watched()
    got = watched.see(1100, nodes=(1020,), outcome="failed", ended=1050)
    assert got == [("JobSeen", 1100), ("JobStarted", 1020), ("JobEnded", 1050)]
    assert watched.story.jobs["u-1"].run_seconds == 30


def test_without_pods_the_status_says_when_an_ended_job_started() -> None:
    watched = Watched()
    got = watched.see(1100, outcome="succeeded", started=1030, ended=1050)
    assert got == [("JobSeen", 1100), ("JobStarted", 1030), ("JobEnded", 1050)]


def test_what_had_ended_before_the_record_is_left_out() -> None:
    watched = Watched()
    assert watched.see(1001, outcome="succeeded", ended=995) == []
    assert watched.see(1002, uid="u-2", outcome="succeeded") == []
    assert watched.miss(1003) == []


def test_a_job_whose_pods_are_not_known_waits_to_be_told() -> None:
    watched = Watched()
    assert watched.see(1001, cpu=None) == []
    assert watched.see(1005) == [("JobSeen", 1005)]


def test_a_new_job_of_the_name_ends_the_one_before() -> None:
    watched = Watched()
    watched.see(1001)
    assert watched.see(1002, uid="u-2") == [("JobEnded", 1002), ("JobSeen", 1002)]
    assert watched.miss(1003) == [("JobEnded", 1003)]
    assert [job.outcome for job in watched.story.jobs.values()] == ["deleted", "deleted"]


def test_a_group_is_the_same_until_none_of_its_pods_is_left() -> None:
    watched = Watched()
    watched.see(1001, has_object=False)
    replaced = {"uid": "u-2", "has_object": False}
    assert watched.see(1010, nodes=(1008,), living=1, **replaced) == [("JobStarted", 1008)]
    assert watched.see(1021, outcome="succeeded", ended=1020, **replaced) == [("JobEnded", 1020)]
    rest = {**replaced, "uid": "u-3"}
    assert watched.see(1022, outcome="succeeded", ended=1015, **rest) == [], "some are deleted"
    assert list(watched.story.jobs) == ["u-1"]
    watched.miss(1023)
    assert watched.see(1030, uid="u-4", has_object=False) == [("JobSeen", 1030)]


def test_a_group_that_has_ended_before_a_restart_has_ended_after_it() -> None:
    watched = Watched()
    watched.see(1001, outcome="succeeded", ended=1001, has_object=False)
    watched.observer = Observer(watched.story, watched.write)
    rest = {"uid": "u-2", "has_object": False}
    assert watched.see(1100, outcome="succeeded", ended=1001, **rest) == []
    assert watched.see(1101, living=1, **rest) == [("JobSeen", 1101)], "pods of another one"


def test_an_observer_of_an_older_record_knows_what_was_there() -> None:
    watched = Watched()
    watched.see(1001, nodes=(1001,), living=1)
    again = Observer(watched.story, watched.write)
    assert again.jobs() == [NAME]
    again.see(NAME, None, 1100)
    assert isinstance(watched.lines[-1], JobEnded)
    assert Observer(watched.story, watched.write).jobs() == []
