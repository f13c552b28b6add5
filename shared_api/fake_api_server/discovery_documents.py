"""The discovery documents: which kinds a server serves.

`/api`, `/apis`, `/apis/GROUP`, `/api/v1`, `/apis/GROUP/VERSION`, `/version`, and as
much of `/openapi/v3` as kubectl needs: that the server validates fields (`kubectl apply`), and the
schemas of custom resources (`kubectl explain`). Aggregated discovery is not served; kubectl falls
back to the plain form.

kubectl validates a `List` itself, with the schemas of `/openapi/v2`, which it reads in protobuf
only. That document is empty here, in any encoding, so kubectl validates nothing and the server
validates each item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.resource_registry import ResourceRegistry, ServedResource

VERSION: Final[Body] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "fake",
}
"""The Kubernetes version whose behavior is imitated."""

OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The only format of `/openapi/v2` that clients accept. They request it with "@" before "v1.0",
which is not allowed in the media type of an answer."""

_ROOT_FIELDS: Final[Mapping[str, Body]] = {
    "apiVersion": {"type": "string", "description": "The group and version of this object."},
    "kind": {"type": "string", "description": "What kind of object this is."},
    "metadata": {"type": "object", "description": "Name, namespace, labels, annotations and more."},
}
"""Fields of every object; most CRDs omit them or do not describe them."""
_STATUS_VERBS: Final = ["get", "patch", "update"]


def document(path: str, registry: ResourceRegistry) -> Body | None:
    """Return the document at a path, or None if there is none."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return _groups(registry)
        case ["apis", group]:
            versions = registry.groups().get(group)
            return _group(group, versions) if versions else None
        case ["api", version]:
            return _resources("", version, registry)
        case ["apis", group, version]:
            return _resources(group, version, registry)
        case ["openapi", "v3"]:
            return _openapi_paths(registry)
        case ["openapi", "v3", "api", version]:
            return _openapi("", version, registry)
        case ["openapi", "v3", "apis", group, version]:
            return _openapi(group, version, registry)
        case _:
            return None


def _groups(registry: ResourceRegistry) -> Body:
    groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(name: str, versions: list[str]) -> Body:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": listed,
        "preferredVersion": listed[0],
    }


def _resources(group: str, version: str, registry: ResourceRegistry) -> Body | None:
    resources = registry.in_version(group, version)
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": resources[0].api_version,
        "resources": [entry for resource in resources for entry in _entries(resource)],
    }


def _entries(resource: ServedResource) -> list[Body]:
    entry: Body = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if not resource.has_status:
        return [entry]
    status = {
        "name": f"{resource.plural}/status",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _STATUS_VERBS,
    }
    return [entry, status]


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _openapi_paths(registry: ResourceRegistry) -> Body:
    return {
        "paths": {
            _root(group, version): {"serverRelativeURL": f"/openapi/v3/{_root(group, version)}"}
            for group, versions in registry.groups().items()
            for version in versions
        }
    }


def _openapi(group: str, version: str, registry: ResourceRegistry) -> Body | None:
    """Return paths, where kubectl looks for `fieldValidation`, and the schemas of CRDs.

    Built-in kinds have no schema; the server validates them.
    """
    resources = registry.in_version(group, version)
    if not resources:
        return None
    schemas = {
        _schema_name(resource): _schema(resource, resource.openapi)
        for resource in resources
        if resource.openapi is not None
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": {_item_path(resource): _operations(resource) for resource in resources},
        "components": {"schemas": schemas},
    }


def _schema_name(resource: ServedResource) -> str:
    """Return the name that kube-apiserver gives a schema: the group's labels in reverse order."""
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{resource.version}.{resource.kind}"


def _schema(resource: ServedResource, stated: Mapping[str, JsonValue]) -> Body:
    properties = dict(stated.get("properties", {}))
    for name, field in _ROOT_FIELDS.items():
        properties[name] = field | properties.get(name, {})
    return {
        **stated,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_identity(resource)],
    }


def _identity(resource: ServedResource) -> Body:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _item_path(resource: ServedResource) -> str:
    namespace = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_root(resource.group, resource.version)}/{namespace}{resource.plural}/{{name}}"


def _operations(resource: ServedResource) -> Body:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        method: {
            "x-kubernetes-group-version-kind": _identity(resource),
            "x-kubernetes-action": method,
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        }
        for method in ("patch", "put")
    }
