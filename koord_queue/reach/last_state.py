"""The last state of an object that may be gone, from what the API server remembers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

DELETED: Final = "DELETED"
ERROR: Final = "ERROR"


class _Object(msgspec.Struct):
    class Meta(msgspec.Struct):
        uid: str = ""

    metadata: Meta = msgspec.field(default_factory=Meta)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


def last_state(cluster: Cluster, path: str, name: str, uid: str, version: str) -> bytes | None:
    """Return an object as it was last, or was when it was deleted, as JSON.

    None if it has not changed since the version, or the server does not remember so much.

    Args:
        cluster: The API server.
        path: The path of the list that it is in.
        name: The name of the object.
        uid: The uid of the object: another one may have its name now.
        version: Its `resourceVersion` when it was read last.

    Raises:
        CommandError: As `Cluster.changes_since`; above all, the caller may not watch such objects.
    """
    newest: bytes | None = None
    for line in cluster.changes_since(path, name, version):
        event = msgspec.json.decode(line, type=_Event)
        if event.type == ERROR:
            return newest
        if msgspec.json.decode(event.object, type=_Object).metadata.uid != uid:
            continue
        newest = bytes(event.object)
        if event.type == DELETED:
            return newest
    return newest
