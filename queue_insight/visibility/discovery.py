"""What clients ask first: which groups, versions and resources there are."""

from __future__ import annotations

from typing import Any

from queue_insight.api_registration.api_service import GROUP, VERSION
from queue_insight.visibility.resources import API_VERSION, RESOURCES, ApiResource
from shared_api.version import VERSION as PROGRAM_VERSION

Json = dict[str, Any]


def group_list() -> Json:
    """Return the answer of `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> Json:
    """Return the answer of `/apis/GROUP`."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def _group() -> Json:
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def resource_list() -> Json:
    """Return the answer of `/apis/GROUP/VERSION`."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [_resource(each) for each in RESOURCES],
    }


def _resource(resource: ApiResource) -> Json:
    found: Json = {
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind.KIND,
        "verbs": list(resource.verbs),
    }
    return found | ({"shortNames": list(resource.short_names)} if resource.short_names else {})


def version() -> Json:
    """Return the answer of `/version`, which clients parse as the API server's."""
    major, minor = PROGRAM_VERSION.split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": f"v{PROGRAM_VERSION}"}
