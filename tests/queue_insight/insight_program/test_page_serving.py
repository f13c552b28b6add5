"""The insight program with its page, as one: on loopback, and with TLS where others reach it."""

from __future__ import annotations

import json
import random
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_program import page_serving
from queue_insight.insight_program.flags import parse_insight_flags
from queue_insight.insight_program.recording import FILE
from queue_insight.page.event_stream import MAX_STREAMS
from queue_insight.record.record_file import open_store
from shared_api.exit_codes import EXIT_USAGE
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import SystemClock
from shared_api.testing.virtual_clock import VirtualClock
from tests.process_state import process_as_before
from tests.queue_insight.insight_kit import sending
from tests.queue_insight.insight_process import PATIENCE_SECONDS, follow, running
from tests.queue_insight.insight_program.test_visibility_serving import write_kubeconfig
from tests.queue_insight.page.page_kit import Browser
from tests.tls_files import CA, CERTIFICATE, KEY

TLS = (f"--page-tls-certificate={CERTIFICATE}", f"--page-tls-key={KEY}")


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with process_as_before():
        yield


def port_of(log: str) -> int:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    (port,) = (line["port"] for line in lines if line.get("flag") == "--page-address")
    return int(port)


def test_a_page_with_a_stream_has_a_connection_for_what_it_asks() -> None:
    assert page_serving.CONNECTIONS >= 2 * MAX_STREAMS


def test_the_page_is_off_by_default(tmp_path: Path) -> None:
    assert parse_insight_flags([f"--socket-dir={tmp_path}"]).page is None


def test_on_loopback_whoever_reaches_it_reads_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--page-address=127.0.0.1:0", "--page-hosts=desk, Other", f"--record-dir={tmp_path}")
    with running(tmp_path, *flags) as (insight, local), sending(tmp_path) as sender:
        url = f"http://127.0.0.1:{port_of(capsys.readouterr().err)}"
        with Browser(url) as client:
            assert client.get("/page/overview").status_code == 503, "there is no state yet"
            sender.add_unit("a")
            follow(sender, local)
            want = {"user": "", "login": False, "readsAll": True, "whatIf": True}
            assert client.get("/page/session").json() == want
            got = client.get("/page/overview").json()
            assert [each["name"] for each in got["queues"]] == ["team"]
            assert got["record"] is not None
            unit = client.get("/page/units/default/a").json()
            assert unit["log"] is not None
            assert client.get("/page/quotas/team").json()["quota"]["name"] == "team"
            codes = [client.get("/", headers={"host": host}).status_code
                     for host in ("localhost", "desk:1", "other", "evil")]  # fmt: skip
            assert codes == [200, 200, 200, 421]
            assert "page" not in {thread.name for thread in insight.threads()}


def test_jobs_that_have_ended_are_those_of_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = SystemClock().now().timestamp()
    with closing(open_store(tmp_path / FILE, now)) as store:
        store.add_finished(
            FinishedRun(unit="default/b", uid="b", charge={}, created=now - 9.0, ended=now - 5.0)
        )
        store.commit(store.begin_stretch(now), now)
    flags = ("--page-address=127.0.0.1:0", f"--record-dir={tmp_path}")
    with running(tmp_path, *flags) as (_, local), sending(tmp_path) as sender:
        url = f"http://127.0.0.1:{port_of(capsys.readouterr().err)}"
        sender.add_unit("a")
        follow(sender, local)
        with Browser(url) as client:
            got = client.get("/page/jobs?sort=name").json()
    assert [(each["name"], each["state"]) for each in got["units"]] == [
        ("a", "waiting"),
        ("b", "finished"),
    ]


def test_where_others_reach_it_visitors_log_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(7))
    server.reviews.users["ann-token"] = {"username": "ann"}
    with server.serve_http() as face:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", face.url)
        flags = ("--page-address=0.0.0.0:0", *TLS, f"--kubeconfig={kubeconfig}")
        with running(tmp_path, *flags):
            url = f"https://127.0.0.1:{port_of(capsys.readouterr().err)}"
            verify = ssl.create_default_context(cafile=CA)
            sent = {"origin": url}
            with httpx.Client(
                base_url=url, verify=verify, headers=sent, timeout=PATIENCE_SECONDS, trust_env=False
            ) as client:
                assert client.get("/page/overview").status_code == 401
                assert client.get("/").status_code == 200
                assert client.post("/page/session", json={"token": "x"}).status_code == 401
                assert client.post("/page/session", json={"token": "ann-token"}).status_code == 200
                # The client keeps the cookie and sends it back, since it came over TLS.
                assert client.get("/page/session").json()["user"] == "ann"
        face.wait_for_clients()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--page-address=0.0.0.0:0"], "needs --page-tls-certificate and --page-tls-key"),
        (["--page-address=127.0.0.1:0", TLS[0]], "--page-tls-key go together"),
        (["--page-address=here"], "--page-address: 'here' is not HOST:PORT"),
    ],
)
def test_flags_that_do_not_fit(tmp_path: Path, flags: list[str], said: str) -> None:
    command = [sys.executable, "-m", "queue_insight.insight_program", f"--socket-dir={tmp_path}"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USAGE
    assert said in done.stderr.splitlines()[-1]
