"""Who has logged in: tokens in memory, each behind a random number that only a browser has."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import threading
from typing import Final

import msgspec

from shared_api.process.clock import Clock
from shared_api.text_decoding import decode_json

MAX_SECONDS: Final = 8 * 3600.0
"""How long a session lasts at most; less if its token ends before."""
MAX_SESSIONS: Final = 1000
MAX_OF_USER: Final = 10
"""The most sessions of each kind; a further one ends the oldest."""
ID_BYTES: Final = 32


class Session(msgspec.Struct, eq=False):
    """One login.

    Attributes:
        user: The name of who has logged in.
        token: The token, as it was sent.
        ends: When it ends, in monotonic seconds; 0: it has been ended.
    """

    user: str
    token: str
    ends: float


class Sessions:
    """Keeps sessions; callable from any thread.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _open
        # The oldest first. By a digest of the number, so that how long a search takes tells nothing
        # about numbers.
        self._open: dict[bytes, Session] = {}

    def __len__(self) -> int:
        """Return how many have not ended."""
        now = self._clock.monotonic()
        with self._lock:
            return sum(each.ends > now for each in self._open.values())

    def open(self, user: str, token: str) -> tuple[str, float]:
        """Begin a session; return its number, and how many seconds it lasts.

        Args:
            user: The user name by which the API server knows the token.
            token: The token.
        """
        now, number = self._clock.monotonic(), secrets.token_urlsafe(ID_BYTES)
        left = min(MAX_SECONDS, seconds_left(token, self._clock.now().timestamp()))
        with self._lock:
            self._forget_ended(now)
            own = [key for key, each in self._open.items() if each.user == user]
            for key in own[: max(0, len(own) - MAX_OF_USER + 1)]:
                self._end(key)
            while len(self._open) >= MAX_SESSIONS:
                self._end(next(iter(self._open)))
            begun = Session(user=user, token=token, ends=now + left)
            self._open[_digest(number)] = begun
        return number, left

    def find(self, number: str) -> Session | None:
        """Return the session of a number; None if there is none, or it has ended."""
        with self._lock:
            found = self._open.get(_digest(number))
        return found if found is not None and found.ends > self._clock.monotonic() else None

    def close(self, number: str) -> None:
        """End the session of a number, if there is one."""
        with self._lock:
            self._end(_digest(number))

    def _end(self, key: bytes) -> None:
        found = self._open.pop(key, None)
        if found is not None:
            found.ends = 0.0  # its streams end with it
            found.token = ""

    def _forget_ended(self, now: float) -> None:
        for key in [key for key, each in self._open.items() if each.ends <= now]:
            self._end(key)


def _digest(number: str) -> bytes:
    return hashlib.sha256(number.encode()).digest()


class _Claims(msgspec.Struct):
    exp: float | None = None


def seconds_left(token: str, now: float) -> float:
    """Return how long a token lasts by its own words; infinity if it does not say.

    Nothing is trusted by it: the API server has found the token to be valid.

    Args:
        token: The token; most are JSON Web Tokens.
        now: Seconds since the epoch.
    """
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - head, claims and signature
        return float("inf")
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = decode_json(base64.urlsafe_b64decode(padded).decode(), _Claims)
    except (ValueError, binascii.Error):  # a TextError is a ValueError
        return float("inf")
    return float("inf") if claims.exp is None else max(0.0, claims.exp - now)
