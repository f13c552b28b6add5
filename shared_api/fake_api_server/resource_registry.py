"""What the fake API server serves: one `ServedResource` per kind and version.

It says what is special about a kind, so that the router and the write path stay general: whether
there is a status subresource, which fields can be selected by, what is defaulted and refused. The
built-in ones are in `builtin_kinds`, those of CRDs are made by `custom_resources`.
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
from shared_api.fake_api_server.schema_validation import Schema
from shared_api.fake_api_server.selectors import FieldPath
from shared_api.fake_api_server.table_printer import PLAIN_COLUMNS, Column

METADATA_FIELDS: Final[Mapping[str, FieldPath]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}
ALL_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
)


class ServerContext(Protocol):
    """What a rule may look at beside the object."""

    def now(self) -> str:
        """The time, as objects carry it."""

    def find(self, table_key: TableKey, key: ObjectKey) -> StoredObject | None:
        """Another object."""


Prepare: TypeAlias = Callable[[Body, ServerContext], Body]
"""Fills in a new object what the server fills in. May raise RequestFailed (admission)."""
Check: TypeAlias = Callable[[Body, Body | None], list[Cause]]
"""Says what is wrong with an object, given its stored version (None: it is new)."""
Convert: TypeAlias = Callable[[Body], Body]


def _unchanged(body: Body, _surroundings: ServerContext) -> Body:
    return body


def _nothing_wrong(_new: Body, _old: Body | None) -> list[Cause]:
    return []


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedResource:
    """One kind in one version. Compared by identity: it is asked for in every request."""

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
    """There is a `status` subresource: main writes leave the status, status writes the rest."""
    status_moves_metadata: bool = False
    """A status write may change labels, annotations and finalizers (built-in kinds: yes)."""
    keeps_status_on_create: bool = False
    counts_generation: bool = False
    """`metadata.generation` counts changes outside of metadata (and status, if a subresource)."""
    unconditional_update: bool = False
    """A PUT without resourceVersion is taken."""
    orphans_by_default: bool = False
    """A delete that says nothing leaves dependents behind (batch/v1 Job, for old clients)."""
    graceful: bool = False
    """A delete gives a bound pod its grace period."""
    strategic: bool = False
    """Strategic merge patches are taken."""
    is_custom: bool = False
    selectable: Mapping[str, FieldPath] = field(default_factory=dict)
    columns: tuple[Column, ...] = PLAIN_COLUMNS
    schema: Schema | None = None
    openapi: Mapping[str, JsonValue] | None = None
    """The schema as the CRD states it, for `kubectl explain`."""
    prepare: Prepare = _unchanged
    fill: Convert | None = None
    """Defaults that an update gets as well (a patch may have replaced a list of containers)."""
    check: Check = _nothing_wrong
    to_wire: Convert | None = None
    """From the stored form to this version's; None where they are the same."""
    from_wire: Convert | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    table: TableKey | None = None
    """Where it is stored, if not under its own group and plural."""

    @cached_property
    def api_version(self) -> str:
        """As in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def table_key(self) -> TableKey:
        """Where it is stored."""
        return self.table or (self.group, self.plural)

    @cached_property
    def fields(self) -> Mapping[str, FieldPath]:
        """All that a field selector may name."""
        return {**METADATA_FIELDS, **self.selectable}

    @cached_property
    def _head(self) -> bytes:
        named = {"apiVersion": self.api_version, "kind": self.kind}
        return msgspec.json.encode(named)[:-1] + b","

    def item_json(self, stored: StoredObject) -> bytes:
        """The object as an item of a list: built-in kinds go without apiVersion and kind there."""
        return self.object_json(stored) if self.is_custom else self._fields_json(stored)

    def object_json(self, stored: StoredObject) -> bytes:
        """The object as an answer or in a watch event."""
        return self._head + self._fields_json(stored)[1:]

    def body_json(self, body: Body) -> bytes:
        """The same for a body that is not stored (a dry run)."""
        return self.object_json(StoredObject(("", ""), body, 0))

    def _fields_json(self, stored: StoredObject) -> bytes:
        if self.to_wire is None:
            return stored.json
        return msgspec.json.encode(self.to_wire(stored.body))


class ResourceRegistry:
    """The kinds that are served now. Not thread-safe: the server's lock guards it."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._versions: set[tuple[str, str]] = set()

    def add(self, resource: ServedResource) -> None:
        """Serve a kind; again with changes replaces it."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._versions.add((resource.group, resource.version))

    def remove(self, group: str, plural: str) -> None:
        """Serve a kind no longer, in any version."""
        for path in [p for p in self._by_path if (p[0], p[2]) == (group, plural)]:
            del self._by_path[path]
        self._versions = {(group, version) for group, version, _ in self._by_path}

    def at(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The kind under a path, or None."""
        return self._by_path.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        """Whether anything is served in this group and version."""
        return (group, version) in self._versions

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """The kind that objects name so, or None."""
        group, _, version = api_version.rpartition("/")
        candidates = self._by_path.items()
        return next(
            (r for (g, v, _p), r in candidates if (g, v, r.kind) == (group, version, kind)), None
        )

    def named(self, name: str) -> ServedResource | None:
        """The kind with this plural, or this plural and group ("jobs.batch"), or None."""
        plural, _, group = name.partition(".")
        for (its_group, _, its_plural), resource in self._by_path.items():
            if its_plural == plural and (not group or its_group == group):
                return resource
        return None

    def stored_in(self, table: TableKey) -> ServedResource | None:
        """Some version of the kind that is stored in a table, or None."""
        return next((r for r in self._by_path.values() if r.table_key == table), None)

    def groups(self) -> dict[str, list[str]]:
        """Groups with their versions, in the order of discovery."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def in_version(self, group: str, version: str) -> list[ServedResource]:
        """The kinds of one group and version, by plural."""
        found = [r for (g, v, _), r in self._by_path.items() if (g, v) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)
