"""The programs of an installed chart: as processes here, with what its Deployments say."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.cluster.program_process import CONTROLLERS, PORTS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUEUE_NAMESPACE, QueueWorld
from tests.waiting import until

Json = Any

DEPLOYMENTS: Final = {SCHEDULER: "koord-queue", CONTROLLERS: "koord-queue-controllers"}
"""The name of each program's Deployment and ConfigMap."""
LEASES: Final = ("koord-queue-scheduler", "koord-queue-controllers")
CHART_PORTS: Final = (*PORTS, "--debug-address")
"""Flags that are replaced, since the programs of two versions are on one machine."""


class ChartPrograms:
    """Both programs of a version, ready, with the arguments, files and accounts of its chart.

    Args:
        world: The cluster in which the chart is installed.
        tree: The files of the version.
        folder: For logs, configuration files and kubeconfigs; used by nothing else.
        stack: Ends the programs.
    """

    def __init__(self, world: QueueWorld, tree: Path, folder: Path, stack: ExitStack) -> None:
        self._world = world
        self._tree = tree
        self._folder = folder
        self._programs = [self._make(module) for module in DEPLOYMENTS]
        for each in self._programs:
            stack.callback(each.stop)
            each.start()
        for each in self._programs:
            each.wait_until_ready()

    def stop(self) -> None:
        """End them as a kubelet does."""
        assert [each.stop() for each in self._programs] == [0, 0]

    def take_over_from(self, others: ChartPrograms) -> None:
        """End the programs of the other version; return when these lead."""
        before = self._lease_holders()
        assert all(before), "the others lead"
        others.stop()

        def have_changed() -> bool:
            now = self._lease_holders()
            return all(now) and not set(now) & set(before)

        until(have_changed, OWN_TIMES_SECONDS)

    def _lease_holders(self) -> list[str]:
        at = f"/apis/coordination.k8s.io/v1/namespaces/{QUEUE_NAMESPACE}/leases"
        leases = [self._world.api.request("GET", f"{at}/{name}") for name in LEASES]
        return [each["spec"].get("holderIdentity") or "" for each in leases]

    def _make(self, module: str) -> ProgramProcess:
        read, name = self._world.api.request, DEPLOYMENTS[module]
        deployment = read("GET", f"/apis/apps/v1/namespaces/{QUEUE_NAMESPACE}/deployments/{name}")
        pod = deployment["spec"]["template"]["spec"]
        files = read("GET", f"/api/v1/namespaces/{QUEUE_NAMESPACE}/configmaps/{name}")["data"]
        config = self._folder / f"{name}.yaml"
        config.write_text(files["config.yaml"])
        said = dict(each.split("=", 1) for each in pod["containers"][0]["args"])
        ports = [each for each in CHART_PORTS if each in said]
        said["--config"] = str(config)
        return ProgramProcess(
            module,
            self._kubeconfig(pod["serviceAccountName"]),
            self._folder / f"{name}.log",
            [f"{flag}={value}" for flag, value in said.items() if flag not in ports],
            root=self._tree,
            ports=ports,
        )

    def _kubeconfig(self, account: str) -> Path:
        """Return a kubeconfig file of a service account."""
        plane = self._world.plane
        token = plane.kubectl("create", "token", account, f"--namespace={QUEUE_NAMESPACE}")
        content: Json = json.loads(plane.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": token.strip()}
        path = self._folder / f"{account}.kubeconfig"
        path.write_text(json.dumps(content))
        return path
