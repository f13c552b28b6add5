"""Kueue's objects on a real API server, as its users write them."""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.queue_world import QueueWorld
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of
from tests.sample_jobs import crd
from tests.waiting import until

Json = dict[str, Any]

CHECK_CONTROLLER: Final = "queue_admission_checks"
"""The controller name of checks for nodes."""
CHECK: Final = "AdmissionCheck"
CONFIG: Final = "ProvisioningRequestConfig"

_GROUP: Final = "kueue.x-k8s.io"
_KINDS: Final = ("admissionchecks", "provisioningrequestconfigs", "provisioningrequests")


def path_of(kind: str, name: str = "", version: str = "v1beta2") -> str:
    """Return the path of an object, or of all objects of its kind."""
    return f"/apis/{_GROUP}/{version}/{kind.lower()}s" + (f"/{name}" if name else "")


def install_check_kinds(world: QueueWorld) -> None:
    """Create the CRDs of checks, their configs, and the autoscaler's requests."""
    install_crds(world.plane, *map(crd, _KINDS))


def take_newer_version_away(world: QueueWorld) -> None:
    """Serve checks in v1beta1 alone, as an older Kueue does."""
    older = crd("admissionchecks")
    for version in older["spec"]["versions"]:
        version["served"] = version["name"] == "v1beta1"
    install_crds(world.plane, older)


def create(world: QueueWorld, kind: str, name: str, spec: Json, **annotations: str) -> None:
    """Create an object of Kueue's."""
    metadata = {"name": name, "annotations": annotations}
    body = {"apiVersion": f"{_GROUP}/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}
    world.api.request("POST", path_of(kind), body)


def create_check_for_nodes(world: QueueWorld, name: str, spec: Json) -> None:
    """Create a check for nodes, and its config, which has the same name."""
    create(world, CONFIG, name, spec)
    parameters = {"apiGroup": _GROUP, "kind": CONFIG, "name": name}
    controller = "koord-queue.sh/provisioning-request"
    create(world, CHECK, name, {"controllerName": controller, "parameters": parameters})


def activity(world: QueueWorld, check: str, version: str = "v1beta2") -> Json:
    """Return the condition Active of a check, as soon as it is set."""
    path = path_of(CHECK, check, version)
    return until(lambda: condition_of(world.api.request("GET", path), "Active"))
