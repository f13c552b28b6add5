"""What admission checks add to a job's pod templates, and how it is removed again. Pure.

A release adds labels, annotations, node selectors and tolerations to the templates, and notes on
the job (annotation `koord-queue/pod-set-updates`) what it has added that was not there. Wherever
the templates are read that is left out, so a unit always shows what its user wants, and the next
release begins from there; it also removes what is no longer wanted. Until then the job keeps it: an
eviction spends no write on it, and templates cannot change while pods are being deleted.

Only the digest of a value is noted: what a user has changed since is the user's, and stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from shared_api.objects.meta import WireStruct
from shared_api.text_decoding import TextError, decode_json
from shared_api.well_known_labels import POD_SET_UPDATES

MAX_NOTE_CHARS: Final = 65_536
"""Limit of the annotation: a quarter of what all annotations of an object may have. A longer one is
not read either: the controllers write none."""

DIGEST_CHARS: Final = 12

Toleration = dict[str, Any]
"""A toleration, as JSON."""


class TemplateUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What a release changes in one pod template; None removes a key."""

    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}
    node_selector: dict[str, str | None] = {}
    tolerations: tuple[Toleration, ...] | None = None
    """All tolerations that the template is to have; None leaves them unchanged."""


class AddedParts(WireStruct, frozen=True):
    """What releases have added to one pod template: keys with digests of their values."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


NOTHING_ADDED: Final = AddedParts()


def digest_of(value: str) -> str:
    """Return a short digest of a label's or annotation's value."""
    return hashlib.sha256(value.encode()).hexdigest()[:DIGEST_CHARS]


def read_added(annotations: Mapping[str, str]) -> dict[str, AddedParts]:
    """Return by pod set what a job notes as added; nothing if that cannot be read."""
    return _read_note(annotations)[0]


def why_unreadable(annotations: Mapping[str, str]) -> str:
    """Return why a job's note cannot be read, "" if it can or there is none.

    A user has edited it: then the templates count as they are.
    """
    return _read_note(annotations)[1]


def _read_note(annotations: Mapping[str, str]) -> tuple[dict[str, AddedParts], str]:
    note = annotations.get(POD_SET_UPDATES)
    if not note:
        return {}, ""
    if len(note) > MAX_NOTE_CHARS:
        return {}, f"it has {len(note)} characters, at most {MAX_NOTE_CHARS} are read"
    try:
        return decode_json(note, dict[str, AddedParts]), ""
    except TextError as error:
        return {}, str(error)


def write_added(added: Mapping[str, AddedParts]) -> str:
    """Return the note for a job, "" for nothing."""
    noted = {name: parts for name, parts in added.items() if parts != NOTHING_ADDED}
    return msgspec.json.encode(noted, order="sorted").decode() if noted else ""


def take_off(
    template: ScheduledPodTemplate, added: AddedParts
) -> tuple[ScheduledPodTemplate, AddedParts]:
    """Return a template without what was added, and what of that it has."""
    meta, spec = template.metadata, template.spec
    there = AddedParts(
        labels=_still_there(meta.labels, added.labels),
        annotations=_still_there(meta.annotations, added.annotations),
        node_selector=_still_there(spec.node_selector, added.node_selector),
        tolerations=_among(added.tolerations, spec.tolerations),
    )
    meta = msgspec.structs.replace(
        meta,
        labels=_less(meta.labels, there.labels),
        annotations=_less(meta.annotations, there.annotations),
    )
    spec = msgspec.structs.replace(
        spec,
        node_selector=_less(spec.node_selector, there.node_selector),
        tolerations=_without(spec.tolerations, there.tolerations),
    )
    return msgspec.structs.replace(template, metadata=meta, spec=spec), there


def take_off_body(template: dict[str, Any], added: AddedParts) -> dict[str, Any]:
    """Return the same for a whole template as JSON."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    for part, field, keys in (
        (metadata, "labels", added.labels),
        (metadata, "annotations", added.annotations),
        (spec, "nodeSelector", added.node_selector),
    ):
        if part.get(field):
            part[field] = _less(part[field], _still_there(part[field], keys))
    if spec.get("tolerations"):
        spec["tolerations"] = [*_without(spec["tolerations"], added.tolerations)]
    return template


def update_body(update: TemplateUpdate) -> dict[str, Any]:
    """Return the merge patch of a pod template that makes the change."""
    metadata = {"labels": update.labels, "annotations": update.annotations}
    spec: dict[str, Any] = {}
    if update.node_selector:
        spec["nodeSelector"] = update.node_selector
    if update.tolerations is not None:
        spec["tolerations"] = list(update.tolerations)
    given = {key: value for key, value in metadata.items() if value}
    return {key: value for key, value in (("metadata", given), ("spec", spec)) if value}


def _still_there(values: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    return {
        key: digest
        for key, digest in added.items()
        if (value := values.get(key)) is not None and digest_of(value) == digest
    }


def _among(some: Iterable[Toleration], all_of: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return those of `some` that `all_of` has, too."""
    known = set(map(_as_text, all_of))
    return tuple(each for each in some if _as_text(each) in known)


def _without(some: Iterable[Toleration], others: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return those of `some` that `others` does not have."""
    known = set(map(_as_text, others))
    return tuple(each for each in some if _as_text(each) not in known)


def _as_text(toleration: Toleration) -> bytes:
    # Maps have no hash, and a user may write twenty thousand of them into the note: each would be
    # compared with each of the template.
    return msgspec.json.encode(toleration, order="deterministic")


def _less(values: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key not in keys}
