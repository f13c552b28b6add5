"""kubectl forwards a port for as long as a command runs; here a script stands in for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from koord_queue.reach.choice import Choice
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.errors import NotServed
from koord_queue.reach.port_forward import CONTROLLERS, SCHEDULER, PortForwards, forward
from shared_api.client.transport import Response
from shared_api.process.clock import SystemClock
from tests.koord_queue.reach.test_cluster import Server

LISTENS = 'echo "Forwarding from 127.0.0.1:41234 -> 19876"; exec sleep 60'
"""The line as kubectl prints it: client-go, tools/portforward, `Forwarding from %s:%d -> %d`."""


def stand_in(folder: Path, does: str) -> None:
    """Write a kubectl that notes its arguments and process id, and then does that."""
    script = folder / "kubectl"
    notes = f'echo "$@" > {folder}/arguments; echo $$ > {folder}/pid'
    script.write_text(f"#!/bin/sh\n{notes}\n{does}\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


def cluster(*, may: bool = True, holder: str = "koord-queue-7d-x2_4f2a") -> Cluster:
    review = msgspec.json.encode({"status": {"allowed": may}})
    lease = msgspec.json.encode({"spec": {"holderIdentity": holder}})
    return Cluster(Server(Response(201, {}, review), Response(200, {}, lease)), "default", "api")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on the path."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def is_running(folder: Path) -> bool:
    pid = int((folder / "pid").read_text())
    return Path(f"/proc/{pid}").exists()


def test_it_leads_to_the_pod_that_decides_and_ends_with_the_command(folder: Path) -> None:
    stand_in(folder, LISTENS)
    choice = Choice(context="prod", as_user="ann", as_groups=("admins",))
    forwarded = forward(choice, cluster(), SystemClock(), SCHEDULER)
    assert forwarded.url == "http://127.0.0.1:41234"
    assert (folder / "arguments").read_text().split() == [
        "--context=prod", "--as=ann", "--as-group=admins", "--namespace", "koord-queue",
        "port-forward", "--address", "127.0.0.1", "pod/koord-queue-7d-x2", ":19876",
    ]  # fmt: skip
    assert is_running(folder)
    forwarded.close()
    assert not is_running(folder)


def test_those_of_a_command_start_once_and_end_together(folder: Path) -> None:
    stand_in(folder, LISTENS)
    forwards = PortForwards(Choice(), cluster, SystemClock())
    assert not (folder / "pid").exists()
    want = "http://127.0.0.1:41234"
    assert forwards.url(SCHEDULER) == want
    first = (folder / "pid").read_text()
    assert forwards.url(SCHEDULER) == want
    assert (folder / "pid").read_text() == first
    assert forwards.url(CONTROLLERS) == want
    assert is_running(folder)
    forwards.close()
    assert not is_running(folder)
    assert not Path(f"/proc/{int(first)}").exists()


def test_without_a_leader_any_pod_is_asked(folder: Path) -> None:
    stand_in(folder, LISTENS)
    forward(Choice(), cluster(holder=""), SystemClock(), SCHEDULER).close()
    assert "deployment/koord-queue" in (folder / "arguments").read_text()


@pytest.mark.parametrize("holder", ["koord-queue-controllers-7d-x2_4f2a", ""])
def test_the_controllers_have_their_own_lease_and_port(folder: Path, holder: str) -> None:
    stand_in(folder, LISTENS)
    asked = cluster(holder=holder)
    forward(Choice(), asked, SystemClock(), CONTROLLERS).close()
    target = "pod/koord-queue-controllers-7d-x2" if holder else "deployment/koord-queue-controllers"
    assert (folder / "arguments").read_text().split()[-2:] == [target, ":19877"]


def test_what_kubectl_says_is_told(folder: Path) -> None:
    stand_in(folder, 'echo "error: pod is not running" >&2; exit 1')
    with pytest.raises(NotServed, match="port-forward failed: error: pod is not running"):
        forward(Choice(), cluster(), SystemClock(), SCHEDULER)


def test_whoever_may_not_is_not_asked_to_try(folder: Path) -> None:
    stand_in(folder, LISTENS)
    with pytest.raises(NotServed, match="you may not forward ports in namespace koord-queue"):
        forward(Choice(), cluster(may=False), SystemClock(), SCHEDULER)
    assert not (folder / "pid").exists()


def test_without_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotServed, match="there is no kubectl"):
        forward(Choice(), cluster(), SystemClock(), SCHEDULER)
