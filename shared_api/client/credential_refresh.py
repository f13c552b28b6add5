"""Credentials that are kept fresh: token files rotate, certificates are replaced, tokens expire.

The source is a function that reads everything again (`kube_config` has two), which may start a
plugin that takes its time. It runs when one of the files it named has changed, when what it gave is
about to expire, and when the server answered 401: on a thread of its own, once at a time. Requests
continue with the present credentials. Only when those have expired do they wait, each within its
own limit of time: the election's have some seconds, a plugin has more.
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
from shared_api.process.loop_thread import run_once

if TYPE_CHECKING:
    from shared_api.process.clock import Clock

CHECK_SECONDS: Final = 10.0
"""Between two looks at the files: a `stat` each. A kubelet replaces a token long before its end."""
EXPIRY_LEEWAY: Final = timedelta(seconds=60)
"""A token with less life left is renewed: a plugin may take 45 s, and clocks differ."""
MIN_RENEWAL_SECONDS: Final = 5.0
"""Between two renewals: neither the answer 401 nor a plugin that fails may start one per request.
Half of the time that the election has for a renewal of its lease."""

_FileStates = tuple[tuple[int, int, int], ...]

_log = structlog.get_logger(__name__)


class Credentials(msgspec.Struct, frozen=True):
    """What one reading brought."""

    login: Login
    files: tuple[str, ...] = ()
    """A change of one of them calls for another reading."""
    expires_at: datetime | None = None


class CredentialRefresher:
    """A `LoginSource` that reads again when it should."""

    def __init__(
        self,
        first: Credentials,
        read: Callable[[], Credentials],
        clock: Clock,
        *,
        run: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Start with a login that was just read.

        Args:
            first: What was read.
            read: Reads it again; raises SettingsError. Never runs twice at once.
            clock: Tells when to look.
            run: Runs a function once, elsewhere; None: on a thread of its own.
        """
        self._read = read
        self._clock = clock
        self._run = run or (lambda work: run_once("login-renewal", work, clock))
        # Guards all fields below; the login and the time of the next look are read without it.
        # No thread reads files or waits while holding it.
        self._lock = threading.Lock()
        self._fresh = first
        self._expires_at = self._end_of(first)
        self._state = _state(first.files)
        self._look_at = clock.monotonic() + CHECK_SECONDS
        self._renewal: threading.Event | None = None  # the one under way; set when it has ended
        self._renewable_at = float("-inf")
        self._failure: SettingsError | None = None  # of the last renewal

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the login to use now; begin its renewal, elsewhere, when that is due.

        Raises:
            SettingsError: It has expired, and there is no other within the limit.
        """
        if self._clock.monotonic() < self._look_at:
            return self._fresh.login
        with self._lock:
            renewal, is_new = self._begin() if self._is_due() else (self._renewal, False)
            has_expired = self._schedule_look()
        if is_new:
            self._start_renewal()
        if has_expired:
            if renewal is not None:
                self._wait_for(renewal, limit_seconds)
            if self._seconds_of_life() <= 0:
                # A new one each time: a raised one remembers where from, every time.
                raise SettingsError(str(self._failure or "the login has expired"))
        return self._fresh.login

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return a newer login than `rejected`, or that one when there is none.

        Raises:
            SettingsError: It is not known within the limit whether there is one.
        """
        with self._lock:
            if self._fresh.login != rejected:
                return self._fresh.login
            renewal, is_new = self._begin()
        if is_new:
            self._start_renewal()
        if renewal is not None:
            self._wait_for(renewal, limit_seconds)
        return self._fresh.login

    def _start_renewal(self) -> None:
        """Have it run; where no thread can be started for it, it has ended, and may begin again."""
        try:
            self._run(self._renew)
        except RuntimeError as error:
            _log.warning("no thread for the renewal of the login", error=str(error))
            failure = SettingsError(f"its renewal could not be started: {error}")
            self._settle(None, self._state, failure)

    def _wait_for(self, renewal: threading.Event, limit_seconds: float) -> None:
        if not self._clock.wait(renewal, limit_seconds):
            raise SettingsError(
                f"its renewal is under way, and has not ended in {limit_seconds:.1f} s"
            )

    # Called with the lock held.

    def _begin(self) -> tuple[threading.Event | None, bool]:
        """Return the renewal under way, None for none, and whether the caller has to run it."""
        if self._renewal is not None or self._clock.monotonic() < self._renewable_at:
            return self._renewal, False
        self._renewal = threading.Event()
        return self._renewal, True

    def _is_due(self) -> bool:
        if self._seconds_of_life() <= EXPIRY_LEEWAY.total_seconds():
            return True
        return self._state != _state(self._fresh.files)

    def _schedule_look(self) -> bool:
        """Set when `current` checks again; return whether the credentials have expired."""
        life = self._seconds_of_life()
        self._look_at = self._clock.monotonic() + min(CHECK_SECONDS, max(life, 0.0))
        return life <= 0

    # Called with or without it.

    def _seconds_of_life(self) -> float:
        end = self._expires_at
        return float("inf") if end is None else (end - self._clock.now()).total_seconds()

    def _end_of(self, fresh: Credentials) -> datetime | None:
        # One that is over while it is new: the clocks differ, and the answer 401 will tell.
        end = fresh.expires_at
        return None if end is None or end <= self._clock.now() else end

    # On the thread of the renewal.

    def _renew(self) -> None:
        # The state is taken before the reading: a file that changes meanwhile is read once
        # more than needed, never once too few.
        state = _state(self._fresh.files)
        fresh = None
        failure = SettingsError("its renewal ended by an error of this program")
        try:
            fresh = self._read()
        except SettingsError as error:
            failure = error
            _log.warning("the login could not be renewed", error=str(error))
        finally:
            self._settle(fresh, state, failure)

    def _settle(
        self, fresh: Credentials | None, state: _FileStates, failure: SettingsError
    ) -> None:
        with self._lock:
            if fresh is not None:
                self._fresh = fresh
                self._expires_at = self._end_of(fresh)
                self._state = state
            self._failure = None if fresh is not None else failure
            self._renewable_at = self._clock.monotonic() + MIN_RENEWAL_SECONDS
            self._schedule_look()
            renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.set()


def _state(files: tuple[str, ...]) -> _FileStates:
    """Return what changes when a file is written or replaced."""
    return tuple(_file_state(Path(name)) for name in files)


def _file_state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:  # between the removal of the old file and the arrival of the new one
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
