"""The part of a pod template that a unit has."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.jobframework.pod_template import (
    MAX_ANNOTATION_CHARS,
    ScheduledPodTemplate,
    template_body,
)


def reduced(template: dict[str, Any]) -> dict[str, Any]:
    body = template_body(msgspec.convert(template, ScheduledPodTemplate))
    as_sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return as_sent


def test_fields_that_place_a_pod_are_kept_unchanged() -> None:
    spec = {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}],
            }
        ],
        "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": "2"}},
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"x": [{"y": 1}]}},
        "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "schedulingGates": [{"name": "g"}],
        "resourceClaims": [{"name": "c"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "priorityClassName": "high",
        "priority": 5,
        "preemptionPolicy": "Never",
        "schedulerName": "koord-scheduler",
        "runtimeClassName": "kata",
        "hostNetwork": True,
        "restartPolicy": "Never",
    }
    metadata = {"labels": {"a": "b"}, "annotations": {"gang": "x"}}
    assert reduced({"metadata": metadata, "spec": spec}) == {"metadata": metadata, "spec": spec}


def test_fields_that_do_not_place_a_pod_are_left_out() -> None:
    template = {
        "metadata": {
            "labels": {"batch.kubernetes.io/job-name": "x", "controller-uid": "y", "job-name": "x"},
            "annotations": {"long": "x" * (MAX_ANNOTATION_CHARS + 1)},
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "command": ["x"],
                    "env": [{"name": "E", "value": "x" * 200_000}],
                    "ports": [{"containerPort": 80}],
                }
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "serviceAccountName": "s",
        },
    }
    assert reduced(template) == {"spec": {"containers": [{"name": "c", "image": "i"}]}}
