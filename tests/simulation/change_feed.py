"""Every write to the API server, as it happens: its writer, time, and content.

The feed keeps the newest version of every object, and the trace: one line per change, for the
person who debugs a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shared_api.fake_api_server.object_storage import StoredChange, Table
from shared_api.testing.virtual_clock import VirtualClock
from tests.object_states import is_true

Json = dict[str, Any]

SILENT_KINDS: Final = frozenset(("leases", "events"))
"""Kinds whose writes neither count as activity nor appear in the trace."""


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One change.

    Attributes:
        plural: the kind.
        key: `namespace/name`.
        body: the object after the change; where it is deleted, before it.
        before: the object before the change; None where it is new.
        is_gone: whether it was deleted.
        version: the position in the order of all kinds.
        actor: the writer.
    """

    plural: str
    key: str
    body: Json
    before: Json | None
    is_gone: bool
    version: int
    actor: str

    @property
    def uid(self) -> str:
        uid: str = self.body["metadata"]["uid"]
        return uid


class ChangeFeed:
    """Listens to an API server.

    Attributes:
        actor: the author of what happens now; set before each turn.
        objects: the newest version of every object, by plural and key.
        writes: how many changes each actor has made, except of `SILENT_KINDS`.
        lines: the trace.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.actor = "set-up"
        self.objects: dict[str, dict[str, Json]] = {}
        self.writes: Counter[str] = Counter()
        self.lines: list[str] = []
        self.last_write_at = clock.monotonic()
        self._clock = clock
        self._started_at = clock.monotonic()
        self._last_change: dict[str, int] = {}
        self._listeners: list[Callable[[ChangeEvent], None]] = []

    def listen(self, listener: Callable[[ChangeEvent], None]) -> None:
        """Call the listener with every change from now on; it must not raise, nor write."""
        self._listeners.append(listener)

    def last_change(self, plural: str) -> int:
        """Return the version of the newest change of a kind."""
        return self._last_change.get(plural, 0)

    def all(self, plural: str) -> dict[str, Json]:
        """Return all objects of a kind by their keys."""
        return self.objects.setdefault(plural, {})

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        seconds = self._clock.monotonic() - self._started_at
        self.lines.append(f"{seconds:10.3f} {self.actor:<16} {text}")

    def story_of(self, key: str) -> list[str]:
        """Return the lines of the trace that name an object, or a namesake of another kind."""
        return [line for line in self.lines if key in line]

    def on_change(self, table: Table, change: StoredChange) -> None:
        """Take in a change (`ChangeObserver`)."""
        plural = table.key[1]
        self._last_change[plural] = change.version
        current, is_gone = change.current, change.type == "DELETED"
        key = f"{current.namespace}/{current.name}" if current.namespace else current.name
        kept = self.objects.setdefault(plural, {})
        before = kept.get(key)
        if is_gone:
            kept.pop(key, None)
        else:
            kept[key] = current.body
        if plural in SILENT_KINDS:
            return
        event = ChangeEvent(plural, key, current.body, before, is_gone, change.version, self.actor)
        self.writes[self.actor] += 1
        self.last_write_at = self._clock.monotonic()
        self.say(f"{_VERBS[change.type]} {plural} {key} v{change.version} {gist_of(event)}")
        for listener in self._listeners:
            listener(event)


_VERBS: Final = {"ADDED": "+", "MODIFIED": "~", "DELETED": "-"}


def gist_of(event: ChangeEvent) -> str:
    """Return in a few words what matters about the object."""
    body = event.body
    match event.plural:
        case "queueunits":
            status = body.get("status", {})
            admitted = [f"{each.get('replicas')}" for each in status.get("admissions") or ()]
            evicted = is_true(body, "Evicted")
            words = [status.get("phase") or "Enqueued", f"admitted={'+'.join(admitted) or 0}"]
            words += ["evicted"] if evicted else []
            words += ["inactive"] if body["spec"].get("active") is False else []
        case "jobs":
            spec = body["spec"]
            words = ["suspended" if spec.get("suspend") else "released"]
            words += [f"parallelism={spec.get('parallelism')}"]
            words += [kind for kind in ("Complete", "Failed") if is_true(body, kind)]
        case "pods" | "reservations":
            words = [str(body.get("status", {}).get("phase"))]
        case "elasticquotas":
            spec = body["spec"]
            words = [f"min={spec.get('min')} max={spec.get('max')}"]
        case _:
            words = []
    words += ["deleting"] if "deletionTimestamp" in body["metadata"] and not event.is_gone else []
    return " ".join(words)
