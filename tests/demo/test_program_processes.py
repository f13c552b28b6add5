"""Ports and counters; tests/scenarios/test_demo_once.py covers the processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from queue_scheduler.configuration import load_configuration
from shared_api.process.clock import SystemClock
from tests.demo import program_processes
from tests.demo.clusters import DemoFailed
from tests.demo.program_processes import (
    ANY_PORT,
    SCHEDULER,
    ProgramProcesses,
    count_writes,
    find_port,
)

METRICS = """\
# HELP rest_client_requests_total Requests by status code
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="h:1",method="GET"} 40.0
rest_client_requests_total{code="200",host="h:1",method="PATCH"} 30.0
rest_client_requests_total{code="409",host="h:1",method="PATCH"} 2.0
rest_client_requests_total{code="201",host="h:1",method="POST"} 1e+01
rest_client_requests_created{code="201",host="h:1",method="POST"} 1.7e+09
process_cpu_seconds_total 5.0
"""


def test_only_requests_that_may_write_are_counted() -> None:
    assert count_writes(METRICS) == 42


LOG = """\
12:00:00.819Z [info     ] listening [wiring] address=[::1]:4363 flag=--debug-address port=4363
12:00:00.820Z [info     ] listening [probes] address=:3800 flag=--health-address port=3800
12:00:00.834Z [info     ] Started server process [30540] [uvicorn.error]
12:00:00.836Z [info     ] listening [probes] address=127.0.0.1:360 flag=--metrics-addr"""


@pytest.mark.parametrize(
    ("flag", "port"),
    [("--debug-address", 4363), ("--health-address", 3800), ("--metrics-address", 0)],
)
def test_ports_are_read_from_complete_lines_of_the_log(flag: str, port: int) -> None:
    assert find_port(LOG, flag) == port


class PlayedChild:
    """A program that runs until it is told to have ended."""

    def __init__(self, command: list[str], **_: object) -> None:
        self.command = command
        self.name = ""
        self.running = False
        self.said = ""

    def start(self) -> None:
        self.running = True

    def end(self, said: str) -> None:
        self.running, self.said = False, said

    def log(self) -> str:
        return self.said

    def describe_end(self) -> str:
        return self.said


class NoCluster:
    kubeconfig = queue_namespace = "none"
    context = None

    def environment(self) -> None:
        return None


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ProgramProcesses:
    monkeypatch.setattr(program_processes, "ChildProcess", PlayedChild)
    cluster: Any = NoCluster()
    found = ProgramProcesses(cluster, tmp_path, 0, SystemClock())
    found.start()
    return found


def scheduler_of(programs: ProgramProcesses) -> PlayedChild:
    children: Any = programs._children  # noqa: SLF001 - they are played ones
    child: PlayedChild = children[SCHEDULER]
    return child


def test_the_scheduler_counts_who_uses_how_much(programs: ProgramProcesses, tmp_path: Path) -> None:
    command = scheduler_of(programs).command
    name = command[command.index("--config") + 1]
    assert load_configuration(str(tmp_path / name)).kept_accounts is not None


def test_a_program_whose_port_is_taken_takes_any(programs: ProgramProcesses) -> None:
    scheduler_of(programs).end("error: --debug-address: 127.0.0.1:19876 is already in use")
    programs.check_alive()
    again = scheduler_of(programs)
    assert (again.running, f"127.0.0.1:{ANY_PORT}" in again.command) == (True, True)


def test_a_program_that_ends_otherwise_ends_the_demo(programs: ProgramProcesses) -> None:
    scheduler_of(programs).end("error: --kubeconfig: none")
    with pytest.raises(DemoFailed, match="--kubeconfig: none"):
        programs.check_alive()
