"""The demo, shortened: it ends by itself, says no when it should, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared_api.client.errors import NotFound
from shared_api.client.resource_types import JOBS, QUEUE_UNITS
from shared_api.process.clock import SystemClock
from tests.demo.__main__ import make_cluster
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings
from tests.demo.json_api import Json, JsonApi
from tests.demo.load_plan import REAL_GPUS, build_plan
from tests.demo.make_slice import TraceRow
from tests.demo.terminal import Terminal

pytestmark = pytest.mark.scenario

ROOT = Path(__file__).parents[2]
SHORT = ["--jobs", "40", "--submit-seconds", "8"]
TENANT = "vc-6214e9"
"""Its max is 2 GPUs in the short run."""
READY_SECONDS = 60.0
GONE_SECONDS = 20.0


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.05)


class Demo:
    """The demo as a process, with a folder for temporary files of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._output = folder / "output.txt"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.demo", *SHORT, *flags],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self.temporary), "CLUSTER": "", "DEMO": ""},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_until_ready(self) -> None:
        wait_until(lambda: "ready after" in self.output, READY_SECONDS, "the demo is ready")

    def programs(self) -> dict[int, str]:
        """Running processes that were given a file of this demo's, by id."""
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        commands = {int(entry.name): _command_of(entry) for entry in processes}
        return {pid: it for pid, it in commands.items() if str(self.temporary) in it}

    def leaves_nothing(self) -> bool:
        return not self.programs() and not list(self.temporary.iterdir())


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""  # it has just ended


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def start_one(*flags: str) -> Demo:
        started.append(Demo(tmp_path, *flags))
        return started[-1]

    yield start_one
    for demo in started:
        demo.process.kill()
        demo.process.wait()


def test_a_short_run_completes_every_job(start: Callable[..., Demo]) -> None:
    demo = start("--once")
    assert demo.process.wait(100) == 0, demo.output
    for words in (
        "40 of 40 jobs completed",
        "no quota exceeded",
        "API writes per job",
        "WAIT P99",
        "GPU-seconds used",
    ):
        assert words in demo.output
    assert demo.leaves_nothing()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_process_and_no_file(
    start: Callable[..., Demo], number: signal.Signals
) -> None:
    demo = start()
    demo.wait_until_ready()
    assert len(demo.programs()) == 3  # two programs and their guardian
    demo.process.send_signal(number)
    demo.process.send_signal(number)  # an impatient person
    assert demo.process.wait(GONE_SECONDS) == 130, demo.output
    assert demo.leaves_nothing()


def test_a_killed_demo_takes_its_programs_along(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_until_ready()
    demo.process.kill()
    wait_until(demo.leaves_nothing, GONE_SECONDS, "the guardian has cleaned up")


def test_a_program_that_dies_is_reported_with_its_log(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_until_ready()
    (scheduler,) = (pid for pid, it in demo.programs().items() if "-m queue_scheduler" in it)
    os.kill(scheduler, signal.SIGKILL)
    assert demo.process.wait(GONE_SECONDS) == 1
    assert "koord-queue-scheduler ended with status -9; the end of its log:" in demo.output
    assert "cache complete" in demo.output
    assert demo.leaves_nothing()


# --- the observer says no -----------------------------------------------------------------------


def run_with(visitor: Callable[[JsonApi], None]) -> DemoRun:
    """Run the demo in this process, with somebody who meddles once it is ready."""
    settings = Settings(once=True, jobs=40, submit_seconds=8.0)
    terminal = Terminal(io.StringIO())
    run = DemoRun(settings, terminal, SystemClock(), make_cluster=make_cluster, visitor=visitor)
    run.run()
    return run


def submit_extra_job(api: JsonApi, gpus: int) -> Json:
    row = TraceRow(submit_time_s=0, duration_s=600, tenant="6214e9", gpu=gpus)
    body = build_plan([row], shape=REAL_GPUS, submit_seconds=96.0).jobs[0].body
    body["metadata"]["name"] = "planted"
    api.create(JOBS, body)

    def has_unit() -> bool:
        try:
            api.get(QUEUE_UNITS, TENANT, "planted")
        except NotFound:
            return False
        return True

    wait_until(has_unit, 20.0, "the planted job has a unit")
    return api.get(QUEUE_UNITS, TENANT, "planted")


def admit_above_the_quota(api: JsonApi) -> None:
    """Write what only the scheduler may write: an admission that its quota has no room for."""
    unit = submit_extra_job(api, gpus=4)
    (pod_set,) = unit["spec"]["podSet"]
    admission = {"name": pod_set["name"], "replicas": pod_set["count"], "running": 0}
    status = {"phase": "Dequeued", "admissions": [admission]}
    api.patch(QUEUE_UNITS, TENANT, "planted", {"status": status}, subresource="status")


def release_past_the_queue(api: JsonApi) -> None:
    """Resume a job that its quota will never have room for."""
    submit_extra_job(api, gpus=4)
    api.patch(JOBS, TENANT, "planted", {"spec": {"suspend": False}})


@pytest.mark.parametrize(
    ("visitor", "want"),
    [
        pytest.param(
            admit_above_the_quota,
            f"{TENANT}/planted takes quota {TENANT} to 4 nvidia.com/gpu, its max is 2",
            id="a quota is exceeded",
        ),
        pytest.param(
            release_past_the_queue,
            f"{TENANT}/planted was released without being admitted",
            id="a job runs without admission",
        ),
    ],
)
def test_the_observer_sees_a_planted_fault(
    visitor: Callable[[JsonApi], None], want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A job that can never start would be waited for.
    monkeypatch.setattr("tests.demo.demo_run.PATIENCE_SECONDS", 8.0)
    outcome = run_with(visitor).outcome
    assert outcome.exit_status == 1
    assert any(want in complaint for complaint in outcome.complaints), outcome.complaints
    assert "complaints:" in "\n".join(outcome.summary)
