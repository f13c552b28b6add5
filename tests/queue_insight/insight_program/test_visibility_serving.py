"""The insight program with its aggregated API, as one: it finds the API server by a kubeconfig."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared_api.exit_codes import EXIT_USAGE
from shared_api.fake_api_server.server import FakeApiServer
from tests.process_state import process_as_before
from tests.queue_insight.insight_kit import sending
from tests.queue_insight.insight_process import PATIENCE_SECONDS, follow, running
from tests.queue_insight.visibility.server_kit import (
    API_SERVICE,
    LIST,
    PROXY,
    build_fake_server,
)
from tests.waiting import until

SERVICE = "--visibility-service=queue/insight:9443"
ADDRESS = "--visibility-address=127.0.0.1:0"


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with process_as_before():
        yield


def write_kubeconfig(path: Path, url: str) -> Path:
    named = {"name": "test"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": "x"}}],
        "contexts": [{**named, "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config))
    return path


def spec_of(server: FakeApiServer) -> dict[str, Any]:
    spec: dict[str, Any] = server.direct.get("apiservices", API_SERVICE)["spec"]
    return spec


def ask(server: FakeApiServer, port: int, folder: Path) -> httpx.Response:
    """Ask as the API server does, for a caller of its own."""
    context = ssl.create_default_context(cadata=b64decode(spec_of(server)["caBundle"]).decode())
    context.load_cert_chain(*PROXY.write(folder, "proxy"))
    with httpx.Client(verify=context, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        return client.get(
            f"https://127.0.0.1:{port}{LIST.replace('team', 'default')}",
            headers={"X-Remote-User": "ann"},
            extensions={"sni_hostname": "insight.queue.svc"},
        )


def test_it_publishes_itself_and_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = build_fake_server()
    with server.serve_http() as face:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", face.url)
        flags = (ADDRESS, SERVICE, f"--kubeconfig={kubeconfig}")
        with running(tmp_path, *flags) as (insight, local), sending(tmp_path) as sender:
            sender.add_unit("a")
            follow(sender, local)
            until(lambda: "caBundle" in spec_of(server))
            (port,) = ports_of(capsys.readouterr().err)
            answer = ask(server, port, tmp_path)
            assert answer.status_code == 200
            assert [each["metadata"]["name"] for each in answer.json()["items"]] == ["a"]
            names = {thread.name for thread in insight.threads()}
            assert {"visibility-server", "visibility-upkeep"} <= names
            assert "visibility-api" not in names, "it is in one step forever"
        assert not server.direct.exists("apiservices", API_SERVICE)
        face.wait_for_clients()


def ports_of(log: str) -> list[int]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line["port"] for line in lines if line.get("flag") == "--visibility-address"]


def test_without_an_api_server_it_does_not_start(tmp_path: Path) -> None:
    module = "queue_insight.insight_program"
    flags = [f"--socket-dir={tmp_path}", ADDRESS, SERVICE, f"--kubeconfig={tmp_path / 'none'}"]
    command = [sys.executable, "-m", module, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USAGE
    assert done.stderr.splitlines()[-1].startswith("error: ")
