"""A reader's shell session on a real control plane, from the installation with Helm on.

kwok plays the kubelets, so the pods of the chart's Deployments are Ready and do nothing. When the
reader installs the chart, its programs start as processes of this machine, with the flags,
configuration files and service accounts of the Deployments that Helm has created.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import yaml

from tests.charts.render import helm_binary
from tests.cluster.page_commands import run_in_shell
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.controlplane.control_plane import ControlPlane
from tests.docs.page_steps import Command, File, steps
from tests.tidy.source_tree import ROOT
from tests.waiting import PATIENCE_SECONDS

Json = dict[str, Any]

NAMESPACE: Final = "koord-queue"
PROGRAMS: Final = {"koord-queue": SCHEDULER, "koord-queue-controllers": CONTROLLERS}
"""The module of each Deployment."""

_OWN_ADDRESSES: Final = ("--health-address=", "--metrics-address=", "--debug-address=")
_CONFIG: Final = "--config="
_LOOKS: Final = re.compile(
    r"kubectl (?:-\S+ \S+ |--\S+ \S+ )*(?:get|describe)\b"
    r"|curl (?!.*--data)"
    r"|koord-queue (?:units|queues|tree|top|describe|explain|when|try|what-if|check)\b"
)
"""Commands that change nothing: what they show may come a moment later."""


class Session:
    """One reader: a folder, a kubeconfig, and the programs that run.

    Args:
        plane: The cluster.
        folder: Where commands run, and files are saved.
        server: URL of the debug API, if programs run that the reader has not installed.
    """

    def __init__(self, plane: ControlPlane, folder: Path, *, server: str = "") -> None:
        self._plane = plane
        self._folder = folder
        self._server = server
        self._programs: list[ProgramProcess] = []
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        for name in ("charts", "tests"):
            (folder / name).symlink_to(ROOT / name)

    def read(self, page: str) -> None:
        """Do what a page says, and check that everything shows what the page shows."""
        for step in steps(page):
            match step:
                case File(name=name, text=text):
                    (self._folder / name).write_text(playable(text), encoding="utf-8")
                case Command():
                    self.type(step)

    def type(self, command: Command) -> None:
        """Run a command, and start or stop programs as it says."""
        if command.text.startswith("helm uninstall"):
            self.stop()
        done = self._run(command.text)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while _LOOKS.match(command.text) and (done.returncode or command.missing(done.stdout)):
            assert time.monotonic() < deadline, self._difference(command, done)
            time.sleep(0.2)
            done = self._run(command.text)
        assert not done.returncode, self._difference(command, done)
        assert not command.missing(done.stdout), self._difference(command, done)
        if command.text.startswith(("helm install", "helm upgrade")):
            self.stop()
            self._start()

    def stop(self) -> None:
        """End the programs."""
        while self._programs:
            self._programs.pop().stop()

    def _difference(self, command: Command, done: CompletedProcess[str]) -> str:
        """Return what is missing, with the end of what the cluster and the programs say."""
        missing = command.missing(done.stdout)
        shown = f"{command.text}\nis to show {missing}\nbut shows\n{done.stdout}{done.stderr}"
        events = self._plane.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp")
        logs = "\n".join(program.log()[-2000:] for program in self._programs)
        return f"{shown}\n{events[-4000:]}\n{logs}"

    def _run(self, command: str) -> CompletedProcess[str]:
        environment = {
            "KUBECONFIG": str(self._kubeconfig),
            "PATH": str(helm_binary().parent),
            "TZ": "UTC",
        }
        if server := self._server or self._debug_api():
            environment["KOORD_QUEUE_SERVER"] = server
        return run_in_shell(command, self._folder, self._plane.binaries, environment)

    def _debug_api(self) -> str:
        """Return the URL of the scheduler's: there is no kubelet to forward its port."""
        if not self._programs:
            return ""
        return f"http://127.0.0.1:{self._programs[0].port_of('--debug-address')}"

    def _start(self) -> None:
        found = json.loads(self._plane.kubectl("get", "deployments", "-n", NAMESPACE, "-o", "json"))
        for each in sorted(found["items"], key=lambda each: str(each["metadata"]["name"])):
            program = self._program(each["metadata"]["name"], each["spec"]["template"]["spec"])
            self._programs.append(program)
            program.start()
        for program in self._programs:
            program.wait_until_ready()

    def _program(self, name: str, pod: Json) -> ProgramProcess:
        arguments = [
            f"{_CONFIG}{self._config(name)}" if each.startswith(_CONFIG) else each
            for each in pod["containers"][0]["args"]
            if not each.startswith(_OWN_ADDRESSES)
        ]
        kubeconfig = self._kubeconfig_of(pod["serviceAccountName"])
        return ProgramProcess(PROGRAMS[name], kubeconfig, self._folder / f"{name}.log", arguments)

    def _config(self, name: str) -> Path:
        found = json.loads(
            self._plane.kubectl("get", "configmap", name, "-n", NAMESPACE, "-o", "json")
        )
        file = self._folder / f"{name}-config.yaml"
        file.write_text(found["data"]["config.yaml"], encoding="utf-8")
        return file

    def _kubeconfig_of(self, account: str) -> Path:
        token = self._plane.kubectl("create", "token", account, "-n", NAMESPACE).strip()
        config = json.loads(self._plane.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": token}
        file = self._folder / f"{account}.kubeconfig"
        file.write_text(json.dumps(config), encoding="utf-8")
        return file


@contextmanager
def session(plane: ControlPlane, folder: Path, *, server: str = "") -> Iterator[Session]:
    """Open a session; the programs that it has started end with it."""
    opened = Session(plane, folder, server=server)
    try:
        yield opened
    finally:
        opened.stop()


def playable(text: str) -> str:
    """Return a manifest whose pods kwok plays as their commands say.

    A container that sleeps N seconds runs for so long, and kube-scheduler places what would be
    koord-scheduler's.
    """
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        template = document.get("spec", {}).get("template")
        if template is None:
            continue
        template["spec"].pop("schedulerName", None)
        sleep, seconds = template["spec"]["containers"][0]["command"]
        assert sleep == "sleep"
        notes = template.setdefault("metadata", {}).setdefault("annotations", {})
        notes["koord-queue.test/run-seconds"] = str(seconds)
    return yaml.safe_dump_all(documents, sort_keys=False)
