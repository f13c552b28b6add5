"""The common frame of both programs: start, election, probes, metrics, signals, end."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import msgspec
import pytest

from shared_api.authorization.rights import PathRight
from shared_api.client import resource_client
from shared_api.client.connection_settings import SettingsError
from shared_api.client.flow_control import Lane
from shared_api.exit_codes import EXIT_USAGE
from shared_api.fake_api_server.faults import EVERY_TIME, Match, RequestInfo
from shared_api.fake_api_server.http_server import HttpFace
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.leader_election import EXIT_LOST_LEASE, LeaseSettingError
from shared_api.local_program import STOP_SIGNALS, Check
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread
from shared_api.process.open_files import OpenFilesError
from shared_api.process.probes import AddressError
from shared_api.program import Program, run_program
from shared_api.program_flags import FlagError, ProgramFlags
from tests.process_state import process_as_before
from tests.tls_files import CERTIFICATE, KEY, client_context

PATIENCE_SECONDS = 60.0
FLAGS = ProgramFlags(
    kubeconfig=None,
    context=None,
    health_address="127.0.0.1:0",
    metrics_address="127.0.0.1:0",
    metrics_secure=False,
    metrics_tls_certificate="",
    metrics_tls_key="",
    leader_elect=False,
    lease_name="lease",
    lease_namespace="default",
    lease_seconds=15,
    renew_deadline_seconds=10.0,
    retry_seconds=2.0,
    qps=0.0,
    burst=1,
    writers=1,
    log_format="json",
    log_level="info",
)
FAST_LEASE = {"leader_elect": True, "lease_seconds": 5, "renew_deadline_seconds": 1.0}
"""A lease that is lost a second after the last renewal."""
SAFE_LEASE = {"leader_elect": True, "lease_seconds": 40, "renew_deadline_seconds": 30.0}
"""Long enough for a busy machine, and shorter than a minute of Retry-After."""


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with process_as_before():
        yield


@pytest.fixture
def server() -> FakeApiServer:
    return FakeApiServer(clock=SystemClock(), rng=random.Random(7), waits=True)


@pytest.fixture
def face(server: FakeApiServer) -> Iterator[HttpFace]:
    with server.serve_http() as face:
        yield face


class StubWork:
    """A `Work` that runs a script on its own thread once it leads, then ends the program."""

    def __init__(self, program: Program, script: Callable[[StubWork], None] | None) -> None:
        self.program = program
        self.story: list[str] = []
        self.is_ready = True
        self.while_stopping: Callable[[], None] = lambda: None
        self._script = script
        self.thread = program.spawn("script", self._run)

    def start(self) -> None:
        self.story.append("start")

    def stop(self) -> None:
        self.story.append("stop")
        self.while_stopping()

    def on_started_leading(self) -> None:
        self.story.append("leading")
        if self._script is not None:
            self.thread.start()

    def ready_checks(self) -> Mapping[str, Check]:
        return {"stub": lambda: (self.is_ready, "as the test says")}

    def threads(self) -> Sequence[LoopThread]:
        return [self.thread] if self._script is not None else []

    def _run(self) -> float | None:
        assert self._script is not None
        try:
            self._script(self)
        finally:
            self.program.stop()
        return None


class Runner:
    """Runs programs with the fake server, and knows the ports on which they listen."""

    def __init__(self, face: HttpFace, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._kubeconfig = folder / "kubeconfig"
        self._capsys = capsys
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": face.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self._kubeconfig.write_text(json.dumps(config))
        self._log = ""

    def program(self, **changes: object) -> Program:
        flags = msgspec.structs.replace(FLAGS, kubeconfig=str(self._kubeconfig), **changes)
        return Program("stub", flags)

    def run(
        self, script: Callable[[StubWork], None] | None = None, **changes: object
    ) -> tuple[int, StubWork]:
        """Run a program to its end; return its exit code and its work."""
        program = self.program(**changes)
        work = StubWork(program, script)
        code = program.run(work)
        if script is not None:
            work.thread.stop()
        return code, work

    def port(self, flag: str) -> int:
        """Return the port of a flag's address, from the log."""
        self._log += self._capsys.readouterr().err
        for line in reversed(self._log.splitlines()):
            event = json.loads(line)
            if event.get("flag") == flag:
                return int(event["port"])
        raise AssertionError(f"{flag} is not in the log: {self._log}")


@pytest.fixture
def runner(face: HttpFace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(face, tmp_path, capsys)


def get(url: str, **more: object) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, **more) as client:  # type: ignore[arg-type] # options of httpx
        return client.get(url)


def test_the_order_of_start_and_end(runner: Runner) -> None:
    code, work = runner.run(lambda _: None)
    assert code == 0
    assert work.story == ["start", "leading", "stop"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(runner: Runner, number: signal.Signals) -> None:
    code, work = runner.run(lambda _: os.kill(os.getpid(), number))
    assert (code, work.story[-1]) == (0, "stop")


def test_probes_and_metrics_answer_while_it_runs(runner: Runner) -> None:
    seen: dict[str, tuple[int, str]] = {}

    def script(work: StubWork) -> None:
        health = f"http://127.0.0.1:{runner.port('--health-address')}"
        metrics = f"http://127.0.0.1:{runner.port('--metrics-address')}"
        for name, url in (
            ("live", f"{health}/livez?verbose"),
            ("ready", f"{health}/readyz?verbose"),
            ("metrics", f"{metrics}/metrics"),
        ):
            answer = get(url)
            seen[name] = (answer.status_code, answer.text)
        work.is_ready = False
        seen["unready"] = (get(f"{health}/readyz").status_code, "")
        url = f"{health}/readyz?verbose"
        work.while_stopping = lambda: seen.update(stopping=(0, get(url).text))

    runner.run(script)
    assert seen["live"][0] == 200
    assert "[+]threads ok" in seen["live"][1]
    assert seen["ready"][0] == 200
    assert "[+]stub ok: as the test says" in seen["ready"][1]
    assert "[+]leadership ok: leader: " in seen["ready"][1]
    assert "[+]not-stopping ok: running" in seen["ready"][1]
    assert seen["unready"][0] == 500
    assert "[-]not-stopping failed: stopping" in seen["stopping"][1]
    assert seen["metrics"][0] == 200
    assert "koord_queue_" in seen["metrics"][1]


def test_metrics_over_tls(runner: Runner) -> None:
    seen: list[int] = []

    def script(_: StubWork) -> None:
        trusted = client_context()
        port = runner.port("--metrics-address")
        seen.append(get(f"https://127.0.0.1:{port}/metrics", verify=trusted).status_code)
        health = runner.port("--health-address")
        seen.append(get(f"http://127.0.0.1:{health}/livez").status_code)

    runner.run(
        script,
        metrics_tls_certificate=CERTIFICATE,
        metrics_tls_key=KEY,
    )
    assert seen == [200, 200]


def test_secure_metrics_require_a_token_and_the_right_to_get_them(
    runner: Runner, server: FakeApiServer
) -> None:
    server.reviews.users.update(
        ann={"username": "ann", "groups": []}, bob={"username": "bob", "groups": []}
    )
    server.reviews.allows = lambda spec: (
        (spec["user"], spec["nonResourceAttributes"]["path"]) == ("ann", "/metrics")
    )
    seen: list[int] = []

    def script(_: StubWork) -> None:
        url = f"http://127.0.0.1:{runner.port('--metrics-address')}/metrics"
        tokens = ("", "Bearer nobody", "Bearer bob", "Bearer ann")
        answers = [get(url, headers={"Authorization": token}) for token in tokens]
        seen.extend(answer.status_code for answer in answers)

    runner.run(script, metrics_secure=True)
    assert seen == [401, 401, 403, 200]


def test_reviews_of_unknown_tokens_do_not_use_the_rate_of_the_work(
    runner: Runner, server: FakeApiServer
) -> None:
    match = Match(verb="create", plural="tokenreviews")
    server.faults.fail(429, times=1, match=match, retry_after_seconds=60)
    seen: list[float] = []

    def script(work: StubWork) -> None:
        program = work.program
        seen.extend(
            program.authorizer.judge_bearer(f"Bearer {token}", PathRight("/metrics")).status
            for token in "ab"
        )
        seen.append(program.flow.seconds_until(Lane.NORMAL))

    runner.run(script, qps=0.1, burst=1)
    assert seen == [503, 503, 0.0], "only the client for reviews is held"


def test_a_review_without_an_answer_keeps_a_reader_for_seconds_only(
    runner: Runner, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_client, "WRITE_SECONDS", 0.5)
    server.faults.delay(8.0, times=EVERY_TIME, match=Match(plural="tokenreviews"))
    program, clock = runner.program(), SystemClock()
    began = clock.monotonic()
    result = program.authorizer.judge_bearer("Bearer ann", PathRight("/metrics"))
    assert (result.status, clock.monotonic() - began < 4.0) == (503, True)


def test_full_caches_are_passed_over_by_the_garbage_collector(runner: Runner) -> None:
    class Node:
        """Part of a cycle."""

    program = runner.program()
    garbage = Node()
    garbage.itself = garbage  # type: ignore[attr-defined] # made to be found by the collector
    gone = weakref.ref(garbage)
    del garbage
    cache = {"kept": [1]}
    program.on_prepared(1.5)
    assert gone() is None, "what is garbage by then would never be collected"
    assert all(each is not cache for each in gc.get_objects())
    assert gc.get_freeze_count() > 0


def test_of_two_replicas_the_second_leads_when_the_first_has_ended(
    runner: Runner, server: FakeApiServer
) -> None:
    holders: list[str] = []

    def script(_: StubWork) -> None:
        lease = server.direct.get("leases", "lease", "default")
        holders.append(lease["spec"]["holderIdentity"])

    for _ in range(2):
        code, work = runner.run(script, leader_elect=True)
        assert (code, work.story) == (0, ["start", "leading", "stop"])
    assert len(set(holders)) == 2
    lease = server.direct.get("leases", "lease", "default")
    assert lease["spec"]["holderIdentity"] == ""


def test_a_busy_server_does_not_cost_the_lease(runner: Runner, server: FakeApiServer) -> None:
    """Its Retry-After is longer than a lease; the election keeps its own pace."""
    renewals: list[bool] = []
    renewed_again = threading.Event()

    def is_refused(_: RequestInfo) -> bool:
        renewals.append(len(renewals) < 2)
        if len(renewals) > 4:
            renewed_again.set()
        return renewals[-1]

    match = Match(verb="patch", plural="leases", when=is_refused)
    server.faults.fail(429, times=EVERY_TIME, match=match, retry_after_seconds=60)

    def script(_: StubWork) -> None:
        assert renewed_again.wait(PATIENCE_SECONDS)

    code, work = runner.run(script, retry_seconds=0.2, **SAFE_LEASE)
    assert renewed_again.is_set()
    assert (code, work.story) == (0, ["start", "leading", "stop"])


def test_a_lost_lease_ends_it_with_a_distinct_code(runner: Runner, server: FakeApiServer) -> None:
    """The script runs until the election ends the program."""
    program = runner.program(retry_seconds=0.2, **FAST_LEASE)
    work = StubWork(program, None)
    server.faults.fail(503, times=EVERY_TIME, match=Match(verb="patch", plural="leases"))
    assert program.run(work) == EXIT_LOST_LEASE
    assert work.story == ["start", "leading", "stop"]


def test_a_port_in_use_is_refused_before_any_work_starts(runner: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = runner.program(health_address=f"127.0.0.1:{port}")
        work = StubWork(program, None)
        with pytest.raises(AddressError, match=f"--health-address: .*:{port} is already in use"):
            program.run(work)
    assert work.story == []


@pytest.mark.parametrize(
    "error",
    [
        FlagError("--x makes no sense"),
        SettingsError("no kubeconfig"),
        AddressError("--health-address: in use"),
        LeaseSettingError("too short"),
        OpenFilesError("the process may open 200 files"),
    ],
)
def test_a_configuration_error_is_one_line_and_exit_code_2(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_: Sequence[str]) -> int:
        raise error

    assert run_program(main, []) == EXIT_USAGE
    assert capsys.readouterr().err == f"error: {error}\n"


def test_the_exit_code_of_a_program_is_returned() -> None:
    assert run_program(len, ["a", "b", "c"]) == 3


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_while_the_program_is_built_ends_it_with_0(number: signal.Signals) -> None:
    def main(_: Sequence[str]) -> int:
        signal.raise_signal(number)
        return 1

    with pytest.raises(SystemExit) as ended:
        run_program(main, [])
    assert ended.value.code == 0
