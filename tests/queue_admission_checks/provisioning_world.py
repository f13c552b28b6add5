"""A cluster with the kinds of Kueue and the autoscaler, and the provisioning check controller."""

from __future__ import annotations

from typing import Any, Final

from queue_admission_checks.provisioning_judge import ProvisioningJudge
from shared_api.leader_election import Leadership
from shared_api.testing.object_builders import pod_set
from tests.queue_admission_checks.autoscaler import Autoscaler
from tests.shared_api.admission_check_kit.check_world import CheckWorld

Json = dict[str, Any]

CONTROLLER: Final = "koord-queue.sh/provisioning-request"
CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
CLASS: Final = "check-capacity.autoscaling.x-k8s.io"
KINDS: Final = ("admissionchecks", "provisioningrequestconfigs", "provisioningrequests")
GPU: Final = {"cpu": "1", "nvidia.com/gpu": "1"}
REFERENCE: Final = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}


class ProvisioningWorld(CheckWorld):
    """The world of a check controller, with an autoscaler."""

    def __init__(self, *kinds: str) -> None:
        super().__init__(*(kinds or KINDS), controller_name=CONTROLLER)
        self.autoscaler = Autoscaler(self)

    def run(self, *, leadership: Leadership | None = None) -> None:
        """Start the provisioning controller, in place of the previous one."""
        self.start(ProvisioningJudge(CONTROLLER), leadership=leadership)

    def add_config(self, name: str = "c", class_name: str = CLASS, **spec: Any) -> Json:
        """Create a config."""
        return self.direct.create(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ProvisioningRequestConfig",
                "metadata": {"name": name},
                "spec": {"provisioningClassName": class_name, **spec},
            }
        )

    def edit_config(self, **spec: Any) -> None:
        """Merge into the spec of the config."""
        self.direct.patch("provisioningrequestconfigs", "c", {"spec": spec})

    def add_provisioning_check(self, name: str = "check", config: str = "c") -> Json:
        """Create a check with a config as its parameters."""
        return self.add_check(name, parameters={**REFERENCE, "name": config})

    def add_gpu_unit(self, name: str = "unit", *checks: str, **more: Any) -> Json:
        """Create a unit with two pods that ask for a GPU each, and one that does not."""
        sets = [pod_set("worker", 2, GPU), pod_set("launcher", 1, {"cpu": "1"})]
        return self.add_unit(name, *checks, podSet=sets, **more)

    def evict(self, name: str = "unit") -> None:
        """Do what the scheduler does with a unit that a check has evicted."""
        count = self.unit(name)["status"].get("requeueState", {}).get("count", 0)
        until = {"count": count + 1, "requeueAt": self.now()}
        self.patch_status(name, phase="TimeoutBackoff", requeueState=until)

    def made(self) -> dict[str, int]:
        """Return how many objects exist for requests."""
        kinds = ("provisioningrequests", "podtemplates")
        return {kind: len(self.direct.list(kind)) for kind in kinds}


def ready_world(**config: Any) -> ProvisioningWorld:
    """Return a world with a config, a check, and a running controller."""
    world = ProvisioningWorld()
    world.add_config(**config)
    world.add_provisioning_check()
    world.run()
    return world
