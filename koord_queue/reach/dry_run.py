"""Asks the API server what it would make of objects, and whether it accepts patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from koord_queue.errors import CommandError
from koord_queue.reach.cluster import MERGE_PATCH
from koord_queue.reach.errors import Missing, NotServed, Refused

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

Json = dict[str, Any]

DRY_RUN: Final = (("dryRun", "All"),)

_PATHS: Final[Mapping[str, str]] = {
    "Queue": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/queues/{name}",
    "QueueUnit": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/queueunits/{name}",
    "ElasticQuota": (
        "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/{name}"
    ),
    "ElasticQuotaTree": (
        "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/{namespace}/elasticquotatrees/{name}"
    ),
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas/{name}",
    "Node": "/api/v1/nodes/{name}",
}
"""Of the kinds that a what-if question may edit."""


# --- objects that would be created ----------------------------------------------------------------


def create_dry(cluster: Cluster, manifest: bytes, namespace: str) -> bytes:
    """Return a List of a manifest's objects as the API server would create them.

    Args:
        cluster: The API server.
        manifest: YAML or JSON, of one or several documents.
        namespace: Of objects that name none.

    Raises:
        CommandError: It cannot be read, or an object is refused; the message names the object.
    """
    kinds = _Kinds(cluster)
    created = [_create(cluster, kinds, each, namespace) for each in read_documents(manifest)]
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": created})


def read_documents(manifest: bytes) -> list[Json]:
    """Return the objects of a manifest, lists taken apart.

    Raises:
        CommandError: It is neither YAML nor JSON, or a document is no object with a kind.
    """
    try:
        documents = [each for each in yaml.load_all(manifest, yaml.CSafeLoader) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise CommandError(f"the manifest is not valid YAML: {said}") from error
    found: list[Json] = []
    for number, each in enumerate(documents, 1):
        items = each.get("items") if isinstance(each, dict) and each.get("kind") == "List" else None
        for item in items if isinstance(items, list) else [each]:
            if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
                raise CommandError(f"document {number} of the manifest is no object with a kind")
            found.append(item)
    if not found:
        raise CommandError("the manifest has no object")
    return found


def _create(cluster: Cluster, kinds: _Kinds, document: Json, namespace: str) -> Json:
    meta = document.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    where = str(meta.get("namespace") or namespace)
    name = meta.get("name") or meta.get("generateName") or ""
    shown = f"{document['kind']} {where}/{name}"
    try:
        path = kinds.path_of(document, where)
        body = _as_json(document)
        created: Json = msgspec.json.decode(cluster.send("POST", path, body, query=DRY_RUN))
    except NotServed:
        raise
    except CommandError as error:
        raise CommandError(f"{shown} would not be created: {error.message}") from error
    created.get("metadata", {}).pop("managedFields", None)
    return {"apiVersion": document.get("apiVersion"), "kind": document["kind"], **created}


def _as_json(document: Json) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError) as error:
        raise CommandError(f"it cannot be written as JSON: {error}") from error


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class _Kinds:
    """Where objects are created, by apiVersion and kind, as the API server says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, list[_Resource]] = {}

    def path_of(self, document: Json, namespace: str) -> str:
        version = str(document.get("apiVersion") or "")
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._known:
            try:
                found = msgspec.json.decode(self._cluster.get(base), type=_Resources).resources
            except (Missing, NotServed):
                found = []
            self._known[version] = found
        for each in self._known[version]:
            if each.kind == document["kind"] and "/" not in each.name:
                where = f"/namespaces/{namespace}" if each.namespaced else ""
                return f"{base}{where}/{each.name}"
        raise CommandError(f"the API server has no kind {document['kind']} of apiVersion {version}")


# --- patches ------------------------------------------------------------------------------------


def check_patches(cluster: Cluster, edits: Sequence[Json], system_namespace: str) -> list[str]:
    """Ask the API server whether it accepts the patches of edits.

    Args:
        cluster: The API server.
        edits: Of a what-if question.
        system_namespace: Where queues are.

    Returns:
        Why it was not asked about some of them, as sentences.

    Raises:
        CommandError: It refuses one.
    """
    unasked = []
    for edit in edits:
        patch = edit.get("patch")
        path = _PATHS.get(str(edit.get("kind")))
        if patch is None or path is None:
            continue
        name, kind = edit.get("name", ""), edit["kind"]
        in_system = system_namespace if kind == "Queue" else ""
        namespace = edit.get("namespace") or in_system
        if not namespace and "{namespace}" in path:
            unasked.append(f"{kind} {name}: the edit names no namespace")
            continue
        try:
            target = path.format(namespace=namespace, name=name)
            cluster.send("PATCH", target, msgspec.json.encode(patch), MERGE_PATCH, DRY_RUN)
        except (Refused, Missing, NotServed) as error:
            unasked.append(f"{kind} {name}: {error.message}")
        except CommandError as error:
            said = f"the API server would refuse the edit of {kind} {name}: {error.message}"
            raise CommandError(said) from error
    return unasked
