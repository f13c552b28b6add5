"""`metadata` of a write: what the server sets, protects, and refuses.

Pure functions. The server owns uid, creationTimestamp, generation, resourceVersion, and
deletionTimestamp; a client sends them only to identify the object that it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from shared_api.fake_api_server.api_errors import (
    Cause,
    NamedResource,
    bad_request,
    conflict,
    forbidden_field,
    immutable,
    invalid,
    invalid_value,
    required,
)
from shared_api.fake_api_server.patching import Body, JsonValue, share

MAX_NAME_CHARS: Final = 253
MAX_LABEL_CHARS: Final = 63
MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""The most bytes of all annotations of an object, keys and values.
Source: k8s.io/apimachinery/pkg/api/validation, `TotalAnnotationSizeLimitB`."""
GENERATED_CHARS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names; no vowels, so no words.
Source: k8s.io/apimachinery/pkg/util/rand."""
GENERATED_LENGTH: Final = 5
_MAX_GENERATED_BASE: Final = 63 - GENERATED_LENGTH

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([^/]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_SERVERS_OWN: Final = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_DROPPED: Final = ("selfLink", "managedFields")
_OMITTED_WHEN_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_FIRST_OF_OWNER: Final = ("apiVersion", "kind", "name", "uid")


def new_metadata(given: Body, *, namespace: str, name: str, uid: str, now: str) -> Body:
    """Return the metadata of a new object; the storage adds resourceVersion."""
    kept = {key: value for key, value in given.items() if key not in _DROPPED and value is not None}
    for key in (*_SERVERS_OWN, "selfLink"):
        kept.pop(key, None)
    own: Body = {"name": name, "uid": uid, "creationTimestamp": now}
    if namespace:
        own["namespace"] = namespace
    return _without_empty({**own, **kept})


def next_metadata(wanted: Body, old: Body) -> Body:
    """Return the metadata of an update: as wanted, except for what the server owns."""
    if wanted is old:
        return old
    kept = {
        key: value
        for key, value in wanted.items()
        if key not in _SERVERS_OWN and key not in _DROPPED and value is not None
    }
    own: Body = {key: old[key] for key in _SERVERS_OWN if key in old}
    result = share(_without_empty({**own, **kept}), old)
    assert isinstance(result, dict)
    return result


def _without_empty(metadata: Body) -> Body:
    for key in _OMITTED_WHEN_EMPTY:
        if key in metadata and not metadata[key]:
            del metadata[key]
    return metadata


def check_guards(
    resource: NamedResource, wanted: Body, old: Body, *, is_patch: bool, needs_version: bool
) -> list[Cause]:
    """Check that a write is meant for this object in this version.

    Returns what is invalid: a patch with another uid, for example, as it would change the uid.

    Raises:
        RequestFailed: 409 for another resourceVersion, or for another uid in a PUT; 400 for
            another name.
    """
    name = old["name"]
    version, uid = wanted.get("resourceVersion"), wanted.get("uid")
    if wanted.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({wanted['name']}) does not match the name on the URL ({name})"
        )
    if wanted.get("namespace") not in {None, "", old.get("namespace")}:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if uid and uid != old["uid"] and not is_patch:
        raise conflict(
            resource,
            name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}",
        )
    if version and version != old["resourceVersion"]:
        raise conflict(resource, name)
    if not version and needs_version:
        why = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, why)
        raise invalid(resource.plural, resource.group, name, [cause])
    causes = [
        immutable(f"metadata.{field}", wanted[field])
        for field in ("uid", "creationTimestamp", "deletionTimestamp")
        if wanted.get(field) and wanted[field] != old.get(field)
    ]
    if old.get("deletionTimestamp"):
        causes += _check_no_new_finalizers(wanted, old)
    return causes


def _check_no_new_finalizers(wanted: Body, old: Body) -> list[Cause]:
    had = old.get("finalizers") or ()
    new = [finalizer for finalizer in wanted.get("finalizers") or () if finalizer not in had]
    if not new:
        return []
    listed = ", ".join(f'"{finalizer}"' for finalizer in new)
    why = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{listed}}}"
    )
    return [forbidden_field("metadata.finalizers", why)]


def check_metadata(metadata: Body, old: Body | None) -> list[Cause]:
    """Return what is invalid in metadata; parts identical to `old` are not checked."""
    before = old or {}
    causes: list[Cause] = []
    if old is None:
        causes += check_name(metadata["name"], "metadata.name")
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is not None and pairs is not before.get(field):
            causes += _check_pairs(field, pairs)
    owners = metadata.get("ownerReferences")
    if owners is not None and owners is not before.get("ownerReferences"):
        causes += _check_owners(owners)
    return causes


def check_name(name: str, field: str) -> list[Cause]:
    """Return what is invalid in a name."""
    if len(name) <= MAX_NAME_CHARS and _SUBDOMAIN.fullmatch(name):
        return []
    why = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        f"used for validation is '{_SUBDOMAIN.pattern}')"
    )
    return [invalid_value(field, name, why)]


def check_label_name(name: str, field: str) -> list[Cause]:
    """Return what is invalid in the name of a namespace."""
    if len(name) <= MAX_LABEL_CHARS and _LABEL.fullmatch(name):
        return []
    why = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        f"used for validation is '{_LABEL.pattern}')"
    )
    return [invalid_value(field, name, why)]


def check_types(metadata: JsonValue) -> Body:
    """Return the metadata after a check of its types.

    Raises:
        RequestFailed: 400, it is not an object, or a field has the wrong type.
    """
    if not isinstance(metadata, dict):
        raise bad_request("metadata is not an object")
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is None:
            continue
        if not isinstance(pairs, dict) or not all(isinstance(v, str) for v in pairs.values()):
            raise bad_request(
                f"unable to decode: cannot restore struct: metadata.{field} must map to strings"
            )
    for field in ("finalizers", "ownerReferences"):
        if not isinstance(metadata.get(field) or [], list):
            raise bad_request(f"unable to decode: metadata.{field} is not a list")
    return metadata


def _check_pairs(field: str, pairs: Mapping[str, str]) -> list[Cause]:
    causes = [
        invalid_value(
            f"metadata.{field}",
            key,
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        )
        for key in pairs
        if not _QUALIFIED.fullmatch(key)
    ]
    if field == "labels":
        causes += [
            invalid_value(
                "metadata.labels",
                value,
                "a valid label must be an empty string or consist of alphanumeric characters, '-', "
                "'_' or '.', and must start and end with an alphanumeric character",
            )
            for value in pairs.values()
            if not _LABEL_VALUE.fullmatch(value)
        ]
    elif sum(len(f"{key}{value}".encode()) for key, value in pairs.items()) > MAX_ANNOTATION_BYTES:
        why = f"Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"
        causes.append(Cause("metadata.annotations", "FieldValueTooLong", why))
    return causes


def _check_owners(owners: list[Body]) -> list[Cause]:
    causes = [
        invalid_value(f"metadata.ownerReferences.{field}", "", "must not be empty")
        for owner in owners
        for field in _FIRST_OF_OWNER
        if not owner.get(field)
    ]
    controllers = [owner.get("name") for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        why = f"Only one reference can have Controller set to true. Found {controllers!r}"
        causes.append(invalid_value("metadata.ownerReferences", [], why))
    return causes


def generated_name(base: str, letters: str) -> str:
    """Return the name for a `generateName`; `letters` is the random part."""
    return base[:_MAX_GENERATED_BASE] + letters


def named_or_refused(given: Body, kind: str, group: str) -> str:
    """Return the prefix for a generated name.

    Raises:
        RequestFailed: 422, there is no name and no prefix.
    """
    base = given.get("generateName")
    if not base:
        cause: Cause = required("metadata.name", "name or generateName is required")
        raise invalid(kind, group, "", [cause])
    return str(base)
