"""A short run of the demo ends by itself, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.demo.demo_process import ROOT, DemoProcess, demo_starter
from tests.demo.program_processes import CONTROLLERS, DEBUG_PORTS, LOOPBACK, SCHEDULER
from tests.waiting import until, within

# Longer than the sum of the deadlines below.
pytestmark = [pytest.mark.scenario, pytest.mark.timeout(600)]

READY = "ready after"
READY_SECONDS = 150.0
RUN_SECONDS = 400.0
GONE_SECONDS = 100.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., DemoProcess]]:
    with demo_starter(tmp_path) as start_one:
        yield start_one


def test_a_short_run_completes_every_job(start: Callable[..., DemoProcess]) -> None:
    demo = start("--once")
    assert demo.wait(RUN_SECONDS) == 0, demo.output
    for words in (
        "40 of 40 jobs completed",
        "no quota exceeded",
        "API writes per job",
        "WAIT P99",
        "GPU-seconds used",
        "asked what was decided last:",
        "\n  koord-queue units -A\n",
    ):
        assert words in demo.output
    assert demo.leaves_nothing()
    played = [word for word in demo.output.split() if word.startswith("build/demo/")]
    assert [(ROOT / path).is_file() for path in played] == [True, True]


@pytest.mark.parametrize(
    ("program", "path", "asked", "status"),
    [
        pytest.param(SCHEDULER, "queues", "queues", 200, id="scheduler"),
        pytest.param(CONTROLLERS, "jobs/NAMESPACE/Job/NAME", "jobs/a/Job/a", 404, id="controllers"),
    ],
)
def test_another_port_is_used_where_the_usual_one_is_taken(
    start: Callable[..., DemoProcess], program: str, path: str, asked: str, status: int
) -> None:
    usual = DEBUG_PORTS[program]
    with ExitStack() as stack:

        def take() -> bool:
            with suppress(OSError):
                stack.enter_context(socket.create_server((LOOPBACK, usual)))
                return True
            return False

        within(READY_SECONDS, take)  # the demo of another test may release it
        demo = start()
        demo.wait_for_output("Ctrl-C", READY_SECONDS)
    found = re.search(rf"curl -s http://{LOOPBACK}:(\d+)/debug/{path}", demo.output)
    assert found, demo.output
    assert found[1] != str(usual)
    url = f"http://{LOOPBACK}:{found[1]}/debug/{asked}"
    assert httpx.get(url, timeout=READY_SECONDS, trust_env=False).status_code == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_process_and_no_file(
    start: Callable[..., DemoProcess], number: signal.Signals
) -> None:
    demo = start()
    demo.wait_for_output(READY, READY_SECONDS)
    assert len(demo.programs()) == 4  # three programs and their guardian
    demo.process.send_signal(number)
    demo.process.send_signal(number)  # an impatient person
    assert demo.wait(GONE_SECONDS) == 130, demo.output
    assert demo.leaves_nothing()


def test_the_programs_of_a_killed_demo_end(start: Callable[..., DemoProcess]) -> None:
    demo = start()
    demo.wait_for_output(READY, READY_SECONDS)
    demo.process.kill()
    until(demo.leaves_nothing, GONE_SECONDS)


def test_a_program_that_dies_is_reported_with_its_log(start: Callable[..., DemoProcess]) -> None:
    demo = start()
    demo.wait_for_output(READY, READY_SECONDS)
    (scheduler,) = (pid for pid, it in demo.programs().items() if "-m queue_scheduler " in it)
    os.kill(scheduler, signal.SIGKILL)
    assert demo.wait(GONE_SECONDS) == 1
    assert "koord-queue-scheduler ended with status -9; the end of its log:" in demo.output
    assert "cache complete" in demo.output
    assert demo.leaves_nothing()
