"""The objects that are to be created: where, and with what the options add. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from koord_queue.errors import CommandError
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import PRIORITY, QUEUE_NAME, QUOTA_NAME

Json = dict[str, Any]


class Wishes(NamedTuple):
    """What the options add to each job.

    Attributes:
        queue: Its queue; "": as the manifest says.
        quota: Its quota; the same.
        priority: Its priority; None: the same.
    """

    queue: str = ""
    quota: str = ""
    priority: int | None = None


class Draft(NamedTuple):
    """An object that can be sent, but for the path of its kind.

    Attributes:
        place: Where it stands in the manifest, for messages.
        name: As the user reads it: its name, or the beginning of it.
        namespace: "" if the manifest names none.
    """

    place: str
    api_version: str
    kind: str
    name: str
    namespace: str
    body: Json


def read_drafts(documents: Sequence[Json], wishes: Wishes) -> list[Draft]:
    """Return the objects of a manifest, in its order.

    Raises:
        CommandError: One has no apiVersion, kind or name, or no job is there for the wishes.
    """
    drafts = [
        _draft(f"document {number}", each, wishes) for number, each in enumerate(documents, 1)
    ]
    if wishes != Wishes() and not any(each.kind in KNOWN_JOB_KINDS for each in drafts):
        kinds = ", ".join(sorted({each.kind for each in drafts}))
        raise CommandError(
            f"--queue, --quota and --priority are for jobs, and the manifest has only: {kinds}",
            "Write the labels and annotations into the manifest.",
        )
    return drafts


def placed(draft: Draft, namespace: str, *, is_asked: bool) -> Json:
    """Return the body of a namespaced object with its namespace.

    Args:
        draft: The object.
        namespace: The namespace of objects that name none.
        is_asked: Whether the user has named that namespace.

    Raises:
        CommandError: The manifest names another one than the user.
    """
    if is_asked and draft.namespace not in {"", namespace}:
        raise CommandError(
            f"{draft.place} is for namespace {draft.namespace}, and -n says {namespace}",
            "Leave one of them out.",
        )
    metadata = {**draft.body["metadata"], "namespace": draft.namespace or namespace}
    return {**draft.body, "metadata": metadata}


def _draft(place: str, body: Json, wishes: Wishes) -> Draft:
    api_version, kind, metadata = (body.get(key) for key in ("apiVersion", "kind", "metadata"))
    if not (api_version and isinstance(api_version, str) and kind and isinstance(kind, str)):
        raise CommandError(f"{place} has no apiVersion or kind")
    if not isinstance(metadata, dict):
        raise CommandError(f"{place} has no metadata")
    name = metadata.get("name") or metadata.get("generateName")
    if not (name and isinstance(name, str)):
        raise CommandError(f"{place} has neither name nor generateName")
    if kind in KNOWN_JOB_KINDS:
        body = _with_wishes(body, wishes, place)
    namespace = str(metadata.get("namespace") or "")
    return Draft(place, api_version, kind, name, namespace, body)


def _with_wishes(body: Json, wishes: Wishes, place: str) -> Json:
    wanted = {QUEUE_NAME: wishes.queue, QUOTA_NAME: wishes.quota}
    labels = {key: value for key, value in wanted.items() if value}
    annotations = {} if wishes.priority is None else {PRIORITY: str(wishes.priority)}
    metadata = dict(body["metadata"])
    for field, added in (("labels", labels), ("annotations", annotations)):
        before = metadata.get(field) or {}
        if not isinstance(before, dict):
            raise CommandError(f"{place}: metadata.{field} is no map")
        if added:
            metadata[field] = {**before, **added}
    return {**body, "metadata": metadata}
