"""The ports of both programs answer, however many clients only connect."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from shared_api.exit_codes import EXIT_USAGE
from tests.cluster.program_process import CONTROLLERS, ROOT, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import QueueWorld
from tests.tls_files import CERTIFICATE, KEY, client_context
from tests.waiting import until

FLAGS: Final = ("--health-address", "--metrics-address", "--debug-address")
HALF_OPEN: Final = 1000
KUBELET_SECONDS: Final = 5.0
"""The chart's timeoutSeconds; on an idle machine a probe takes a few milliseconds."""
HELLO: Final = b"\x16\x03\x01\x02\x00\x01"
"""The first bytes of a TLS handshake."""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    with QueueWorld(controlplane_binaries) as world:
        world.create_quota("team", cpu_max=4)
        yield world


def admit_a_unit(world: QueueWorld) -> None:
    world.create_unit("unit-beside", "team", cpu=1)
    until(lambda: world.phase("unit-beside") == "Dequeued")


def queue_a_job(world: QueueWorld) -> None:
    world.create_job("job-beside", "team")
    until(lambda: world.unit_of("job-beside"))


DUTIES: Final[dict[str, Callable[[QueueWorld], None]]] = {
    SCHEDULER: admit_a_unit,
    CONTROLLERS: queue_a_job,
}
"""What each program does with the API server meanwhile."""


@pytest.fixture(scope="module")
def program(world: QueueWorld, request: pytest.FixtureRequest) -> ProgramProcess:
    """A program whose metrics and debug ports have TLS, as where they are exposed."""
    return world.start(
        request.param,
        f"--metrics-tls-certificate={CERTIFICATE}",
        f"--metrics-tls-key={KEY}",
        f"--debug-tls-certificate={CERTIFICATE}",
        f"--debug-tls-key={KEY}",
    )


@contextmanager
def half_open(program: ProgramProcess, count: int) -> Iterator[None]:
    """Open connections to every port that send nothing or a part; close them at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(FLAGS) * count + 512
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
    with ExitStack() as opened:
        for number in range(count):
            for flag in FLAGS:
                address = ("127.0.0.1", program.port_of(flag))
                connection = socket.create_connection(address, timeout=30.0)
                opened.enter_context(connection)
                connection.sendall((b"", b"GET /livez HT", HELLO)[number % 3])
        yield


def get(program: ProgramProcess, flag: str, path: str) -> httpx.Response:
    scheme = "http" if flag == "--health-address" else "https"
    trusted = client_context()
    url = f"{scheme}://127.0.0.1:{program.port_of(flag)}{path}"
    return httpx.get(url, timeout=KUBELET_SECONDS, verify=trusted, trust_env=False)


@pytest.mark.parametrize(("program", "duty"), DUTIES.items(), indirect=["program"], ids=DUTIES)
def test_with_a_thousand_half_open_on_each_port_every_client_is_answered(
    world: QueueWorld, program: ProgramProcess, duty: Callable[[QueueWorld], None]
) -> None:
    with half_open(program, HALF_OPEN):
        for _ in range(20):
            for path in ("/livez", "/readyz"):
                assert get(program, "--health-address", path).status_code == 200
        assert get(program, "--debug-address", "/").status_code == 200
        exposition = get(program, "--metrics-address", "/metrics").text
        # Connections to the API server have descriptors reserved.
        duty(world)
    for port in ("health", "metrics", "debug"):
        # On a slow machine they end for their deadline before there are more than the port takes.
        series = (
            f'koord_queue_port_connections_total{{outcome="{outcome}",port="{port}"}}'
            for outcome in ("evicted", "late")
        )
        assert any(each in exposition for each in series)


def test_with_too_few_open_files_it_does_not_start_and_reports_how_many(world: QueueWorld) -> None:
    code = (
        "import resource, runpy, sys; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv.pop(1)),) * 2); "
        "runpy.run_module('queue_scheduler', run_name='__main__')"
    )
    flags = [f"{flag}=127.0.0.1:0" for flag in FLAGS]
    done = subprocess.run(
        [sys.executable, "-c", code, "200", f"--kubeconfig={world.plane.kubeconfig}", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert done.returncode == EXIT_USAGE
    assert "error: the process may open 200 files, at least 352 are needed" in done.stderr


@pytest.mark.parametrize("program", DUTIES, indirect=True)
def test_a_few_half_sent_requests_delay_no_probe(program: ProgramProcess) -> None:
    """18 once kept `/livez` from answering for 39 s."""
    with half_open(program, 18):
        for _ in range(20):
            assert get(program, "--health-address", "/livez").text == "ok"
