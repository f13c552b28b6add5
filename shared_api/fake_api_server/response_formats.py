"""The forms an answer can take: objects, a `Table`, or metadata alone.

The Accept header selects the form: the first supported one of its list. Each form writes one
object, a list, and a watch event.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from shared_api.fake_api_server.object_storage import StoredObject
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.resource_registry import ServedResource
from shared_api.fake_api_server.table_printer import table

Form: TypeAlias = Literal["object", "table", "metadata"]
_encode: Final = msgspec.json.Encoder().encode


def requested_form(accept: str) -> Form:
    """Return the first supported form of an Accept header; "object" if there is none."""
    for clause in accept.split(","):
        if "as=Table" in clause:
            return "table"
        if "as=PartialObjectMetadata" in clause:
            return "metadata"
        if "as=" not in clause and ("json" in clause or "*/*" in clause):
            return "object"
    return "object"


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list."""

    objects: Sequence[StoredObject]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> Body:
        """Return `metadata` of the list."""
        metadata: Body = {"resourceVersion": str(self.version)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class AnswerWriter(msgspec.Struct, frozen=True):
    """Writes answers for one kind in one form."""

    resource: ServedResource
    form: Form
    include: str
    """`includeObject` of a Table."""
    now: datetime

    def one(self, stored: StoredObject) -> bytes:
        """Return one object."""
        if self.form == "object":
            return self.resource.object_json(stored)
        if self.form == "metadata":
            return _encode(_partial(stored))
        version = stored.body["metadata"].get("resourceVersion", "")
        return _encode(self._table([stored], {"resourceVersion": version}))

    def page(self, page: ListPage) -> bytes:
        """Return a list."""
        if self.form == "table":
            return _encode(self._table(page.objects, page.metadata()))
        head: Body = {"kind": self._list_kind(), "apiVersion": self.resource.api_version}
        items = [self.resource.item_json(stored) for stored in page.objects]
        if self.form == "metadata":
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            items = [_encode(_partial(stored)) for stored in page.objects]
        head["metadata"] = page.metadata()
        return _encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"

    def event(self, change: str, stored: StoredObject, *, is_first: bool = False) -> bytes:
        """Return a line of a watch; a Table has its columns only in the first one."""
        if self.form == "table":
            version = {"resourceVersion": stored.body["metadata"]["resourceVersion"]}
            written = _encode(self._table([stored], version, with_definitions=is_first))
        else:
            written = self.one(stored)
        return b'{"type":"' + change.encode() + b'","object":' + written + b"}"

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """Return a bookmark line of a watch."""
        metadata: Body = {"resourceVersion": str(version)}
        if ends_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        named = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return _encode({"type": "BOOKMARK", "object": {**named, "metadata": metadata}})

    def _list_kind(self) -> str:
        return self.resource.list_kind or f"{self.resource.kind}List"

    def _table(
        self, objects: Sequence[StoredObject], metadata: Body, *, with_definitions: bool = True
    ) -> Body:
        return table(
            self.resource.columns,
            objects,
            metadata,
            self.now,
            include=self.include,
            full=self.resource.object_json,
            with_definitions=with_definitions,
        )


def _partial(stored: StoredObject) -> Body:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.body["metadata"],
    }
