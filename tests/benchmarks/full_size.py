"""Objects of the size that they have in clusters, with what users, charts, and nodes write.

A sample has what a test needs. A pod in a cluster also has an environment, volumes, probes, and a
status, and its job has the manifest that `kubectl apply` keeps in an annotation. Our programs read
none of it. `managedFields`, a third of a pod, are omitted: the fake API server drops them, and no
struct has them.
"""

from __future__ import annotations

import json
from typing import Any, Final
from zlib import crc32

Json = dict[str, Any]

APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_STAMP: Final = "2026-11-22T10:00:00Z"
_VARIABLES: Final = 12
VARIANTS: Final = 100
"""The number of different templates among the jobs of a kind."""
_COMMAND: Final = "torchrun --nnodes=2 --nproc-per-node=8 train.py --data=/data --epochs=9"


def fill_templates(body: Json, tag: str = "") -> None:
    """Fill every pod template of an object with the usual fields, in place.

    Args:
        body: the object.
        tag: the tag of the images, if other than the sample's.
    """
    _fill(body, tag)


def fill_job(body: Json) -> None:
    """Give a job full templates, and the annotation of `kubectl apply`, in place.

    Some jobs of a kind share a template, as those of one user do.
    """
    fill_templates(body, f"v{crc32(body['metadata']['name'].encode()) % VARIANTS}")
    annotations = body["metadata"].setdefault("annotations", {})
    annotations["example.com/commit"] = "6f1d2a9c4be07d31a5c8"
    labels = body["metadata"].setdefault("labels", {})
    labels |= {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "training-1.4.2"}
    annotations[APPLIED] = json.dumps(body, separators=(",", ":"))


def pod_status(number: int, phase: str) -> Json:
    """Return a pod's status as a kubelet writes it, for a pod of one container."""
    is_ready = str(phase == "Running")
    conditions = [
        {"type": kind, "status": is_ready, "lastProbeTime": None, "lastTransitionTime": _STAMP}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _STAMP}
    if phase == "Pending":
        return {"phase": phase, "conditions": [scheduled]}
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    digest = f"{number:064x}"
    return {
        "phase": phase,
        "conditions": [*conditions, scheduled],
        "hostIP": "192.168.4.17",
        "hostIPs": [{"ip": "192.168.4.17"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _STAMP,
        "qosClass": "Burstable",
        "containerStatuses": [
            {
                "name": "main",
                "image": "registry.example/team/train:2026.11",
                "imageID": f"registry.example/team/train@sha256:{digest}",
                "containerID": f"containerd://{digest}",
                "ready": phase == "Running",
                "started": phase == "Running",
                "restartCount": 0,
                "state": {"running": {"startedAt": _STAMP}},
                "lastState": {},
            }
        ],
    }


def _fill(value: Any, tag: str) -> None:
    if isinstance(value, dict):
        containers = value.get("containers")
        if isinstance(containers, list):
            _fill_pod(value, containers, tag)
        for each in list(value.values()):
            _fill(each, tag)
    elif isinstance(value, list):
        for each in value:
            _fill(each, tag)


def _fill_pod(spec: Json, containers: list[Json], tag: str) -> None:
    for container in containers:
        if tag:
            container["image"] = f"registry.example/team/train:{tag}"
        container.setdefault("command", ["/bin/sh", "-c"])
        container.setdefault("args", [_COMMAND])
        container.setdefault("env", [_variable(number) for number in range(_VARIABLES)])
        container.setdefault("volumeMounts", [_mount("data"), _mount("scratch"), _mount("config")])
        container.setdefault("readinessProbe", _probe("/ready"))
        container.setdefault("livenessProbe", _probe("/alive"))
        container.setdefault("ports", [{"name": "http", "containerPort": 8080, "protocol": "TCP"}])
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("imagePullSecrets", [{"name": "registry"}])
    spec.setdefault("nodeSelector", {"example.com/pool": "training"})
    spec.setdefault("tolerations", _TOLERATIONS)
    spec.setdefault(
        "volumes",
        [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}},
            {"name": "config", "configMap": {"name": "training", "defaultMode": 420}},
        ],
    )


_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
]


def _variable(number: int) -> Json:
    if number % 4 == 0:
        chosen = {"name": "training", "key": f"key-{number}"}
        return {"name": f"SETTING_{number}", "valueFrom": {"configMapKeyRef": chosen}}
    return {"name": f"SETTING_{number}", "value": f"value number {number} of the environment"}


def _mount(name: str) -> Json:
    return {"name": name, "mountPath": f"/{name}", "readOnly": name == "config"}


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10, "failureThreshold": 3}
