"""Asks the API server what it would make of objects, and whether it accepts patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from koord_queue.errors import CommandError
from koord_queue.reach.errors import Conflicting, Missing, NotServed, Refused
from koord_queue.reach.media_types import JSON_PATCH, MERGE_PATCH
from koord_queue.reach.resources import (
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    NODES,
    QUEUE_RESERVATIONS,
    QUEUE_UNITS,
    QUEUES,
    QUOTA_POLICIES,
    RESOURCE_QUOTAS,
    Resource,
    Resources,
)
from shared_api.manifest_documents import ManifestError, read_documents

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

Json = dict[str, Any]

DRY_RUN: Final = (("dryRun", "All"),)
KEEPS_STATE: Final = (
    "a quota is not tried by dry run where Koordinator's webhook judges quotas: it would take that"
    " for the change itself"
)
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

_EDITED: Final[Mapping[str, Resource]] = {
    "Queue": QUEUES,
    "QueueUnit": QUEUE_UNITS,
    "ElasticQuota": ELASTIC_QUOTAS,
    "ElasticQuotaTree": ELASTIC_QUOTA_TREES,
    "ResourceQuota": RESOURCE_QUOTAS,
    "QuotaPolicy": QUOTA_POLICIES,
    "QueueReservation": QUEUE_RESERVATIONS,
    "Node": NODES,
}
"""The resources of the kinds that a what-if question may edit."""
_OF_SYSTEM: Final = frozenset({"Queue", "QuotaPolicy", "QueueReservation"})
"""Those of them that count only in the namespace of the installation."""


class DryRuns:
    """Knows which objects may be sent as a dry run; the server is asked once, for the first quota.

    Koordinator's webhook keeps what it was asked about, a dry run included: it would judge later
    quotas by a change that was never made, or refuse the quota itself as one that exists already.

    Args:
        cluster: The API server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._why: str | None = None

    def why_not(self, resource: Resource) -> str:
        """Return why an object of a resource must not be sent; "" if it may."""
        if (resource.group, resource.plural) != (ELASTIC_QUOTAS.group, ELASTIC_QUOTAS.plural):
            return ""
        if self._why is None:
            self._why = self._look()
        return self._why

    def _look(self) -> str:
        try:
            found = msgspec.json.decode(self._cluster.get(_WEBHOOKS))
        except (Missing, NotServed):
            return ""
        except Refused as error:
            return f"{KEEPS_STATE}, and whether one does is not known: {error.message}"
        return KEEPS_STATE if any(map(_judges_quotas, found.get("items") or ())) else ""


def _judges_quotas(configuration: Json) -> bool:
    return any(
        ELASTIC_QUOTAS.plural in (rule.get("resources") or ())
        for webhook in configuration.get("webhooks") or ()
        for rule in webhook.get("rules") or ()
    )


# --- objects that would be applied ----------------------------------------------------------------


def apply_dry(cluster: Cluster, manifest: bytes, namespace: str) -> bytes:
    """Return a List of a manifest's objects as the API server would create or update them.

    An object that exists is patched with what the manifest says of it, as `kubectl apply` does. A
    quota that must not be tried stays as it is written.

    Args:
        cluster: The API server.
        manifest: YAML or JSON, of one or several documents.
        namespace: The namespace of objects that name none.

    Raises:
        CommandError: It cannot be read, or an object is refused; the message names the object.
    """
    resources, dry_runs = Resources(cluster), DryRuns(cluster)
    applied = [
        _apply(cluster, resources, dry_runs, each, namespace) for each in read_manifest(manifest)
    ]
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": applied})


def read_manifest(manifest: bytes) -> list[Json]:
    """Return the objects of a manifest, lists taken apart.

    Raises:
        CommandError: It is neither YAML nor JSON, or has no object.
    """
    try:
        return read_documents(manifest, is_json=_is_json(manifest))
    except ManifestError as error:
        raise CommandError(f"the manifest cannot be used: {error}") from error


def _is_json(text: bytes) -> bool:
    """Return whether a text is JSON: YAML takes some escapes and numbers for others."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _apply(
    cluster: Cluster, resources: Resources, dry_runs: DryRuns, document: Json, namespace: str
) -> Json:
    meta = document.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    where = str(meta.get("namespace") or namespace)
    name = meta.get("name") or meta.get("generateName") or ""
    api_version, kind = str(document.get("apiVersion") or ""), str(document.get("kind") or "")
    if not (api_version and kind):
        raise CommandError(f"an object of the manifest has no apiVersion or kind: {name}")
    act = "created"
    try:
        resource = resources.find(api_version, kind)
        if dry_runs.why_not(resource):
            return document
        body, path = msgspec.json.encode(document), resource.path(where)
        try:
            answer = cluster.send("POST", path, body, query=DRY_RUN)
        except Conflicting:
            act, path = "updated", resource.path(where, str(name))
            answer = cluster.send("PATCH", path, body, MERGE_PATCH, DRY_RUN)
    except NotServed:
        raise
    except CommandError as error:
        raise CommandError(f"{kind} {where}/{name} would not be {act}: {error.message}") from error
    found: Json = msgspec.json.decode(answer)
    found.get("metadata", {}).pop("managedFields", None)
    return {"apiVersion": api_version, "kind": kind, **found}


# --- patches ------------------------------------------------------------------------------------


def check_patches(cluster: Cluster, edits: Sequence[Json], system_namespace: str) -> list[str]:
    """Ask the API server whether it accepts the patches of edits.

    Args:
        cluster: The API server.
        edits: The edits of a what-if question.
        system_namespace: Where queues are.

    Returns:
        Why it was not asked about some of them, as sentences.

    Raises:
        CommandError: It refuses one.
    """
    unasked, dry_runs = [], DryRuns(cluster)
    for edit in edits:
        operations = edit.get("operations")
        patch, kind_of_patch = edit.get("patch"), MERGE_PATCH
        if operations:
            patch, kind_of_patch = operations, JSON_PATCH
        resource = _EDITED.get(str(edit.get("kind")))
        if patch is None or resource is None:
            continue
        name, kind = edit.get("name", ""), edit["kind"]
        in_system = system_namespace if kind in _OF_SYSTEM else ""
        namespace = edit.get("namespace") or in_system
        if not namespace and resource.is_namespaced:
            unasked.append(f"{kind} {name}: the edit names no namespace")
            continue
        if why := dry_runs.why_not(resource):
            unasked.append(f"{kind} {name}: {why}. Its fields and amounts are checked all the same")
            continue
        try:
            target = resource.path(namespace, name)
            cluster.send("PATCH", target, msgspec.json.encode(patch), kind_of_patch, DRY_RUN)
        except (Refused, Missing, NotServed) as error:
            unasked.append(f"{kind} {name}: {error.message}")
        except CommandError as error:
            text = f"the API server would refuse the edit of {kind} {name}: {error.message}"
            raise CommandError(text) from error
    return unasked
