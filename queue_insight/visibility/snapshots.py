"""States of the engine that are kept for the further pages of a list, and the tokens for them.

A token is opaque: it has no name of an object, and is of use only to whom it was given, for the
list that it was given for. Whether it was forged, is of another replica, or has expired, it is
answered as the API server answers an old one: 410, and a client begins again.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import struct
import threading
from http import HTTPStatus
from typing import Final, NamedTuple

from queue_insight.visibility.statuses import StatusError, bad_request
from queue_scheduler.cache.known_units import units_by_key
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import Clock

KEPT_SECONDS: Final = 120.0
"""How long a state is kept. A client asks for the next page at once; the API server gives it five
minutes, but what this state holds of the past grows with each change."""

MAX_KEPT: Final = 8
MAX_OF_CALLER: Final = 2
"""The most snapshots of one caller, so that lists it never finishes take none from others."""

MAX_UNITS: Final = 800_000
"""Units in all states that are kept, each with entries of some 50 bytes; a state of more is kept
alone. What the engine has replaced since then is held in addition, for `KEPT_SECONDS`."""

_ID_BYTES: Final = 12
_MAC_BYTES: Final = 16
_PLACE: Final = struct.Struct(">Q")
_LENGTH: Final = _ID_BYTES + _PLACE.size + _MAC_BYTES


class ListScope(NamedTuple):
    """The list that a token is for, and the caller that it was given to."""

    user: str
    path: str
    selector: str


class _Kept(NamedTuple):
    engine: Engine
    user: str
    until: float
    units: int


class KeptSnapshots:
    """Keeps forks of the engine; thread-safe.

    Args:
        clock: The time.
        key: Signs the tokens; another process has another one.
    """

    def __init__(self, clock: Clock, key: bytes | None = None) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32) if key is None else key
        self._lock = threading.Lock()  # guards _kept
        self._kept: dict[bytes, _Kept] = {}  # the oldest first

    def keep(self, engine: Engine, user: str) -> bytes:
        """Keep a fork, which is not changed any more; return its id for `token`."""
        name = secrets.token_bytes(_ID_BYTES)
        until = self._clock.monotonic() + KEPT_SECONDS
        with self._lock:
            count = len(units_by_key(engine.units))
            self._kept[name] = _Kept(engine, user, until, count)
            self._make_room(user)
        return name

    def token(self, name: bytes, offset: int, scope: ListScope) -> str:
        """Return the token for the rest of a list, of which `offset` units were answered."""
        payload = name + _PLACE.pack(offset)
        return base64.urlsafe_b64encode(payload + self._sign(payload, scope)).decode()

    def forget_old(self) -> None:
        """Drop what is not kept any longer, so that no state outlives its time unasked for."""
        with self._lock:
            self._forget_old()

    def find(self, token: str, scope: ListScope) -> tuple[bytes, Engine, int]:
        """Return the id, the fork, and how many units of the list were answered.

        Raises:
            StatusError: 400: it is no token; 410: it was not given to this caller for this list, or
                has expired.
        """
        try:
            content = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise bad_request("continue is no token of a list") from error
        if len(content) != _LENGTH:
            raise bad_request("continue is no token of a list")
        payload, signature = content[:-_MAC_BYTES], content[-_MAC_BYTES:]
        name = payload[:_ID_BYTES]
        is_own = hmac.compare_digest(signature, self._sign(payload, scope))
        with self._lock:
            self._forget_old()
            kept = self._kept.get(name) if is_own else None
        if kept is None:
            message = "The provided continue parameter is too old or not of this list: list again."
            raise StatusError(HTTPStatus.GONE, message)
        return name, kept.engine, _PLACE.unpack(payload[_ID_BYTES:])[0]

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def _sign(self, payload: bytes, scope: ListScope) -> bytes:
        text = "\0".join(scope).encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, payload + text, "sha256")[:_MAC_BYTES]

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for name in [name for name, each in self._kept.items() if each.until <= now]:
            del self._kept[name]

    def _make_room(self, user: str) -> None:
        """Drop the oldest of a caller who has too many, then the oldest of all."""
        self._forget_old()
        own = [name for name, each in self._kept.items() if each.user == user]
        for name in own[:-MAX_OF_CALLER]:
            del self._kept[name]
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_KEPT or sum(e.units for e in self._kept.values()) > MAX_UNITS
        ):
            del self._kept[next(iter(self._kept))]
