"""The program as a whole, in this process: it follows a feed and answers questions."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest

from queue_insight.debug_api import forecast_routes
from queue_insight.debug_api.dump_routes import FINISHED_RUNS
from queue_insight.forecast.run_times import Running, RunTimes, SurvivalRunTimes
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_program import horizons, wiring
from queue_insight.insight_program.flags import PROGRAM, parse_insight_flags
from queue_insight.insight_program.recording import FILE, read_runs
from queue_insight.insight_program.wiring import Insight
from queue_insight.record.record_file import open_store
from shared_api.debug_api.json_body import JSON
from shared_api.local_program import LocalProgram
from shared_api.process.clock import SystemClock
from shared_api.program_flags import FlagError
from shared_api.testing.object_builders import queue_unit
from shared_api.timestamps import rfc3339
from tests.process_state import process_as_before
from tests.queue_insight.insight_kit import Sender, sending
from tests.queue_insight.insight_process import PATIENCE_SECONDS, build, follow, running
from tests.waiting import until

WHAT_IF = "/debug/what-if"
OFTEN = "--forecast-interval=100ms"
ALWAYS = "--forecast-least-runs=0"


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with process_as_before():
        yield


def test_questions_are_answered_from_what_was_told(tmp_path: Path) -> None:
    with running(tmp_path) as (insight, client), sending(tmp_path) as sender:
        before = client.get("/debug/queues")
        assert before.status_code == 503
        assert "has no state yet" in before.json()["detail"]
        sender.add_unit("a")
        follow(sender, client)
        sender.add_unit("b")
        follow(sender, client)
        state = client.get("/debug/insight").json()
        assert (state["connected"], state["leader"]) == (True, True)
        assert state["record"] == {"state": "off", "reason": "", "completeFrom": None}
        units = client.get("/debug/queues/team").json()["units"]
        assert [unit["name"] for unit in units] == ["a", "b"]
        assert client.get("/debug/queueunits/default/b").json()["position"] == 2
        assert client.get("/debug/queueunits/default/b/explain?changes=true").status_code == 200
        assert client.get("/debug/quotas").json()["items"]
        assert client.get("/debug/queues/none").status_code == 404
        assert insight.ready_checks()["feed"]() == (True, "connected: True")


def test_an_earlier_time_needs_a_record(tmp_path: Path) -> None:
    with running(tmp_path) as (_, client):
        answer = client.get("/debug/queues?at=2026-11-01T10:00:00Z")
        assert answer.status_code == 503
        assert "--record-dir" in answer.json()["detail"]
        assert client.get("/debug/queues?at=yesterday").status_code == 422


def test_the_record_answers_about_earlier_times(tmp_path: Path) -> None:
    with running(tmp_path, f"--record-dir={tmp_path}") as (_, client), sending(tmp_path) as sender:
        assert "nothing is recorded yet" in detail(client, "2026-11-01T10:00:00Z")
        sender.use_real_time()
        sender.add_unit("a")
        then = write(sender, client)
        sender.add_unit("b")
        later = write(sender, client)
        sender.start_next()
        write(sender, client)
        assert units_at(client, then.isoformat()) == ["a"]
        assert units_at(client, later.isoformat()) == ["a", "b"]
        assert units_at(client, "") == ["b"]
        (entry,) = client.get("/debug/log", params={"unit": "default/a"}).json()["items"]
        assert (entry["kind"], entry["queue"], entry["victims"]) == ("Admitted", "team", [])
        assert client.get("/debug/log", params={"queue": "other"}).json()["items"] == []
        assert client.get("/debug/insight").json()["record"]["state"] == "recording"
        assert "the record begins at" in detail(client, "2026-11-01T10:00:00Z")
        # Of this time, calls may be on their way.
        assert "ask again" in detail(client, (then + timedelta(days=1)).isoformat())


def test_a_record_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "record-wal").mkdir()
    with running(tmp_path, f"--record-dir={tmp_path}") as (_, client), sending(tmp_path) as sender:
        sender.add_unit("a")
        follow(sender, client)
        until(lambda: client.get("/debug/insight").json()["record"]["state"] == "stopped")
        assert client.get("/debug/insight").json()["record"]["reason"]
        assert units_at(client, "") == ["a"]
        assert client.get("/debug/log").status_code == 503


def test_a_waiting_unit_has_a_forecast(tmp_path: Path) -> None:
    unit, queue = "/debug/queueunits/default/a/forecast", "/debug/queues/team/forecast"
    with running(tmp_path, ALWAYS) as (_, client), sending(tmp_path) as sender:
        for path in (unit, queue):
            before = client.get(path)
            assert before.status_code == 503
            assert "no forecast yet" in before.json()["detail"]
        sender.use_real_time()
        sender.add_unit("a")
        sender.add_unit("b")
        follow(sender, client)
        until(lambda: client.get(unit).status_code == 200)
        got = client.get(unit).json()
        assert (got["name"], got["queue"]) == ("a", "team")
        assert got["sample"] > 0
        # It begins at the time of the state, not at that of this program's clock.
        assert got["computedAt"] == rfc3339(sender.clock.now())
        assert got["startP50"] >= got["computedAt"], "it may start at once, which is now"
        page = client.get(queue, params={"offset": 1}).json()
        assert ([each["name"] for each in page["units"]], page["total"]) == (["b"], 2)
        assert client.get("/debug/queueunits/default/none/forecast").status_code == 404


class Learner(SurvivalRunTimes):
    """A model that remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[FinishedRun] = []
        self.asked = 0

    def learn(self, run: FinishedRun) -> None:
        self.runs.append(run)
        super().learn(run)

    def at(self, epoch: float, running: Iterable[Running]) -> RunTimes:
        self.asked += 1
        return super().at(epoch, running)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Learner]:
    """Return the models of the programs that are built, in order."""
    made: list[Learner] = []

    def make() -> Learner:
        made.append(Learner())
        return made[-1]

    monkeypatch.setattr(wiring, "load_run_time_model", lambda: make)
    return made


def test_a_run_that_ends_is_learned_and_recorded(tmp_path: Path, models: list[Learner]) -> None:
    flags = (f"--record-dir={tmp_path}", OFTEN)
    with running(tmp_path, *flags) as (_, client), sending(tmp_path) as sender:
        sender.use_real_time()
        sender.apply_phase("a", "Running", version=5)
        follow(sender, client)
        sender.apply_phase("a", "Succeed", version=6)
        follow(sender, client)
        until(lambda: bool(models[0].runs))
        (run,) = models[0].runs
        assert (run.unit, run.ended_by) == ("default/a", "finished")
    # The next process begins with what is recorded.
    with running(tmp_path, *flags) as (_, client), sending(tmp_path) as sender:
        until(lambda: models[2].runs == [run])
        assert models[3].runs == [], "that of horizons learns when it is asked"
        sender.use_real_time()
        follow(sender, client)
        assert client.post(WHAT_IF, json={"edits": [], "horizonSeconds": 60}).status_code == 200
        assert models[3].runs == [run]
        assert client.get(FINISHED_RUNS).json() == {"runs": [msgspec.to_builtins(run)]}


@pytest.fixture
def _all_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a horizon play all its paths, however busy the machine is."""
    patient = functools.partial(horizons.Horizons, budget_seconds=PATIENCE_SECONDS)
    monkeypatch.setattr(wiring, "Horizons", patient)


@pytest.mark.usefixtures("_all_paths")
def test_a_horizon_is_answered_on_both_sides(tmp_path: Path) -> None:
    larger = {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": {"cpu": 99}}}}
    body = {"edits": [larger], "horizonSeconds": 86_400, "seed": 4}
    with running(tmp_path, ALWAYS) as (_, client), sending(tmp_path) as sender:
        assert client.post(WHAT_IF, json=body).status_code == 503
        sender.use_real_time()
        for number in range(12):
            sender.add_unit(f"u{number:02}", cpu=3)
        follow(sender, client)
        found = client.post(WHAT_IF, json=body).json()
        assert (found["startedCount"], found["noHorizon"]) == (11, "")
        horizon = found["horizon"]
        assert (horizon["paths"], horizon["seed"], horizon["seconds"]) == (20, 4, 86_400)
        assert horizon["computedAt"] == rfc3339(sender.clock.now())
        assert "no run has ended yet" in horizon["basis"]
        for place in (*horizon["queues"], *horizon["quotas"]):
            assert place["waitP90"]["isClear"]
            assert place["waitP90"]["difference"]["p50"] < 0
        assert client.post(WHAT_IF, json=body).json()["horizon"] == horizon
        assert client.get("/debug/queues/team").json()["queue"]["pending"] == 12


class Stuck(SurvivalRunTimes):
    """A model that is asked, and does not answer until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def at(self, epoch: float, running: Iterable[Running]) -> RunTimes:
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_SECONDS)
        return super().at(epoch, running)


@pytest.mark.usefixtures("_all_paths")
def test_while_a_horizon_is_played_it_follows_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Stuck()
    models = iter((SurvivalRunTimes, lambda: stuck))
    monkeypatch.setattr(wiring, "load_run_time_model", lambda: next(models))
    monkeypatch.setattr(wiring, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(horizons, "MAX_UNREAD", 1)
    body = {"edits": [], "horizonSeconds": 60}
    with (
        running(tmp_path, ALWAYS) as (_, client),
        ThreadPoolExecutor() as pool,
        sending(tmp_path) as sender,
    ):
        sender.use_real_time()
        sender.add_unit("a")
        follow(sender, client)
        asked = pool.submit(client.post, WHAT_IF, json=body)
        assert stuck.is_asked.wait(PATIENCE_SECONDS)
        sender.add_unit("b")
        for version, phase in ((5, "Running"), (6, "Succeed")):
            sender.apply_phase("c", phase, version=version)
        follow(sender, client)
        assert units_at(client, "") == ["a", "b"]
        second = client.post(WHAT_IF, json=body)
        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        stuck.may_answer.set()
        assert asked.result(PATIENCE_SECONDS).json()["horizon"]["paths"] == 20


def test_units_that_are_not_submitted_yet_are_foreseen(tmp_path: Path) -> None:
    with running(tmp_path, ALWAYS) as (_, client), sending(tmp_path) as sender:
        sender.use_real_time()
        sender.add_unit("a", cpu=4)
        sender.start_next()
        follow(sender, client)
        meta = {"uid": "tried", "resourceVersion": "1", "creationTimestamp": "2026-11-01T10:00:00Z"}
        unit = queue_unit("new", quota="team", requests={"cpu": 1}, metadata=meta)
        answer = client.post(
            "/debug/forecast",
            content=msgspec.json.encode([unit]),
            headers={"content-type": JSON},
        )
        (got,) = answer.json()["units"].items()
        assert got[0] == "tried"
        assert got[1]["sample"] > 0
        assert got[1]["startP50"] > got[1]["computedAt"]


def test_without_a_scheduler_no_forecast_is_renewed(
    tmp_path: Path, models: list[Learner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast_routes, "QUIET_REST_SECONDS", 0.0)
    monkeypatch.setattr(forecast_routes, "LATER_SECONDS", 0.05)
    path = "/debug/queueunits/default/a/forecast"
    with running(tmp_path, OFTEN) as (insight, client), sending(tmp_path) as sender:
        sender.use_real_time()
        sender.add_unit("a")
        follow(sender, client)
        until(lambda: models[0].asked > 2)
        sender.feed.close()
        until(lambda: insight.ready_checks()["feed"]()[1] == "connected: False")
        # A renewal that was begun before has asked the model when its step ends.
        (forecasts,) = (each for each in insight.threads() if each.name == "forecasts")
        until(lambda: forecasts.is_resting)
        before, asked = client.get(path).json(), models[0].asked
        until(lambda: client.get(path).json()["ageSeconds"] > before["ageSeconds"] + 1)
        assert models[0].asked == asked


def test_the_age_of_the_forecast_is_a_metric(tmp_path: Path) -> None:
    flags = parse_insight_flags([f"--socket-dir={tmp_path}"])
    program = LocalProgram(PROGRAM, flags.process)
    insight = Insight(program, flags)
    names = {metric.name for metric in program.metrics.registry.collect()}
    assert {"koord_queue_forecast_age_seconds", "koord_queue_forecast_coverage"} <= names
    insight.stop()


@pytest.mark.parametrize(
    ("since", "most", "want"), [(0, -1, "abc"), (2, -1, "bc"), (0, 2, "bc"), (3, 2, "c")]
)
def test_the_newest_runs_of_a_record_are_read_in_order(
    tmp_path: Path, since: float, most: int, want: str
) -> None:
    with closing(open_store(tmp_path / FILE, 0.0)) as store:
        for ended, name in enumerate("abc", start=1):
            store.add_finished(
                FinishedRun(unit=name, uid=name, charge={}, created=0.0, ended=float(ended))
            )
        store.commit(store.begin_stretch(0.0), 0.0)
    read = read_runs(tmp_path / FILE, datetime.fromtimestamp(since, UTC), most)
    assert "".join(run.unit for run in read) == want


def test_a_record_that_is_broken_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    assert read_runs(tmp_path / FILE, SystemClock().now()) == []
    assert read_runs(tmp_path / "none", SystemClock().now()) == []


def detail(client: httpx.Client, at: str) -> str:
    """Return why there is no answer about a time."""
    answer = client.get("/debug/queues", params={"at": at})
    assert answer.status_code == 503
    found: str = answer.json()["detail"]
    return found


def units_at(client: httpx.Client, at: str) -> list[str]:
    """Return the pending units as they were at a time, in order; "": now."""
    params = {"at": at} if at else {}
    found = client.get("/debug/queues/team", params=params).json()["units"]
    return [unit["name"] for unit in found]


def write(sender: Sender, client: httpx.Client) -> datetime:
    """Let the feed send all, and the record be written; return a time after that."""
    sender.clock.advance(60)
    now = sender.clock.now()
    follow(sender, client)

    def is_written() -> bool:
        sender.clock.advance(1)
        sender.feed.step()
        answer = client.get("/debug/queues/team", params={"at": now.isoformat()})
        return answer.status_code == 200

    until(is_written)
    return now


def test_it_stops_before_the_first_question(tmp_path: Path) -> None:
    with running(tmp_path) as (insight, _):
        assert [thread.name for thread in insight.threads()] == ["feed", "forecasts", "fitting"]
    assert not any(thread.is_alive() for thread in insight.threads())


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "feed.sock").mkdir()
    with pytest.raises(FlagError, match="no socket can be made there"):
        build(tmp_path)


def test_the_aggregated_api_costs_nothing_where_it_is_off() -> None:
    costly = ("cryptography", "kubernetes", "queue_insight.visibility.server")
    program = "queue_insight.insight_program.__main__"
    code = f"import sys, {program}; print([x for x in {costly!r} if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
