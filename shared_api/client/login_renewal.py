"""A login that is kept fresh: token files rotate, certificates are replaced, tokens expire.

The source is a function that reads everything anew (`kube_config` has two). It runs when one of
the files it named has changed, when what it gave is about to expire, and when the server answered
401. While one thread runs it, the others go on with the login they have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from shared_api.client.connection_settings import Login, SettingsError

if TYPE_CHECKING:
    from shared_api.process.clock import Clock

CHECK_SECONDS: Final = 10.0
"""Between two looks at the files: a `stat` each. A kubelet replaces a token long before its end."""
EXPIRY_LEEWAY: Final = timedelta(seconds=30)
"""A token with less life left is renewed: clocks differ, and requests take their time."""
MIN_RENEWAL_SECONDS: Final = 5.0
"""Between two renewals after a 401: the answer 401 must not start a plugin per request."""
MAX_RENEWAL_SECONDS: Final = 60.0
"""How long a thread with a rejected login waits for the one that is renewing it."""

_log = structlog.get_logger(__name__)


class FreshLogin(msgspec.Struct, frozen=True):
    """What one reading brought."""

    login: Login
    files: tuple[str, ...] = ()
    """A change of one of them calls for another reading."""
    expires_at: datetime | None = None


class RenewedLogin:
    """A `LoginSource` that reads again when it should."""

    def __init__(self, first: FreshLogin, read: Callable[[], FreshLogin], clock: Clock) -> None:
        """Start with a login that was just read.

        Args:
            first: what was read.
            read: reads it again; raises SettingsError. Never runs twice at once.
            clock: tells when to look.
        """
        self._read = read
        self._clock = clock
        # Held while `read` runs, input and output included, and guards all fields below: its
        # purpose is that a plugin is started once, not once per thread. Nobody waits for it
        # who has a login that may still work.
        self._lock = threading.Lock()
        self._fresh = first
        self._state = _state(first.files)
        self._look_at = clock.monotonic() + CHECK_SECONDS
        self._rejected_at = float("-inf")

    def current(self) -> Login:
        """Return the login to use now.

        Raises:
            SettingsError: it has expired, and there is no other.
        """
        if self._clock.monotonic() < self._look_at or not self._lock.acquire(blocking=False):
            return self._fresh.login
        try:
            self._look_at = self._clock.monotonic() + CHECK_SECONDS
            failure = self._read_again() if self._is_due() else None
        finally:
            self._lock.release()
        if failure is not None:
            self._bear(failure)
        return self._fresh.login

    def renew(self, rejected: Login) -> Login:
        """Return a newer login than `rejected`, or that one when there is none."""
        if not self._lock.acquire(timeout=MAX_RENEWAL_SECONDS):
            return rejected
        try:
            now = self._clock.monotonic()
            known = self._fresh.login != rejected or now < self._rejected_at + MIN_RENEWAL_SECONDS
            if known:
                return self._fresh.login
            self._rejected_at = now
            failure = self._read_again()
        finally:
            self._lock.release()
        if failure is not None:
            _log.warning("the rejected login could not be renewed", error=str(failure))
        return self._fresh.login

    def _is_due(self) -> bool:
        return self._expires_within(EXPIRY_LEEWAY) or self._state != _state(self._fresh.files)

    def _expires_within(self, leeway: timedelta) -> bool:
        expires_at = self._fresh.expires_at
        return expires_at is not None and expires_at - leeway <= self._clock.now()

    def _read_again(self) -> SettingsError | None:
        # The state is taken before the reading: a file that changes meanwhile is read once
        # more than needed, never once too few.
        state = _state(self._fresh.files)
        try:
            self._fresh = self._read()
        except SettingsError as error:
            return error
        self._state = state
        return None

    def _bear(self, failure: SettingsError) -> None:
        """Go on with the old login as long as it can work."""
        if self._expires_within(timedelta()):
            raise failure
        _log.warning("the login could not be renewed, the old one is used", error=str(failure))


def _state(files: tuple[str, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return what changes when a file is written or replaced."""
    return tuple(_file_state(Path(name)) for name in files)


def _file_state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:  # between the removal of the old file and the arrival of the new one
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
