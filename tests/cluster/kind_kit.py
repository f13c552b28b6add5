"""Every kind of job on a real API server, with its real CRD: bodies, fields, paths."""

from __future__ import annotations

import copy
from typing import Any, Final

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import GenericJob, JobKind
from tests.cluster.kind_table import take_at
from tests.cluster.served_kinds import install_crds
from tests.controlplane.control_plane import ControlPlane
from tests.sample_jobs import crd, sample

Json = Any

ADAPTERS: Final[dict[str, GenericJob[Any]]] = {
    each.kind.key: each for each in EXTENSIONS if not each.kind.held_by_gates
}
"""All that are built in and have a suspend field, by key."""

CRDS: Final = {
    **{key: each.kind.plural for key, each in ADAPTERS.items() if key != "job"},
    "mpijob": "mpijobs-v2beta1",
    "mpijobv1": "mpijobs-v1",
}
"""The file of each kind's CRD; both MPIJobs are one CRD, so that a server has one of them."""

SERVED: Final = tuple(key for key in ADAPTERS if key != "mpijobv1")
"""Kinds that one server can have together."""

_TEMPLATE: Final = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
_SPEC: Final = {"template": _TEMPLATE}
_JOB: Final[dict[str, Any]] = {"apiVersion": "batch/v1", "kind": "Job", "spec": _SPEC}


def body_of(key: str, **metadata: Json) -> Json:
    """Return the sample of a kind as it is created without a queue."""
    body: Json = copy.deepcopy(_JOB) if key == "job" else sample(key)
    said = body.get("metadata", {}).get("annotations")
    body["metadata"] = {"generateName": "x-", **({"annotations": said} if said else {})}
    body["metadata"] |= metadata
    take_at(body, switch_of(key))
    return body


def switch_of(key: str) -> tuple[str, ...]:
    """Return the path of a kind's suspend field."""
    names: list[str] = []
    patch: Json = ADAPTERS[key].suspend_patch(ADAPTERS[key].object_type())
    while isinstance(patch, dict):
        ((name, patch),) = patch.items()
        names.append(name)
    return tuple(names)


def path_of(kind: JobKind, namespace: str) -> str:
    """Return the API path of the objects of a kind."""
    return f"/apis/{kind.group}/{kind.version}/namespaces/{namespace}/{kind.plural}"


def install(plane: ControlPlane, *keys: str) -> None:
    """Create the CRDs of kinds, and wait until they are served."""
    install_crds(plane, *(crd(CRDS[key]) for key in keys if key in CRDS))
