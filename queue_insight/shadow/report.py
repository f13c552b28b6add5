"""The report of a record: numbers as JSON, the most important ones as text, and plots as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import msgspec

from queue_insight.replay.html_report import build_page
from queue_insight.replay.jobs import Job
from queue_insight.replay.replay_run import Outcome, chain_of
from queue_insight.replay.report import compare_runs, describe_run, worst_users
from queue_insight.replay.series import Series
from queue_insight.replay.tally import Life, Tally
from queue_insight.shadow.numbers import (
    Compared,
    describe_inversions,
    describe_jobs,
    describe_use,
    describe_waits,
    moment,
    worst_users_first,
)
from queue_insight.shadow.story import Run, Story
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from shared_api.durations import seconds_in_words
from shared_api.resource_list import Amounts

Json = dict[str, Any]

REAL: Final = "real"
SHADOW: Final = "shadow"

STEPS: Final = 500
"""Steps of the series of a page."""

DRAWN: Final = 1000
"""Jobs that a page lists: those whose waits differ most."""

SHOWN_USERS: Final = 5
"""Users that the text has: those that waited longest."""

LISTED: Final = 20
"""Jobs that the text lists; the JSON has all."""


def build_report(name: str, story: Story, jobs: Sequence[Compared], engine: Engine) -> Json:
    """Return the numbers of a record.

    Args:
        name: What the record is called.
        story: What it says.
        jobs: Its jobs, in reality and in the shadow.
        engine: The engine of the shadow, at the end.
    """
    span = (story.began, story.until)
    limits = {view.name: view.max for view in view_all_quotas(engine.plugins)}
    return {
        "record": {
            "name": name,
            "from": moment(story.began),
            "until": moment(story.until),
            "gaps": [{"from": moment(one), "until": moment(other)} for one, other in story.gaps],
            "jobs": len(jobs),
            "ranBefore": sum(each.fate.adopted for each in jobs),
            "runTimeUnknown": sum(_is_open(each) for each in jobs),
        },
        "waits": describe_waits(jobs),
        "use": describe_use(jobs, chain_of(engine), limits, span),
        "inversions": describe_inversions(jobs),
        "jobs": describe_jobs(jobs),
    }


def _is_open(job: Compared) -> bool:
    """Return whether a job starts in the shadow, and nothing says how long it runs."""
    return job.would_start is not None and job.story.ended is None


def to_bytes(report: Json) -> bytes:
    """Return the report as JSON text."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


# --- text -----------------------------------------------------------------------------------------


def report_lines(report: Json) -> Iterator[str]:
    """Yield the most important numbers as lines."""
    yield from _record_lines(report["record"])
    yield ""
    columns = "".join(f"{name:>12}" for name in ("mean", "median", "p90", "max"))
    yield f"{'WAITS':<32}{'jobs':>8}{columns}"
    yield from _wait_lines("all", report["waits"]["all"])
    for queue, waits in report["waits"]["byQueue"].items():
        yield from _wait_lines(f"queue {queue or '(none)'}", waits)
    if (users := report["waits"]["users"]) is not None:
        yield from _user_lines(users)
    yield ""
    yield from _use_lines(report["use"])
    yield f"{'ORDER INVERSIONS':<40}{REAL:>12}{SHADOW:>12}"
    for queue, pairs in (("all", report["inversions"]["all"]), *_queues(report["inversions"])):
        yield f"{queue:<40}{pairs[REAL]:>12}{pairs[SHADOW]:>12}"
    yield ""
    yield from _job_lines(report["jobs"])


def _queues(found: Json) -> Iterator[tuple[str, Json]]:
    for queue, each in found["byQueue"].items():
        yield f"queue {queue or '(none)'}", each


def _record_lines(record: Json) -> Iterator[str]:
    yield f"{record['jobs']} jobs from {record['from']} to {record['until']}"
    if record["ranBefore"]:
        many = record["ranBefore"]
        yield f"{many} of them ran already at the beginning: their waits do not count"
    if record["runTimeUnknown"]:
        many = record["runTimeUnknown"]
        yield f"{many} start in the shadow and have not ended in reality: they run until the end"
    for gap in record["gaps"]:
        yield f"nothing was watched from {gap['from']} to {gap['until']}"


def _wait_lines(name: str, waits: Json) -> Iterator[str]:
    for side in (REAL, SHADOW):
        found = waits[side]
        cells = "".join(
            f"{seconds_in_words(found[key]):>12}" for key in ("mean", "median", "p90", "max")
        )
        yield f"{name + ', ' + side:<32}{waits['compared']:>8}{cells}"
    for key, words in (
        ("startedOnlyReally", "started in reality only"),
        ("startedOnlyInShadow", "start in the shadow only"),
        ("startedInNeither", "start in neither"),
    ):
        if name == "all" and waits[key]:
            yield f"  {waits[key]} {words}, and are not in these numbers"


def _user_lines(users: Json) -> Iterator[str]:
    waits = users["waits"]
    for user in worst_users_first(waits)[:SHOWN_USERS]:
        yield from _wait_lines(f"user {user}", waits[user])
    yield ""
    head, jain = f"JAIN'S INDEX OF {users['count']} USERS", users["jain"]
    yield f"{head:<40}{jain[REAL]:>12.3f}{jain[SHADOW]:>12.3f}"


def _use_lines(use: Json) -> Iterator[str]:
    if not use:
        return
    yield f"{'USE OF QUOTAS':<40}{REAL:>12}{SHADOW:>12}"
    for quota, resources in use.items():
        for resource, each in resources.items():
            yield f"{quota + ', ' + resource:<40}{each[REAL]:>12.1%}{each[SHADOW]:>12.1%}"
    yield ""


def _job_lines(jobs: Sequence[Json]) -> Iterator[str]:
    new = [each for each in jobs if not each["ranBefore"]]
    if not new:
        return
    ranked = sorted(new, key=_difference, reverse=True)[:LISTED]
    widest = max(len("JOB"), *(len(each["job"]) for each in ranked))
    yield f"{'JOB':<{widest}}  {'submitted':<21}{'really waited':>14}{'would wait':>14}"
    for each in ranked:
        cells = "".join(f"{_wait_in_words(each[key]):>14}" for key in ("waitSeconds", _WOULD))
        why = f"  {each['why']}" if each["why"] else ""
        yield f"{each['job']:<{widest}}  {each['submitted']:<21}{cells}{why}"
    if len(new) > len(ranked):
        yield f"and {len(new) - len(ranked)} more, which differ less: -o json has all"


_WOULD: Final = "wouldWaitSeconds"


def _difference(job: Json) -> float:
    """Return how much the waits of a job differ; more than all if it starts on one side only."""
    real, shadow = job["waitSeconds"], job[_WOULD]
    if real is None or shadow is None:
        return -1.0 if real is shadow else float("inf")
    return abs(float(real) - float(shadow))


def _wait_in_words(seconds: float | None) -> str:
    return "not started" if seconds is None else seconds_in_words(seconds)


# --- the page -------------------------------------------------------------------------------------


def build_html(report: Json, story: Story, jobs: Sequence[Compared], engine: Engine) -> str:
    """Return the page: that of a replay, with reality and the shadow as its two runs.

    Args:
        report: As `build_report` returns it.
        story: What the record says.
        jobs: Its jobs.
        engine: The engine of the shadow, at the end.
    """
    seconds = story.until - story.began
    step = float(max(1, round(seconds / STEPS)))
    sides = [
        _Played(story, jobs, engine, step, is_real=name == REAL).outcome()
        for name in (REAL, SHADOW)
    ]
    users = worst_users(sides)
    runs = [
        describe_run(name, side, users) for name, side in zip((REAL, SHADOW), sides, strict=True)
    ]
    record = report["record"]
    page = {
        "trace": {
            "file": record["name"],
            "format": "shadow",
            "jobs": record["jobs"],
            "seconds": seconds,
            "began": record["from"],
            "skipped": [],
        },
        "seed": 0,
        "runs": runs,
        "comparisons": [compare_runs(runs[0], runs[1])],
        "marginal": [],
        "shadow": {
            "use": report["use"],
            "inversions": report["inversions"],
            "jobs": _most_different(report["jobs"]),
        },
    }
    return build_page(page, title=f"Shadow of {record['name']}")


def _most_different(jobs: Sequence[Json]) -> list[Json]:
    """Return the jobs that a page lists, in order of submission."""
    if len(jobs) <= DRAWN:
        return list(jobs)
    ranked = sorted(range(len(jobs)), key=lambda number: -_difference(jobs[number]))
    return [jobs[number] for number in sorted(ranked[:DRAWN])]


class _Played:
    """One side of a report, as the outcome of a replay."""

    def __init__(
        self,
        story: Story,
        jobs: Sequence[Compared],
        engine: Engine,
        step: float,
        *,
        is_real: bool,
    ) -> None:
        self._began = story.began
        self._until = story.until - story.began
        self._jobs = jobs
        self._step = step
        self._is_real = is_real
        self._chain = chain_of(engine)
        self._limits: Mapping[str, Amounts] = {
            view.name: view.max for view in view_all_quotas(engine.plugins)
        }
        self._tally = Tally(engine, self._chain, self._no_job, step)
        # When, of which quota (and resource), by how much.
        self._use: list[tuple[float, str, str, int]] = []
        self._waiting: list[tuple[float, str, int]] = []

    def outcome(self) -> Outcome:
        """Return what a replay would."""
        never: dict[str, int] = {}
        for number, job in enumerate(self._jobs):
            runs = job.story.runs if self._is_real else job.fate.runs
            self._note_use(job, runs)
            if not job.fate.adopted:
                self._note_waits(job, runs)
                self._tally.lives[str(number)] = self._life_of(number, job, runs)
                if not runs:
                    why = "" if self._is_real else job.why
                    never[why] = never.get(why, 0) + 1
        self._sum_up()
        return Outcome(
            tally=self._tally,
            step=self._step,
            seconds=self._until,
            limits=dict(self._limits),
            never=dict(sorted(never.items())),
        )

    def _life_of(self, number: int, job: Compared, runs: Sequence[Run]) -> Life:
        seen = job.story.seen
        ended = job.story.ended is not None if self._is_real else job.fate.ended
        last = runs[-1] if runs else None
        return Life(
            job=Job(
                line=number + 1,
                name=seen.job,
                submit=seen.submitted - self._began,
                run=job.story.run_seconds or 0.0,
                tenant=job.fate.quota,
                user=job.user if job.names_user else "",
                namespace=seen.job.partition("/")[0],
                priority=job.priority,
                requests={},
            ),
            tenant=job.fate.quota,
            submit=seen.submitted - self._began,
            admitted=None if last is None else runs[0].start - self._began,
            began=None if last is None else last.start - self._began,
            finished=None if last is None or not ended else (last.end or 0.0) - self._began,
            evictions=max(0, len(runs) - 1),
        )

    def _note_use(self, job: Compared, runs: Sequence[Run]) -> None:
        chain = self._chain(job.fate.quota) if job.fate.quota else ()
        for run, quota, (resource, amount) in product(runs, chain, job.amounts.items()):
            self._use.append((self._within(run.start), quota, resource, amount))
            if run.end is not None:
                self._use.append((self._within(run.end), quota, resource, -amount))

    def _note_waits(self, job: Compared, runs: Sequence[Run]) -> None:
        """Note from when until when a job waits: before each of its runs."""
        quotas = ("", job.fate.quota) if job.fate.quota else ("",)
        since: float | None = job.submitted
        for run in runs:
            if since is not None:
                self._waiting += [(self._within(since), quota, 1) for quota in quotas]
                self._waiting += [(self._within(run.start), quota, -1) for quota in quotas]
            since = run.end
        if since is not None and job.story.ended is None and (not runs or not job.fate.ended):
            self._waiting += [(self._within(since), quota, 1) for quota in quotas]

    def _within(self, at: float) -> float:
        return min(max(0.0, at - self._began), self._until)

    def _sum_up(self) -> None:
        tally = self._tally
        for at, quota, resource, by in sorted(self._use):
            key = (quota, resource)
            tally.use.setdefault(key, Series(self._step)).change(at, by)
        for at, quota, by in sorted(self._waiting):
            tally.waiting.setdefault(quota, Series(self._step)).change(at, by)

    def _no_job(self, uid: str) -> tuple[Job, str]:
        raise KeyError(uid)
