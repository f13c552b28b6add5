"""Kueue's objects as manifests, short."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def resource(name: str, nominal: str, **limits: str) -> Json:
    """Return the amount of one resource; `limits`: borrowing, lending."""
    more = {f"{key}Limit": value for key, value in limits.items()}
    return {"name": name, "nominalQuota": nominal, **more}


def group(*resources: Json, flavor: str = "default-flavor") -> Json:
    """Return a resource group of one flavor."""
    names = [each["name"] for each in resources]
    return {"coveredResources": names, "flavors": [{"name": flavor, "resources": [*resources]}]}


def cluster_queue(name: str, *groups: Json, version: str = "v1beta2", **spec: Any) -> Json:
    """Return a ClusterQueue that all namespaces may use."""
    whole = {"namespaceSelector": {}, "resourceGroups": [*groups], **spec}
    return _body("ClusterQueue", name, whole, version)


def cohort(name: str, *groups: Json, parent: str = "", **spec: Any) -> Json:
    """Return a Cohort."""
    above = {"parentName": parent} if parent else {}
    return _body("Cohort", name, {"resourceGroups": [*groups], **above, **spec})


def local_queue(namespace: str, name: str, queue: str, **spec: Any) -> Json:
    """Return a LocalQueue."""
    body = _body("LocalQueue", name, {"clusterQueue": queue, **spec})
    body["metadata"]["namespace"] = namespace
    return body


def flavor(name: str, **spec: Any) -> Json:
    """Return a ResourceFlavor."""
    return _body("ResourceFlavor", name, spec)


def check(name: str, controller: str) -> Json:
    """Return an AdmissionCheck."""
    return _body("AdmissionCheck", name, {"controllerName": controller})


def priority_class(name: str, value: int) -> Json:
    """Return a WorkloadPriorityClass."""
    body = _body("WorkloadPriorityClass", name, {})
    return {**body, "value": value, "description": "of tests"}


def _body(kind: str, name: str, spec: Json, version: str = "v1beta2") -> Json:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
