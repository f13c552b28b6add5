"""Keeps credentials fresh: token files rotate, certificates are replaced, tokens expire.

The source is a function that reads everything again (`kube_config` has two) and may start a slow
plugin. It runs when one of the files that it named has changed, when the credentials are about to
expire, and when the server answered 401: on a thread of its own, never twice at once. Requests
continue with the present credentials. They wait only when those have expired, each within its own
time limit: a request of the leader election has some seconds, a plugin may take longer.
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
"""Interval between checks of the files, a `stat` each. A kubelet replaces a token long before it
expires."""
EXPIRY_LEEWAY: Final = timedelta(seconds=60)
"""A token that expires sooner is renewed: a plugin may take 45 s, and clocks differ."""
MIN_RENEWAL_SECONDS: Final = 5.0
"""Least interval between two renewals: neither an answer of 401 nor a failing plugin may start one
per request. Half of the time that the leader election has to renew its lease."""

_FileStates = tuple[tuple[int, int, int], ...]

_log = structlog.get_logger(__name__)


class Credentials(msgspec.Struct, frozen=True):
    """The result of one reading."""

    login: Login
    files: tuple[str, ...] = ()
    """Paths; when one of them changes, everything is read again."""
    expires_at: datetime | None = None


class CredentialRefresher:
    """A `LoginSource` that reads its credentials again when they change or expire."""

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
            first: The credentials that were read.
            read: Reads them again; raises SettingsError. Never runs twice at once.
            clock: The time, for checks and expiry.
            run: Runs a function once in the background; None uses a new thread.
        """
        self._read = read
        self._clock = clock
        self._run = run or (lambda work: run_once("login-renewal", work, clock))
        # Guards all fields below; the login and the time of the next check are read without it.
        # No thread reads files or waits while holding it.
        self._lock = threading.Lock()
        self._fresh = first
        self._expires_at = self._end_of(first)
        self._state = _state(first.files)
        self._check_at = clock.monotonic() + CHECK_SECONDS
        self._renewal: threading.Event | None = None  # the running one; set when it has ended
        self._renewable_at = float("-inf")
        self._failure: SettingsError | None = None  # of the last renewal

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the login to use now; start its renewal in the background when that is due.

        Args:
            limit_seconds: Longest wait for a new login, if the current one has expired.

        Raises:
            SettingsError: The login has expired, and there is no new one within the limit.
        """
        if self._clock.monotonic() < self._check_at:
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
                # A new exception each time: one that is raised again collects every traceback.
                raise SettingsError(str(self._failure or "the login has expired"))
        return self._fresh.login

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return a newer login than `rejected`, or `rejected` itself if there is none.

        Args:
            rejected: The login that the server answered with 401.
            limit_seconds: Longest wait for a renewal.

        Raises:
            SettingsError: Whether there is a newer one is not known within the limit.
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
        """Start the renewal; if no thread can be started, it counts as ended and may be retried."""
        try:
            self._run(self._renew)
        except RuntimeError as error:
            _log.warning("no thread for the renewal of the login", error=str(error))
            failure = SettingsError(f"its renewal could not be started: {error}")
            self._settle(None, self._state, failure)

    def _wait_for(self, renewal: threading.Event, limit_seconds: float) -> None:
        if not self._clock.wait(renewal, limit_seconds):
            raise SettingsError(
                f"its renewal has started, and has not ended in {limit_seconds:.1f} s"
            )

    # Called with the lock held.

    def _begin(self) -> tuple[threading.Event | None, bool]:
        """Return the running renewal (None: there is none) and whether the caller must start it."""
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
        self._check_at = self._clock.monotonic() + min(CHECK_SECONDS, max(life, 0.0))
        return life <= 0

    # Called with or without the lock.

    def _seconds_of_life(self) -> float:
        end = self._expires_at
        return float("inf") if end is None else (end - self._clock.now()).total_seconds()

    def _end_of(self, fresh: Credentials) -> datetime | None:
        # A fresh login that has already expired: the clocks differ, so wait for a 401 instead.
        end = fresh.expires_at
        return None if end is None or end <= self._clock.now() else end

    # Called on the thread of the renewal.

    def _renew(self) -> None:
        # The state of the files is taken before they are read: a file that changes in between is
        # read once more than needed, and no change is missed.
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
    """Return a fingerprint that changes when a file is written or replaced."""
    return tuple(_file_state(Path(name)) for name in files)


def _file_state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:  # the old file has been removed, and the new one is not there yet
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
