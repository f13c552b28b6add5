"""A real control plane on this machine, with nodes and pods simulated by kwok.

The chart's admission policy is active, as after an installation: a job that names a queue or a
quota is created suspended, so that it has no pod before the queue has seen it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared_api.quantity import format_amount
from tests.controlplane.binaries import mutating_policy_version, require_binaries
from tests.controlplane.control_plane import ControlPlane, ControlPlaneFailed
from tests.controlplane.helm import require_helm
from tests.controlplane.tool_cache import BinariesUnavailable
from tests.demo.clusters import ROOT, DemoFailed
from tests.demo.embedded_cluster import bare_environment
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import GPU, NODE_GPUS, REAL_GPUS, GpuShape, LoadPlan, nodes_needed

NODE_PREFIX: Final = "gpu-node"
CHART: Final = ROOT / "charts" / "koord-queue"
POLICY_TEMPLATE: Final = "templates/admissionpolicy.yaml"
POLICY_API: Final = "admissionregistration.k8s.io/{}/MutatingAdmissionPolicy"
HELM_SECONDS: Final = 60.0


class LocalCluster:
    """A `Cluster` of real etcd, API server, controllers, and scheduler."""

    context: str | None = None
    queue_namespace = "koord-queue"
    kubectl = "kubectl"

    def __init__(self) -> None:
        self.kubeconfig = ""
        self.preparation: tuple[str, ...] = ()
        self._plane: ControlPlane | None = None

    def start(self) -> None:
        """Find or build the binaries, and start them."""
        try:
            binaries = require_binaries()
            plane = ControlPlane(binaries, controller_manager=True, scheduler=True, kwok=True)
            self._plane = plane
            plane.start()
            plane.kubectl("apply", "--server-side", "--filename", "-", input=_admission_policy())
        except (BinariesUnavailable, ControlPlaneFailed) as error:
            raise DemoFailed(str(error)) from error
        self.kubeconfig = str(plane.kubeconfig)
        commands = plane.kubeconfig.parent / "bin"
        commands.mkdir()
        (commands / "kubectl").symlink_to(binaries / "kubectl")  # with the version of the server
        self.preparation = (
            f"export KUBECONFIG={self.kubeconfig}",
            f"export PATH={commands}:$PATH",
        )

    def stop(self) -> None:
        """Stop all processes, and remove their folder."""
        if self._plane is not None:
            self._plane.stop()

    def gpu_shape(self) -> GpuShape:
        """Return GPUs, since kwok's nodes may have any resource."""
        return REAL_GPUS

    def add_nodes(self, plan: LoadPlan, api: JsonApi) -> None:
        """Create nodes of eight GPUs."""
        assert self._plane is not None, "it was started"
        amounts = plan.shape.amounts
        self._plane.create_nodes(
            nodes_needed(plan),
            cpu=format_amount("cpu", amounts["cpu"] * NODE_GPUS),
            memory=format_amount("memory", amounts["memory"] * NODE_GPUS),
            extra_resources={GPU: str(NODE_GPUS)},
            name_prefix=NODE_PREFIX,
        )

    def is_throw_away(self) -> bool:
        """Return True: all of it is removed."""
        return True

    def environment(self) -> Mapping[str, str]:
        """Return an environment without the user's proxy and settings."""
        return bare_environment(Path(self.kubeconfig).parent)

    def writes_by_kind(self) -> Mapping[str, int]:
        """Return nothing: the API server does not count writes by client."""
        return {}


def _admission_policy() -> str:
    """Return the policy that the chart installs, as YAML.

    Raises:
        BinariesUnavailable: There is no helm, or it does not render the chart.
    """
    served = POLICY_API.format(mutating_policy_version())
    # The policy excludes the namespace of the release.
    options = ("--namespace", LocalCluster.queue_namespace, "--api-versions", served)
    done = subprocess.run(
        [require_helm(), "template", "demo", CHART, "--show-only", POLICY_TEMPLATE, *options],
        capture_output=True,
        text=True,
        timeout=HELM_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise BinariesUnavailable(f"helm does not render {POLICY_TEMPLATE}: {done.stderr.strip()}")
    return done.stdout
