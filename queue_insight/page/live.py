"""Finds what changes, once a second for all visitors, and only while a page listens."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from queue_insight.page.known_state import KnownState, KnownStates
from queue_insight.page.visitors import Visitor
from queue_scheduler.cache.unit_state import CachedUnit
from shared_api.timestamps import rfc3339

MAX_KEPT: Final = 120
"""Changes that are kept for streams that begin again: those of two minutes."""
MAX_DIGITS: Final = 15
MAX_UNITS: Final = 200
"""Units that one message names."""


class Change(msgspec.Struct, frozen=True):
    """What differs between two states.

    Attributes:
        number: Counts changes.
        state_at: The time of the later state.
        queues: Queues that differ.
        quotas: Quotas that differ.
        units: Units that differ, `namespace/name`.
    """

    number: int
    state_at: str
    queues: tuple[str, ...]
    quotas: tuple[str, ...]
    units: tuple[str, ...]


class Changes:
    """Finds changes. One thread at a time looks; others may read what was found.

    Attributes:
        last: Number of the last change.

    Args:
        states: What is looked at.
    """

    def __init__(self, states: KnownStates) -> None:
        self._states = states
        # Numbers of another run of this program mean nothing.
        self._run = secrets.token_hex(4)
        self.last = 0
        self._state: KnownState | None = None
        self._kept: deque[Change] = deque(maxlen=MAX_KEPT)

    def look(self) -> Change | None:
        """Return what has changed since the last look; None: nothing, or it is the first one.

        Raises:
            NoStateError: There is no state.
        """
        was, now = self._state, self._states.look()
        self._state = now
        if was is None or was.number == now.number:
            return None
        change = Change(
            number=self.last + 1,
            state_at=rfc3339(now.state_at),
            queues=_differing(_by_name(was.queues), _by_name(now.queues)),
            quotas=_differing(_quotas_of(was), _quotas_of(now)),
            units=_other_records(was.records, now.records),
        )
        if not (change.queues or change.quotas or change.units):
            return None
        self._kept.append(change)
        self.last = change.number
        return change

    def id_of(self, number: int) -> str:
        """Return the id of a message about a change."""
        return f"{self._run}-{number}"

    def place_of(self, message_id: str) -> int | None:
        """Return the number of the change of a message; None: what came after it is not known."""
        run, _, number = message_id.partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal()):
            return None
        place = int(number[:MAX_DIGITS])
        return place if self.last - len(self._kept) <= place <= self.last else None

    def after(self, place: int) -> list[Change]:
        """Return the changes after one of this number that are kept, in order."""
        return [each for each in tuple(self._kept) if each.number > place]


def merge(changes: Sequence[Change]) -> Change:
    """Return several changes in a row as one, with the number and the time of the last."""
    *_, last = changes
    return Change(
        number=last.number,
        state_at=last.state_at,
        queues=_all(each.queues for each in changes),
        quotas=_all(each.quotas for each in changes),
        units=_all(each.units for each in changes),
    )


def _all(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part))


def show_change(change: Change, visitor: Visitor, message_id: str) -> dict[str, Any]:
    """Return a change as a visitor may see it: units that it may not read are left out."""
    readable = (each for each in change.units if visitor.may_read(each.partition("/")[0]))
    units = [unit for unit, _ in zip(readable, range(MAX_UNITS), strict=False)]
    return {
        "number": message_id,
        "stateAt": change.state_at,
        "queues": change.queues,
        "quotas": change.quotas,
        "units": units,
    }


def _by_name(found: Iterable[Any]) -> dict[str, Any]:
    return {each.name: each for each in found}


def _quotas_of(state: KnownState) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rest = list(state.trees)
    while rest:
        node = rest.pop()
        found[node.name] = node
        rest.extend(node.children)
    return found


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in sorted(was.keys() | now.keys()) if was.get(name) != now.get(name))


def _other_records(was: Mapping[str, CachedUnit], now: Mapping[str, CachedUnit]) -> tuple[str, ...]:
    """Return the units whose records are other ones: records are never changed."""
    came = [key for key, record in now.items() if was.get(key) is not record]
    return (*came, *(key for key in was if key not in now))
