"""The write path: create, update, and delete objects.

The order of checks is that of the real server. Create: namespace, metadata, defaults, validation,
name. Update: existence, preconditions, fields of this (sub)resource, defaults, validation; an
update without a difference keeps the version and reaches no watch. Delete: preconditions,
finalizers, grace period.

Not thread-safe: the server's lock guards it. HTTP is not handled here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

import msgspec

from shared_api.fake_api_server.api_errors import (
    Cause,
    RequestFailed,
    already_exists,
    bad_request,
    failed_precondition,
    forbidden,
    invalid,
    not_found,
)
from shared_api.fake_api_server.builtin_kinds import NAMESPACES
from shared_api.fake_api_server.object_metadata import (
    GENERATED_CHARS,
    GENERATED_LENGTH,
    check_guards,
    check_label_name,
    check_metadata,
    check_types,
    generated_name,
    named_or_refused,
    new_metadata,
    next_metadata,
)
from shared_api.fake_api_server.object_storage import (
    ObjectKey,
    ObjectStorage,
    StoredObject,
    TableKey,
)
from shared_api.fake_api_server.patching import Body, JsonValue, share
from shared_api.fake_api_server.resource_registry import ServedResource
from shared_api.fake_api_server.schema_validation import joined_unknown
from shared_api.process.clock import Clock
from shared_api.timestamps import rfc3339

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
_DEFAULT_GRACE_SECONDS: Final = 30
_UID_BITS: Final = 128


class WriteOptions(msgspec.Struct, frozen=True):
    """Options in the query of a write."""

    dry_run: bool = False
    strict: bool = False
    """`fieldValidation=Strict`: unknown fields are refused instead of dropped."""


class DeleteOptions(msgspec.Struct, frozen=True):
    """Options of a delete, in its query or body."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    """Background, Foreground, Orphan, or "" for the kind's default."""
    grace_seconds: int | None = None
    dry_run: bool = False


class Deleted(NamedTuple):
    """The result of a delete."""

    object: StoredObject
    is_gone: bool
    """False while finalizers or the grace period keep the object."""


BodyChange = Callable[[Body], Body]
"""Returns the wanted body for the stored one; unchanged parts stay the same objects."""


class WritePath:
    """Processes writes; also the `ServerContext` of the rules of kinds."""

    def __init__(self, storage: ObjectStorage, clock: Clock, rng: random.Random) -> None:
        self._storage = storage
        self._clock = clock
        self._rng = rng

    # -------------------------------------------------------------- what rules may ask

    def now(self) -> str:
        """Return the time as an RFC 3339 timestamp."""
        return rfc3339(self._clock.now())

    def find(self, table_key: TableKey, key: ObjectKey) -> StoredObject | None:
        """Return an object, or None if it does not exist."""
        return self._storage.find(table_key, key)

    # -------------------------------------------------------------------------- create

    def create(
        self, resource: ServedResource, namespace: str, wire: Body, options: WriteOptions
    ) -> StoredObject:
        """Store a new object and return it.

        Raises:
            RequestFailed: The object is refused.
        """
        body = _stored_form(resource, wire)
        given = check_types(body.get("metadata") or {})
        if given.get("resourceVersion"):
            raise RequestFailed(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        if given.get("namespace") not in {None, "", namespace}:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        name = given.get("name") or self._generate_name(resource, given)
        if resource.namespaced:
            self._check_namespace(resource, namespace, name)
        metadata = new_metadata(
            given, namespace=namespace, name=name, uid=self._new_uid(), now=self.now()
        )
        if resource.counts_generation:
            metadata["generation"] = 1
        body["metadata"] = metadata
        if resource.has_status and not resource.keeps_status_on_create:
            body.pop("status", None)
        with _stumbling_refused(resource):
            body = resource.prepare(body, self)
        body = self._valid(resource, body, None, [], options)
        table = self._storage.table(resource.table_key)
        key = (namespace, name)
        if key in table.objects:
            raise already_exists(resource, name)
        if options.dry_run:
            return StoredObject(key, body, 0)
        return self._storage.insert(table, key, body)

    def _generate_name(self, resource: ServedResource, given: Body) -> str:
        base = named_or_refused(given, resource.kind, resource.group)
        letters = "".join(self._rng.choices(GENERATED_CHARS, k=GENERATED_LENGTH))
        return generated_name(base, letters)

    def _check_namespace(self, resource: ServedResource, namespace: str, name: str) -> None:
        found = self._storage.find(NAMESPACES, ("", namespace))
        if found is None:
            raise RequestFailed(
                404,
                "NotFound",
                f'namespaces "{namespace}" not found',
                details={"name": namespace, "kind": "namespaces"},
            )
        if found.body["metadata"].get("deletionTimestamp"):
            cause = Cause(
                "metadata.namespace",
                "NamespaceTerminating",
                f"namespace {namespace} is being terminated",
            )
            why = (
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
            raise forbidden(resource, name, why, cause)

    def _new_uid(self) -> str:
        digits = f"{self._rng.getrandbits(_UID_BITS):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    # -------------------------------------------------------------------------- update

    def update(
        self,
        resource: ServedResource,
        key: ObjectKey,
        change: BodyChange,
        options: WriteOptions,
        *,
        is_status: bool = False,
        is_patch: bool = True,
    ) -> StoredObject:
        """Store the next version of an object, unless nothing changes.

        Returns the object as answered; a deleted object without its last finalizer is no longer
        stored.

        Args:
            resource: the kind.
            key: namespace and name.
            change: returns the wanted body for the stored one.
            options: options of the write.
            is_status: whether the status subresource is written.
            is_patch: False for a PUT, which may need a resourceVersion.

        Raises:
            RequestFailed: The change is refused, or the object does not exist.
        """
        table = self._storage.table(resource.table_key)
        old = table.objects.get(key)
        if old is None:
            raise not_found(resource, key[1])
        wanted = change(old.body)
        if not is_patch:
            wanted = share(wanted, old.body)
        metadata = check_types(wanted.get("metadata") or {})
        causes = check_guards(
            resource,
            metadata,
            old.body["metadata"],
            is_patch=is_patch,
            needs_version=not is_patch and not resource.unconditional_update,
        )
        body = _allowed_part(resource, wanted, old.body, is_status=is_status)
        body["metadata"] = next_metadata(body["metadata"], old.body["metadata"])
        if resource.fill is not None and body.get("spec") is not old.body.get("spec"):
            with _stumbling_refused(resource):
                body = share(resource.fill(body), old.body)
        body = self._valid(resource, body, old.body, causes, options)
        if body is old.body:
            return old
        if resource.counts_generation and _counts(resource, body, old.body):
            generation = body["metadata"].get("generation", 0) + 1
            body = {**body, "metadata": {**body["metadata"], "generation": generation}}
        if options.dry_run:
            return StoredObject(key, body, old.version)
        if _is_finished(resource, body):
            self._storage.remove(table, old, body)
            return StoredObject(key, body, old.version)
        return self._storage.replace(table, old, body)

    def _valid(
        self,
        resource: ServedResource,
        body: Body,
        old: Body | None,
        causes: list[Cause],
        options: WriteOptions,
    ) -> Body:
        """Return the body with defaults and without unknown fields.

        Raises:
            RequestFailed: 422 with all causes, or 400 for unknown fields with Strict.
        """
        before = old or {}
        metadata, given = body["metadata"], body
        if resource.schema is not None and not resource.schema.accepts(body, old):
            unknown: list[str] = []
            body = resource.schema.normalise(body, old, "", unknown)
            if unknown and options.strict:
                raise bad_request(
                    f'{resource.kind} in version "{resource.version}" cannot be handled as a '
                    f"{resource.kind}: strict decoding error: {joined_unknown(unknown)}"
                )
            resource.schema.check(body, old, "", causes)
        if old is not None:
            body = _same_if_equal(body, old, was_changed=body is not given)
        if metadata is not before.get("metadata"):
            causes += check_metadata(metadata, before.get("metadata"))
            if resource.table_key == NAMESPACES and old is None:
                causes += check_label_name(metadata["name"], "metadata.name")
        if body is not old:
            with _stumbling_refused(resource):
                causes += resource.check(body, old)
        if causes:
            raise invalid(resource.kind, resource.group, metadata["name"], causes)
        return body

    # -------------------------------------------------------------------------- delete

    def delete(self, resource: ServedResource, key: ObjectKey, options: DeleteOptions) -> Deleted:
        """Delete an object, or mark it as deleted while finalizers or a grace period keep it.

        Raises:
            RequestFailed: 404, or 409 for a precondition.
        """
        table = self._storage.table(resource.table_key)
        old = table.objects.get(key)
        if old is None:
            raise not_found(resource, key[1])
        _check_preconditions(resource, old, options)
        finalizers = _finalizers_after(resource, old.body["metadata"], options.propagation)
        grace_seconds = _grace_seconds(resource, old.body, options.grace_seconds)
        is_held = bool(finalizers or grace_seconds or _holds_content(resource, old.body))
        if options.dry_run:
            return Deleted(old, not is_held)
        if not is_held and not resource.graceful:
            return Deleted(self._storage.remove(table, old, old.body), is_gone=True)
        marked = self._marked(resource, old, finalizers, grace_seconds)
        if marked is not old.body:
            old = self._storage.replace(table, old, marked)
        if is_held:
            return Deleted(old, is_gone=False)
        return Deleted(self._storage.remove(table, old, old.body), is_gone=True)

    def _marked(
        self, resource: ServedResource, old: StoredObject, finalizers: list[str], grace_seconds: int
    ) -> Body:
        """Return the body with a deletionTimestamp; the same body if it has one no later."""
        metadata = dict(old.body["metadata"])
        is_new = "deletionTimestamp" not in metadata
        if not is_new and metadata["deletionGracePeriodSeconds"] <= grace_seconds:
            return old.body
        ends = self._clock.now() + timedelta(seconds=grace_seconds)
        metadata["deletionTimestamp"] = rfc3339(ends)
        metadata["deletionGracePeriodSeconds"] = grace_seconds
        if finalizers:
            metadata["finalizers"] = finalizers
        if is_new and resource.counts_generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        body = {**old.body, "metadata": metadata}
        if resource.table_key == NAMESPACES:
            body["status"] = {**body.get("status", {}), "phase": "Terminating"}
        return body


@contextmanager
def _stumbling_refused(resource: ServedResource) -> Iterator[None]:
    """Refuse a body that makes the rules of a built-in kind fail.

    These kinds have no schema here, so a value of the wrong type is found only when it is used. The
    real server finds it when it decodes the body, and answers with the same status.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {error}"
        ) from error


def _stored_form(resource: ServedResource, wire: Body) -> Body:
    """Return the body as it is stored, after a check of its kind.

    Raises:
        RequestFailed: 400 or 422, it is not of this kind.
    """
    api_version, kind = wire.get("apiVersion"), wire.get("kind")
    if resource.is_custom and not kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            "Object 'Kind' is missing"
        )
    if (api_version or resource.is_custom) and api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version or ''}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    if kind and kind != resource.kind:
        cause = Cause(
            "kind", "FieldValueInvalid", f'Invalid value: "{kind}": must be {resource.kind}'
        )
        raise invalid(kind, resource.group, (wire.get("metadata") or {}).get("name", ""), [cause])
    body = {key: value for key, value in wire.items() if key not in {"apiVersion", "kind"}}
    return body if resource.from_wire is None else resource.from_wire(body)


def stored_form(resource: ServedResource, wire: JsonValue) -> Body:
    """Return a complete body (of a PUT, or after a patch) as it is stored.

    Raises:
        RequestFailed: 400 or 422, it is not of this kind.
    """
    if not isinstance(wire, dict):
        raise bad_request("the object is not a JSON object")
    return _stored_form(resource, wire)


def _allowed_part(resource: ServedResource, wanted: Body, old: Body, *, is_status: bool) -> Body:
    """Return the old body with the parts of the wanted one that this (sub)resource may write."""
    if not is_status:
        body = dict(wanted)
        body["metadata"] = wanted.get("metadata") or {}
        if resource.has_status:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]
        return body
    body = dict(old)
    if resource.status_moves_metadata:
        body["metadata"] = wanted.get("metadata") or {}
    body.pop("status", None)
    if wanted.get("status") is not None:
        body["status"] = wanted["status"]
    return body


def _same_if_equal(body: Body, old: Body, *, was_changed: bool) -> Body:
    """Return the old body itself if there is no difference.

    Patches reuse unchanged parts, so comparing identities is enough, unless defaulting and pruning
    have made new ones.
    """
    if was_changed:
        shared: Body = share(body, old)
        return shared
    same = len(body) == len(old) and all(body[key] is old.get(key) for key in body)
    return old if same else body


def _counts(resource: ServedResource, body: Body, old: Body) -> bool:
    """Return whether `generation` counts the change."""
    apart = {"metadata", "status"} if resource.has_status else {"metadata"}
    return any(
        body.get(key) is not old.get(key) for key in body.keys() | old.keys() if key not in apart
    )


def _holds_content(resource: ServedResource, body: Body) -> bool:
    """Return whether it is a namespace that is not yet empty."""
    return resource.table_key == NAMESPACES and bool(body.get("spec", {}).get("finalizers"))


def _is_finished(resource: ServedResource, body: Body) -> bool:
    """Return whether a deleted object can be removed."""
    metadata = body["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not _holds_content(resource, body)
    )


def _check_preconditions(
    resource: ServedResource, old: StoredObject, options: DeleteOptions
) -> None:
    metadata = old.body["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        raise failed_precondition(
            resource,
            old.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        raise failed_precondition(
            resource,
            old.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({metadata['resourceVersion']}). The object might have "
            "been modified",
        )


def _finalizers_after(resource: ServedResource, metadata: Body, propagation: str) -> list[str]:
    """Return the finalizers, including that of the propagation policy."""
    if not propagation and resource.orphans_by_default:
        propagation = "Orphan"
    own = {"Foreground": [FOREGROUND_FINALIZER], "Orphan": [ORPHAN_FINALIZER]}
    # A second delete does not change the policy of the first one.
    if "deletionTimestamp" in metadata:
        return list(metadata.get("finalizers") or ())
    policies = {FOREGROUND_FINALIZER, ORPHAN_FINALIZER}
    kept = [
        finalizer for finalizer in metadata.get("finalizers") or () if finalizer not in policies
    ]
    return kept + own.get(propagation, [])


def _grace_seconds(resource: ServedResource, body: Body, requested: int | None) -> int:
    """Return the grace period of a bound pod that has not ended; 0 for all other objects."""
    spec = body.get("spec", {})
    ended = body.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    if not resource.graceful or not spec.get("nodeName") or ended:
        return 0
    if requested is not None:
        return requested
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
