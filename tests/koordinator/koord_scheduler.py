"""The real koord-scheduler as a process, with what it needs of the API server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.program_process import ROOT
from tests.controlplane.api_client import ApiClient, ApiError
from tests.controlplane.child_process import ChildProcess, Guardian, stop_all
from tests.controlplane.control_plane import LOOPBACK, ControlPlane, free_port

Json = dict[str, Any]

NAMESPACE: Final = "koordinator-system"
"""Of its special quotas. Source: the default of `quotaGroupNamespace`."""
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESERVATION_CRD: Final = ROOT / "tests" / "data" / "crds" / "reservations.yaml"
READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.05
READ_ON_START: Final = (("scheduling.koordinator.sh", "v1alpha1", "Device", "devices"),)
"""Kinds, apart from those whose CRDs are in tests/data, without which it does not start."""


class KoordSchedulerFailed(Exception):
    """It did not become ready, or has ended; the message has the end of its log."""


class KoordScheduler:
    """One koord-scheduler, which binds the pods that name no other scheduler.

    Args:
        program: The executable.
        plane: The control plane; `prepare` has been called for it.
        folder: For its files.
        guardian: Whose group it joins, so that it does not outlive the tests.
        arguments: Of the plugin ElasticQuota, that differ from the default.
    """

    def __init__(
        self,
        program: Path,
        plane: ControlPlane,
        folder: Path,
        guardian: Guardian,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._port = free_port()
        self._plane = plane
        self._certificates = folder / "koord-scheduler-certificates"
        config = folder / "koord-scheduler.yaml"
        config.write_text(yaml.safe_dump(configuration(plane.kubeconfig, arguments or {})))
        kubeconfig = str(plane.kubeconfig)
        self._command = [
            str(program),
            f"--config={config}",
            "--port=0",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._port}",
            f"--cert-dir={self._certificates}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authentication-tolerate-lookup-failure=true",
            "--authorization-always-allow-paths=/healthz",
            "--v=2",
        ]
        self._environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self._log = folder / "koord-scheduler.log"
        self._group = guardian.group
        self._child = self._new_child("")

    def _new_child(self, feature_gates: str) -> ChildProcess:
        gates = [f"--feature-gates={feature_gates}"] if feature_gates else []
        return ChildProcess([*self._command, *gates], self._log, self._environment, self._group)

    def start(self, feature_gates: str = "") -> None:
        """Start it with these gates, and wait until it has read the cluster; it does not run.

        Raises:
            KoordSchedulerFailed: It ended, or is not ready in time.
        """
        self._child = self._new_child(feature_gates)
        self._start_child()

    def _start_child(self) -> None:
        self._child.start()
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            if not self._child.running or time.monotonic() > deadline:
                raise KoordSchedulerFailed(self._child.describe_end())
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End it; may be called twice."""
        stop_all([self._child], STOP_SECONDS)

    def restart(self) -> None:
        """Kill it, as a crash would, and start it again, with the same gates."""
        self._child.kill()
        self._start_child()

    def check_alive(self) -> None:
        """Check that it runs.

        Raises:
            KoordSchedulerFailed: It has ended.
        """
        if not self._child.running:
            raise KoordSchedulerFailed(self._child.describe_end())

    def quota(self, name: str) -> Json:
        """Return what it knows of a quota, by its own debug API; {} where it knows none."""
        try:
            found = self._client().request("GET", f"/apis/v1/plugins/ElasticQuota/quotas/{name}")
        except (ApiError, OSError):
            return {}
        return found if isinstance(found, dict) else {}

    def _client(self) -> ApiClient:
        return ApiClient(
            host=LOOPBACK,
            port=self._port,
            token=self._plane.token,
            ca_file=self._certificates / "kube-scheduler.crt",
        )

    def _is_ready(self) -> bool:
        try:
            return bool(self.quota("koordinator-default-quota"))
        except FileNotFoundError:
            return False


def prepare(plane: ControlPlane) -> None:
    """Create the namespace and the kinds that it reads when it starts."""
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.apply(RESERVATION_CRD)
    client = plane.client_for()
    for group, version, kind, plural in READ_ON_START:
        client.request("POST", CRDS, _bare_crd(group, version, kind, plural))


def _bare_crd(group: str, version: str, kind: str, plural: str) -> Json:
    """Return a CRD of a kind that takes any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def configuration(kubeconfig: Path, arguments: Mapping[str, Any]) -> Json:
    """Return its configuration file.

    Args:
        kubeconfig: What it connects with.
        arguments: Of the plugin ElasticQuota, that differ from the default.
    """
    version = "kubescheduler.config.k8s.io/v1"
    quota = [{"name": "ElasticQuota"}]
    plugins = {"preFilter": {"enabled": quota}, "reserve": {"enabled": quota}}
    after = [*quota, {"name": "DefaultPreemption"}]
    plugins["postFilter"] = {"disabled": [{"name": "*"}], "enabled": after}
    args = {"apiVersion": version, "kind": "ElasticQuotaArgs", "quotaGroupNamespace": NAMESPACE}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": plugins,
        "pluginConfig": [{"name": "ElasticQuota", "args": {**args, **arguments}}],
    }
    return {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "profiles": [profile],
    }
