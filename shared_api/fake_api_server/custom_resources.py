"""CustomResourceDefinitions: the kinds that a CRD object adds to the server.

The kinds are served from the request that creates the CRD. The real server takes some hundred
milliseconds and reports `Established` later, which a client has to wait for in either case. Every
served version shows the stored fields under its own apiVersion (conversion `None`; webhooks are not
called). Names that collide with those of another CRD are not detected.
"""

from __future__ import annotations

from typing import Final

from shared_api.fake_api_server.api_errors import Cause, invalid_value, required
from shared_api.fake_api_server.object_storage import TableKey
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.resource_registry import ServedResource, ServerContext
from shared_api.fake_api_server.schema_validation import compile_schema
from shared_api.fake_api_server.table_printer import (
    CUSTOM_PLAIN_COLUMNS,
    NAME,
    PLAIN_COLUMNS,
    json_path_column,
)

CRD_TABLE: Final[TableKey] = ("apiextensions.k8s.io", "customresourcedefinitions")


def _prepare(body: Body, surroundings: ServerContext) -> Body:
    spec = body.get("spec", {})
    kind = spec.get("names", {}).get("kind", "")
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **spec.get("names", {})}
    versions = spec.get("versions", ())
    met = {"status": "True", "lastTransitionTime": surroundings.now()}
    status: Body = {
        "acceptedNames": names,
        "conditions": [
            {"type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found"}
            | met,
            {"type": "Established", "reason": "InitialNamesAccepted", "message": "established"}
            | met,
        ],
        "storedVersions": [version["name"] for version in versions if version.get("storage")],
    }
    spec = {"conversion": {"strategy": "None"}, **spec, "names": names}
    return {**body, "spec": spec, "status": status}


def _check(new: Body, _old: Body | None) -> list[Cause]:
    spec = new.get("spec", {})
    names = spec.get("names", {})
    causes = [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    causes += [required(f"spec.names.{f}") for f in ("plural", "kind") if not names.get(f)]
    versions = spec.get("versions") or ()
    if sum(1 for version in versions if version.get("storage")) != 1:
        causes.append(
            invalid_value("spec.versions", [], "must have exactly one version marked as storage")
        )
    causes += [
        required(f"spec.versions[{i}].schema.openAPIV3Schema", "schemas are required")
        for i, version in enumerate(versions)
        if not version.get("schema", {}).get("openAPIV3Schema")
    ]
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if new["metadata"].get("name") != expected:
        why = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid_value("metadata.name", new["metadata"].get("name"), why))
    return causes


CUSTOM_RESOURCE_DEFINITIONS: Final = ServedResource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    has_status=True,
    status_moves_metadata=True,
    counts_generation=True,
    strategic=True,
    columns=PLAIN_COLUMNS,
    prepare=_prepare,
    check=_check,
)


def resources_of(crd: Body) -> list[ServedResource]:
    """Return the kinds that a CRD defines, one per served version, the storage version first."""
    versions = sorted(crd["spec"]["versions"], key=lambda version: not version.get("storage"))
    return [_resource(crd["spec"], version) for version in versions if version.get("served")]


def _resource(spec: Body, version: Body) -> ServedResource:
    names = spec["names"]
    columns = version.get("additionalPrinterColumns")
    return ServedResource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        has_status="status" in version.get("subresources", {}),
        counts_generation=True,
        is_custom=True,
        selectable={
            field["jsonPath"].removeprefix("."): tuple(field["jsonPath"].split(".")[1:])
            for field in version.get("selectableFields", ())
        },
        columns=(
            (NAME, *(json_path_column(column) for column in columns))
            if columns
            else CUSTOM_PLAIN_COLUMNS
        ),
        schema=compile_schema(version["schema"]["openAPIV3Schema"]),
        openapi=version["schema"]["openAPIV3Schema"],
    )
