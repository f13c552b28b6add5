"""What the fake API server serves: one `ServedResource` per kind and version.

It has what differs between kinds, so that the router and the write path stay generic: whether there
is a status subresource, which fields can be selected by, what is defaulted and refused. Built-in
kinds are in `builtin_kinds`; `custom_resources` makes those of CRDs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol, TypeAlias

import msgspec

from shared_api.fake_api_server.api_errors import Cause
from shared_api.fake_api_server.object_storage import ObjectKey, StoredObject, TableKey
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.schema_validation import ObjectSchema
from shared_api.fake_api_server.selectors import FieldPath
from shared_api.fake_api_server.table_printer import PLAIN_COLUMNS, TableColumn

METADATA_FIELDS: Final[Mapping[str, FieldPath]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}
ALL_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
)


class ServerContext(Protocol):
    """What a rule may read in addition to the object."""

    def now(self) -> str:
        """Return the time as an RFC 3339 timestamp."""

    def find(self, table_key: TableKey, key: ObjectKey) -> StoredObject | None:
        """Return another object, or None if it does not exist."""


Prepare: TypeAlias = Callable[[Body, ServerContext], Body]
"""Fills in what the server sets in a new object. May raise RequestFailed (admission)."""
ObjectCheck: TypeAlias = Callable[[Body, Body | None], list[Cause]]
"""Returns what is invalid in an object, given its stored version (None if it is new)."""
Convert: TypeAlias = Callable[[Body], Body]


def _unchanged(body: Body, _surroundings: ServerContext) -> Body:
    return body


def _nothing_wrong(_new: Body, _old: Body | None) -> list[Cause]:
    return []


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedResource:
    """One kind in one version. Compared by identity, since every request looks it up."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    """It has a `status` subresource: only writes to that change the status, and nothing else."""
    status_moves_metadata: bool = False
    """A status write may change labels, annotations and finalizers (built-in kinds: yes)."""
    keeps_status_on_create: bool = False
    counts_generation: bool = False
    """`metadata.generation` counts changes outside metadata (and outside a status subresource)."""
    unconditional_update: bool = False
    """A PUT without resourceVersion is accepted."""
    orphans_by_default: bool = False
    """A delete without a policy orphans dependents (batch/v1 Job, for old clients)."""
    graceful: bool = False
    """A delete of a bound pod waits for its grace period."""
    strategic: bool = False
    """Strategic merge patches are accepted."""
    is_custom: bool = False
    selectable: Mapping[str, FieldPath] = field(default_factory=dict)
    columns: tuple[TableColumn, ...] = PLAIN_COLUMNS
    schema: ObjectSchema | None = None
    openapi: Mapping[str, JsonValue] | None = None
    """The schema as in the CRD, for `kubectl explain`."""
    prepare: Prepare = _unchanged
    fill: Convert | None = None
    """Sets defaults at updates too (a patch may have replaced a list of containers)."""
    check: ObjectCheck = _nothing_wrong
    to_wire: Convert | None = None
    """Converts the stored form to that of this version; None if they are the same."""
    from_wire: Convert | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    table: TableKey | None = None
    """The table it is stored in, if not that of its group and plural."""

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def table_key(self) -> TableKey:
        """The table it is stored in."""
        return self.table or (self.group, self.plural)

    @cached_property
    def fields(self) -> Mapping[str, FieldPath]:
        """All fields that a field selector may use."""
        return {**METADATA_FIELDS, **self.selectable}

    @cached_property
    def _head(self) -> bytes:
        named = {"apiVersion": self.api_version, "kind": self.kind}
        return msgspec.json.encode(named)[:-1] + b","

    def item_json(self, stored: StoredObject) -> bytes:
        """Return an object as a list item: those of built-in kinds have no apiVersion and kind."""
        return self.object_json(stored) if self.is_custom else self._fields_json(stored)

    def object_json(self, stored: StoredObject) -> bytes:
        """Return an object as an answer or in a watch event."""
        return self._head + self._fields_json(stored)[1:]

    def body_json(self, body: Body) -> bytes:
        """Return an object that is not stored (a dry run), as `object_json`."""
        return self.object_json(StoredObject(("", ""), body, 0))

    def _fields_json(self, stored: StoredObject) -> bytes:
        if self.to_wire is None:
            return stored.json
        return msgspec.json.encode(self.to_wire(stored.body))


class ResourceRegistry:
    """The kinds that are served. Not thread-safe: the server's lock guards it."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._versions: set[tuple[str, str]] = set()

    def add(self, resource: ServedResource) -> None:
        """Serve a kind; replaces an earlier definition."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._versions.add((resource.group, resource.version))

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a kind, in all versions."""
        for path in [p for p in self._by_path if (p[0], p[2]) == (group, plural)]:
            del self._by_path[path]
        self._versions = {(group, version) for group, version, _ in self._by_path}

    def at(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the kind under a path, or None."""
        return self._by_path.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        """Return whether any kind is served in this group and version."""
        return (group, version) in self._versions

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the kind of objects with this apiVersion and kind, or None."""
        group, _, version = api_version.rpartition("/")
        candidates = self._by_path.items()
        return next(
            (r for (g, v, _p), r in candidates if (g, v, r.kind) == (group, version, kind)), None
        )

    def named(self, name: str) -> ServedResource | None:
        """Return the kind with this plural, or this plural and group ("jobs.batch"), or None."""
        plural, _, group = name.partition(".")
        for (its_group, _, its_plural), resource in self._by_path.items():
            if its_plural == plural and (not group or its_group == group):
                return resource
        return None

    def stored_in(self, table: TableKey) -> ServedResource | None:
        """Return any version of the kind that is stored in a table, or None."""
        return next((r for r in self._by_path.values() if r.table_key == table), None)

    def groups(self) -> dict[str, list[str]]:
        """Return groups with their versions, in the order of discovery."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def in_version(self, group: str, version: str) -> list[ServedResource]:
        """Return the kinds of a group and version, sorted by plural."""
        found = [r for (g, v, _), r in self._by_path.items() if (g, v) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)
