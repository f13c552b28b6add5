"""Quotas, queues, nodes and places from a file that a user gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from queue_scheduler.replay.jobs import TraceError
from queue_scheduler.replay.quota_files import read_documents
from queue_scheduler.shadow.counterfactual import KINDS, convert_object
from queue_scheduler.shadow.places import Places

PLACES: Final = "ShadowPlaces"
LOOK: Final = "docs/shadow.md has an example"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says.

    Attributes:
        bodies: The objects, as JSON values, in the order of the file; each has a name and a uid.
        places: The quotas of jobs that name none; None: it has nothing about that.
    """

    bodies: tuple[dict[str, Any], ...] = ()
    places: Places | None = None


def read_given(path: Path) -> Given:
    """Return what a file says.

    Raises:
        TraceError: It cannot be read, or has another kind, or an object that is wrong.
    """
    bodies: list[dict[str, Any]] = []
    places: Places | None = None
    for place, body in read_documents(path):
        kind = body.get("kind")
        try:
            if kind == PLACES:
                said = {key: value for key, value in body.items() if key not in _OF_OBJECTS}
                places = msgspec.convert(said, Places)
            elif kind in KINDS:
                bodies.append(_plain(place, body))
            else:
                known = ", ".join((*KINDS, PLACES))
                raise TraceError(f"{place}: kind is {kind!r}, want one of {known}; {LOOK}")
        except msgspec.ValidationError as error:
            raise TraceError(f"{place}: {error}; {LOOK}") from error
    return Given(bodies=tuple(bodies), places=places)


_OF_OBJECTS: Final = frozenset({"kind", "apiVersion", "metadata"})


def _plain(place: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a record has it: with a uid, which a file written by hand lacks."""
    found = convert_object(body)
    if not found.metadata.name:
        raise TraceError(f"{place}: it has no metadata.name; {LOOK}")
    plain: dict[str, Any] = msgspec.to_builtins(found)
    if not found.metadata.uid:
        plain["metadata"]["uid"] = f"{body['kind']}/{found.metadata.key}"
    return {"kind": body["kind"], **plain}
