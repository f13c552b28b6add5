"""One run of the demo: everything is started, shown, checked, and removed.

Whatever ends it (the end of the load, Ctrl-C, a program that died), everything that was started is
removed, newest first. If this process itself is killed, a guardian ends the programs and removes
the folder.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final

from shared_api.client.resource_types import ELASTIC_QUOTAS, JOBS, PODS, QUEUE_UNITS
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread
from tests.controlplane.child_process import Guardian
from tests.demo.answers import Questions
from tests.demo.cluster_content import ClusterContent, JobSubmitter
from tests.demo.cluster_picture import ClusterPicture
from tests.demo.clusters import Cluster, commands, connect
from tests.demo.demo_settings import Settings
from tests.demo.event_feed import EventFeed, Seen
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import ANN, BOB, FAIR, RUN_SECONDS, LoadPlan, build_plan, take_jobs
from tests.demo.make_slice import SLICE, read_rows
from tests.demo.observer import HOLD_SECONDS, Observer
from tests.demo.program_processes import ProgramProcesses
from tests.demo.queue_table import Progress, QueueWords, build_table, plain_line
from tests.demo.replay_files import write_replay_files
from tests.demo.run_summary import RunFacts, build_summary
from tests.demo.terminal import Terminal

TURN_SECONDS: Final = 0.05
"""Seconds between two steps of the main loop."""
DEBUG_API_SECONDS: Final = 1.0
"""Seconds between two requests to the debug API."""
FORECAST_SECONDS: Final = 10.0
"""How old a forecast may be when the questions begin."""
PATIENCE_SECONDS: Final = 60.0
"""Timeout without any job ending after all are submitted; the longest runs for 37 s."""
YOUR_OWN: Final = (
    "Submit jobs of your own, such as README.md's first ones: a pod runs for the seconds in its"
    f" annotation {RUN_SECONDS}."
)
WATCHED: Final = (QUEUE_UNITS, ELASTIC_QUOTAS, PODS, JOBS)

MakeCluster = Callable[[Settings, Path, Clock], Cluster]
Visitor = Callable[[JsonApi], None]
"""Called once when everything is ready, so that a test can interfere."""


class Outcome:
    """The outcome of a run."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.summary: list[str] = []
        self.is_finished = False

    @property
    def exit_status(self) -> int:
        """Return 0 only if every job completed and the observer has no complaints."""
        return 0 if self.is_finished and not self.complaints else 1


class DemoRun:
    """One run, on the calling thread, which also processes the events of the feeds.

    Args:
        settings: the settings of the run.
        terminal: the display.
        clock: the time.
        make_cluster: returns the cluster of the settings, given a folder for its files.
        visitor: called once when everything is ready.
        on_looking: called when `check_interruption` is called often from then on.
        check_interruption: raises if the user has ended the demo.
    """

    def __init__(
        self,
        settings: Settings,
        terminal: Terminal,
        clock: Clock,
        *,
        make_cluster: MakeCluster,
        visitor: Visitor | None = None,
        on_looking: Callable[[], object] = lambda: None,
        check_interruption: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._terminal = terminal
        self._clock = clock
        self._make_cluster = make_cluster
        self._visitor = visitor
        self._on_looking = on_looking
        self._check_interruption = check_interruption
        self._sink: deque[Seen] = deque()
        self._observer = Observer()
        self._words: dict[str, QueueWords] = {}
        self._next_question_at = 0.0
        self._seconds_to_ready = 0.0
        self._questions: Questions | None = None
        self._answers: deque[list[str]] = deque()
        self.outcome = Outcome()

    def run(self) -> None:
        """Run until the load has ended (with `once`) or an interruption.

        Raises:
            DemoFailed: It cannot continue; everything has been removed.
        """
        started_at = self._clock.monotonic()
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="koord-queue-demo-"))
            guardian = Guardian(folder)
            stack.callback(_dismiss, guardian, folder)
            cluster = self._make_cluster(self._settings, folder, self._clock)
            stack.callback(cluster.stop)
            self._terminal.say(f"starting ({self._settings.where} cluster) ...")
            cluster.start()
            api = connect(cluster, self._clock)
            stack.callback(api.close)
            plan = self._fill(cluster, api, stack)
            self._picture = ClusterPicture(plan.shape)
            self._namespaces = frozenset(plan.namespaces)
            self._start_feeds(cluster, stack)
            programs = ProgramProcesses(cluster, folder, guardian.group, self._clock)
            # Stopped after the programs: then it waits for no answer.
            self._asker = LoopThread("questions", self._ask, self._clock)
            stack.callback(self._asker.stop)
            self._asker.start()
            stack.callback(programs.stop)
            self._on_looking()  # before a program is polled
            programs.start()
            programs.wait_until_ready(self._check_interruption)
            self._seconds_to_ready = self._clock.monotonic() - started_at
            self._terminal.say(*self._welcome(cluster, programs, plan))
            if self._visitor is not None:
                self._visitor(api)
            self._go(cluster, programs, plan, api)

    def _fill(self, cluster: Cluster, api: JsonApi, stack: ExitStack) -> LoadPlan:
        rows = take_jobs(read_rows(SLICE), self._settings.jobs)
        plan = build_plan(
            rows, shape=cluster.gpu_shape(), submit_seconds=self._settings.submit_seconds
        )
        content = ClusterContent(api, self._clock, queue_namespace=cluster.queue_namespace)
        if not cluster.is_throw_away():
            stack.callback(content.remove, self._terminal.say)
        content.install_kinds()
        cluster.add_nodes(plan, api)
        content.make_tenants(plan)
        return plan

    def _start_feeds(self, cluster: Cluster, stack: ExitStack) -> None:
        for kind in WATCHED:
            api = connect(cluster, self._clock, "koord-queue-demo-observer")
            stack.callback(api.close)
            feed = EventFeed(api, kind, self._clock, self._sink)
            thread = LoopThread(f"feed-{kind.plural}", feed.step, self._clock, unblock=feed.unblock)
            stack.callback(thread.stop)
            thread.start()

    def _welcome(
        self, cluster: Cluster, programs: ProgramProcesses, plan: LoadPlan
    ) -> Iterator[str]:
        minutes = self._settings.submit_seconds / 60
        yield (
            f"ready after {self._seconds_to_ready:.1f} s. {len(plan.jobs)} jobs of"
            f" {len(plan.tenants)} tenants on {plan.total_gpus} GPUs, submitted over"
            f" {minutes:.1f} minutes: 16 hours of a real trace, {plan.pace:.0f} times as fast."
        )
        for tenant in plan.tenants:
            if tenant.policy == FAIR:
                yield f"In queue {tenant.name} {ANN} submits many jobs; {BOB} joins later (Fair)."
        yield f"In a browser: {programs.page_url}/"
        yield "In another terminal:"
        for line in commands(cluster, programs.debug_url, programs.jobs_url):
            yield f"  {line}"
        yield "Ctrl-C ends it and removes everything."
        yield ""

    # ------------------------------------------------------------------------ while it runs

    def _go(
        self, cluster: Cluster, programs: ProgramProcesses, plan: LoadPlan, api: JsonApi
    ) -> None:
        began_at = self._clock.monotonic()
        submitter = JobSubmitter(api, plan, began_at)
        last_ended, last_news_at = 0, began_at
        while True:
            now = self._clock.monotonic()
            submitter.submit_due(now)
            self._take_events(now)
            programs.check_alive()
            self._check_interruption()
            self._show(programs, plan, now, began_at)
            self._say_answers(programs, plan)
            if self._picture.ended != last_ended or not submitter.is_done:
                last_ended, last_news_at = self._picture.ended, now
            if self._is_through(plan) or now - last_news_at > PATIENCE_SECONDS:
                break
            self._clock.sleep(TURN_SECONDS)
        self._finish(cluster, programs, plan)
        while not self._settings.once:  # until Ctrl-C
            programs.check_alive()
            self._check_interruption()
            self._clock.sleep(TURN_SECONDS)

    def _is_through(self, plan: LoadPlan) -> bool:
        return self._picture.submitted >= len(plan.jobs) and self._picture.is_everything_settled()

    def _take_events(self, now: float) -> None:
        while self._sink:
            seen = self._sink.popleft()
            if not is_of_the_load(seen, self._namespaces):
                continue
            self._observer.add(seen)
            self._picture.apply(seen)
        self._observer.settle(now)

    def _show(
        self, programs: ProgramProcesses, plan: LoadPlan, now: float, began_at: float
    ) -> None:
        if not self._terminal.is_due(now):
            return
        if self._terminal.is_live and now >= self._next_question_at:
            self._next_question_at = now + DEBUG_API_SECONDS
            self._words = _ask_for_words(programs)
        rows = list(self._picture.rows(plan.namespaces, now))
        progress = Progress(
            seconds=now - began_at,
            planned=len(plan.jobs),
            submitted=self._picture.submitted,
            ended=self._picture.ended,
            used=sum(row.used for row in rows),
            total=plan.total_gpus,
            events=self._observer.event_count,
            violations=len(self._observer.violations),
        )
        self._terminal.show(build_table(rows, self._words, progress), plain_line(rows, progress))

    def _ask(self) -> float:
        """Ask what has no answer yet: the step of a thread, as an answer may take some seconds."""
        if self._questions is not None:
            for answer in self._questions.answers():
                self._answers.append(answer)
        return DEBUG_API_SECONDS

    def _say_answers(self, programs: ProgramProcesses, plan: LoadPlan) -> None:
        """Begin to ask when half of the jobs are submitted, and show each answer once."""
        if self._questions is None and 2 * self._picture.submitted >= len(plan.jobs):
            since = self._clock.now() - timedelta(seconds=FORECAST_SECONDS)
            self._questions = Questions(programs.ask_debug_api, since)
        while self._answers:
            after = () if len(self._answers) > 1 else ("",)
            self._terminal.say("", *self._answers.popleft(), *after)

    # ------------------------------------------------------------------------------ the end

    def _finish(self, cluster: Cluster, programs: ProgramProcesses, plan: LoadPlan) -> None:
        self._clock.sleep(HOLD_SECONDS)  # events that are still in flight count too
        if self._asker.stop():  # what had no answer yet is asked once more, if no answer is awaited
            self._ask()
        self._say_answers(programs, plan)
        self._take_events(self._clock.monotonic())
        self._observer.settle_all()
        self._picture.use.add_up(self._clock.monotonic())
        outcome = self.outcome
        outcome.complaints = [
            *self._observer.violations,
            *self._observer.charge.complaints_at_the_end(len(plan.jobs)),
        ]
        outcome.is_finished = self._is_through(plan)
        if not outcome.is_finished:
            outcome.complaints[:0] = _last_words(programs)
        facts = RunFacts(
            namespaces=plan.namespaces,
            jobs=list(self._picture.jobs.values()),
            use=self._picture.use,
            total_gpus=plan.total_gpus,
            seconds_to_ready=self._seconds_to_ready,
            writes=programs.writes(),
            writes_by_kind=cluster.writes_by_kind(),
            events=self._observer.event_count,
            complaints=outcome.complaints,
        )
        outcome.summary = build_summary(facts)
        self._terminal.say(*outcome.summary, *self._further_lines(cluster, plan))
        if not self._settings.once:
            self._terminal.say("", "The load is through; all stays up to look at. Ctrl-C ends it.")
            if cluster.is_throw_away():
                self._terminal.say(YOUR_OWN)

    def _further_lines(self, cluster: Cluster, plan: LoadPlan) -> Iterator[str]:
        """Yield which questions had no answer, and what else can be asked."""
        left = [] if self._questions is None else self._questions.unanswered()
        if left:
            yield f"no answer came in time: {', '.join(left)}"
        files = write_replay_files(plan, cluster.queue_namespace)
        yield "What would another policy have done? This plays the same load without a cluster:"
        yield f"  {files.command}"


def is_of_the_load(seen: Seen, namespaces: Collection[str]) -> bool:
    """Return whether an event is about the demo's own load; other jobs are not judged or counted.

    Events of all quotas are, since the parent of the load's quotas is in another namespace.
    """
    return seen.plural == ELASTIC_QUOTAS.plural or seen.body["metadata"]["namespace"] in namespaces


def _dismiss(guardian: Guardian, folder: Path) -> None:
    guardian.dismiss()
    shutil.rmtree(folder, ignore_errors=True)


def _ask_for_words(programs: ProgramProcesses) -> dict[str, QueueWords]:
    """Return the data of the debug API for each queue; none if it does not answer."""
    page = programs.ask_debug_api("/debug/queues?limit=100")
    if not isinstance(page, dict):
        return {}
    return {
        item["name"]: QueueWords(
            policy=item["policy"], refusal=(item["lastRefusal"] or {}).get("message", "")
        )
        for item in page["items"]
    }


def _last_words(programs: ProgramProcesses) -> Iterator[str]:
    """Yield why pending units wait, for a run without progress."""
    words = _ask_for_words(programs)
    if not words:
        yield "the debug API does not answer"
    for name, said in sorted(words.items()):
        if said.refusal:
            yield f"queue {name}: the next unit {said.refusal}"
