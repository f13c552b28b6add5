"""The control plane of cluster tests works as they rely on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.queue_world import OWN_TIMES_SECONDS
from tests.controlplane import control_plane
from tests.controlplane.binaries import chosen_kubernetes, require_binaries
from tests.controlplane.control_plane import ControlPlane, ControlPlaneFailed, KubectlFailed
from tests.required_tools import require
from tests.waiting import until


@pytest.fixture(scope="module")
def binaries() -> Path:
    return require(require_binaries, "the real control plane")


@pytest.fixture(scope="module")
def plane(binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(
        binaries,
        controller_manager=True,
        scheduler=True,
        kwok=True,
        nodes=2,
        users={"ann": ["team-a"]},
    ) as running:
        yield running


def job(name: str, **annotations: str) -> str:
    marks = {f"koord-queue.test/{key.replace('_', '-')}": to for key, to in annotations.items()}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    spec = {
        "suspend": True,
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": marks}, "spec": pod},
    }
    return json.dumps(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    )


def resume(plane: ControlPlane, name: str) -> None:
    plane.kubectl("patch", "job", name, "--type=merge", "--patch", '{"spec":{"suspend":false}}')


def pod_phases(plane: ControlPlane, name: str) -> list[str]:
    path = f"/api/v1/namespaces/default/pods?labelSelector=job-name%3D{name}"
    return [pod["status"]["phase"] for pod in plane.client_for().request("GET", path)["items"]]


def status_of(plane: ControlPlane, name: str) -> dict[str, Any]:
    path = f"/apis/batch/v1/namespaces/default/jobs/{name}"
    status: dict[str, Any] = plane.client_for().request("GET", path)["status"]
    return status


def may_list_pods(plane: ControlPlane, user: str) -> bool:
    try:
        plane.kubectl("get", "pods", user=user)
    except KubectlFailed as error:
        if "Forbidden" not in str(error):
            raise
        return False
    return True


def process_is_gone(pid: int) -> bool:
    # A process whose parent was killed may stay as a zombie where nothing reaps it.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_it_is_ready_and_reports_its_version(plane: ControlPlane) -> None:
    assert plane.kubectl("get", "--raw", "/readyz") == "ok"
    version = json.loads(plane.kubectl("version", "--output=json"))["serverVersion"]
    assert version["gitVersion"] == chosen_kubernetes()
    assert chosen_kubernetes().startswith(f"v{version['major']}.{version['minor']}.")


def test_programs_inherit_only_gogc_from_the_users_environment(
    plane: ControlPlane,
) -> None:
    want = {"PATH": os.environ["PATH"], "HOME": str(plane.folder)}
    if percent := os.environ.get(control_plane.GARBAGE_PERCENT):
        want["GOGC"] = percent
    for pid in plane.pids.values():
        lines = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
        assert dict(line.split("=", 1) for line in lines) == want


def test_a_suspended_job_is_resumed_runs_and_completes(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--filename=-", input=job("good", run_seconds="6"))
    until(
        lambda: status_of(plane, "good").get("conditions", [{}])[0].get("status") == "True",
        OWN_TIMES_SECONDS,
    )
    assert pod_phases(plane, "good") == []

    resume(plane, "good")
    until(lambda: pod_phases(plane, "good") == ["Running"] * 2, OWN_TIMES_SECONDS)
    until(lambda: pod_phases(plane, "good") == ["Succeeded"] * 2, OWN_TIMES_SECONDS)
    until(lambda: status_of(plane, "good").get("succeeded") == 2, OWN_TIMES_SECONDS)


def test_a_pod_fails_by_annotation(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--filename=-", input=job("bad", run_seconds="0", outcome="Failed"))
    resume(plane, "bad")
    until(lambda: pod_phases(plane, "bad") == ["Failed"] * 2, OWN_TIMES_SECONDS)
    until(lambda: status_of(plane, "bad").get("failed") == 2, OWN_TIMES_SECONDS)


def test_a_deleted_pod_goes_away(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--filename=-", input=job("long", run_seconds="3600"))
    resume(plane, "long")
    until(lambda: pod_phases(plane, "long") == ["Running"] * 2, OWN_TIMES_SECONDS)
    plane.kubectl("delete", "job", "long", "--timeout=100s")
    until(lambda: pod_phases(plane, "long") == [], OWN_TIMES_SECONDS)


def test_nodes_are_ready_and_have_the_requested_size(plane: ControlPlane) -> None:
    names = plane.create_nodes(2, "8", "32Gi", {"nvidia.com/gpu": "4"}, name_prefix="gpu")
    assert names == ["gpu-0", "gpu-1"]
    plane.kubectl("wait", "--for=condition=Ready", "--timeout=100s", "node/gpu-0", "node/gpu-1")
    status = plane.client_for().request("GET", "/api/v1/nodes/gpu-1")["status"]
    want = {"cpu": "8", "memory": "32Gi", "pods": "1k", "nvidia.com/gpu": "4"}
    assert status["allocatable"] == want


def test_a_user_has_the_rights_of_its_groups_only(plane: ControlPlane) -> None:
    assert not may_list_pods(plane, "ann")
    plane.kubectl("create", "rolebinding", "view", "--clusterrole=view", "--group=team-a")
    until(lambda: may_list_pods(plane, "ann"), OWN_TIMES_SECONDS)


@pytest.mark.parametrize("crash", [True, False], ids=["after a crash", "asked to end"])
def test_objects_survive_a_restart_of_the_api_server(plane: ControlPlane, crash: bool) -> None:
    name = f"kept-{crash}".lower()
    plane.kubectl("create", "configmap", name)
    address, pids = plane.url, plane.pids
    if crash:
        plane.kill_api_server()
        assert not plane.client_for().is_ready()
        assert "kube-apiserver" not in plane.pids
    plane.restart_api_server()
    assert plane.kubectl("get", "configmap", name, "--output=name").strip() == f"configmap/{name}"
    assert plane.url == address
    changed = {program for program, pid in plane.pids.items() if pid != pids[program]}
    assert changed == {"kube-apiserver"}


def test_stop_leaves_no_process_and_no_folder(binaries: Path) -> None:
    plane = ControlPlane(binaries)
    plane.start()
    folder, pids = plane.folder, plane.pids
    assert set(pids) == {"etcd", "kube-apiserver"}
    plane.stop()
    assert not folder.exists()
    assert all(map(process_is_gone, pids.values()))
    plane.stop()


def test_no_process_survives_tests_that_are_killed(binaries: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from tests.controlplane.control_plane import ControlPlane\n"
        "plane = ControlPlane(Path(sys.argv[1])); plane.start()\n"
        "print(plane.folder, *plane.pids.values(), flush=True); time.sleep(300)\n"
    )
    tests = subprocess.Popen(
        [sys.executable, "-c", program, str(binaries)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with tests:
        assert tests.stdout is not None
        folder, *pids = tests.stdout.readline().split()
        tests.send_signal(signal.SIGKILL)
    until(lambda: all(process_is_gone(int(pid)) for pid in pids), OWN_TIMES_SECONDS)
    until(lambda: not Path(folder).exists(), OWN_TIMES_SECONDS)


def test_a_port_that_was_taken_meanwhile_is_replaced_by_another(
    binaries: Path, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = control_plane._free_ports  # noqa: SLF001 - there is no other way to lose the race
    tried: list[object] = []

    def taken_at_first() -> object:
        ports = choose()
        if not tried:
            ports.api_server = int(plane.url.rpartition(":")[2])
        tried.append(ports)
        return ports

    monkeypatch.setattr(control_plane, "_free_ports", taken_at_first)
    with ControlPlane(binaries) as other:
        assert other.url != plane.url
    assert len(tried) == 2


def test_a_failed_start_reports_why_and_leaves_nothing(binaries: Path) -> None:
    plane = ControlPlane(binaries, api_server_flags=["--no-such-flag"])
    with pytest.raises(ControlPlaneFailed, match="no-such-flag"):
        plane.start()
    assert plane.pids == {}
