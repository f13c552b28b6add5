"""Follows one resource on the API server: lists it, then watches it, and so on.

    LIST ──(last page)──► WATCH ──(410 Gone, or asked for)──► LIST
      │                     │
      └── failure ──► pause, then the same again ◄── failure, ended, stalled ──┘

A *list* is paged and reads the newest state (no resourceVersion, a quorum read): a cache must never
go back in time, or a charge would be lost. All pages are of one snapshot. If its continue token
expires (410), the list starts again, and after the second time without pages, as client-go's pager
does.

A *watch* resumes where the last one ended, so a dropped connection costs no list. A dead watch is
detected by time: bookmarks come about every minute, so silence means that the path is broken even
if the socket is not; and the server itself ends a watch after ``timeoutSeconds``.

Each ``step`` reads one page, or a bounded number of events, and passes them to a ``ReflectorSink``
on the same thread. If the sink raises, the state is listed again, so no event is lost with the
exception.

Model: client-go ``tools/cache/reflector.go``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from shared_api.backoff import Backoff
from shared_api.client.errors import (
    ApiError,
    ApiFailure,
    ConnectionLost,
    DecodeFailure,
    Forbidden,
    Gone,
    NotFound,
    StreamIdle,
)
from shared_api.client.resource_client import Page, WatchEvent
from shared_api.informer.indexed_store import version_number
from shared_api.process.clock import Clock

HTTP_GONE: Final = 410

PAGE_LIMIT: Final = 500
"""Objects per page; client-go's pager and kubectl use the same."""

MAX_EXPIRED_LISTS: Final = 2
"""After this many expired lists in a row the next one is requested without pages."""

EVENTS_PER_STEP: Final = 500
"""Most events that a step handles, so that its thread notices a stop; as many as a page has."""

MIN_WATCH_SECONDS: Final = 300
"""The server is asked to end a watch after 5 to 10 minutes, at random, so that the watches of many
clients do not end together (client-go: ``defaultMinWatchTimeout``)."""

BOOKMARK_WATCH_SECONDS: Final = 3
"""Duration of a watch whose only purpose is an early bookmark: the API server sends one two seconds
before a watch ends, and looks every second for the watches that are due for one. A watch of two
seconds gets none."""

WATCH_MARGIN_SECONDS: Final = 30.0
"""How much later than requested the server may end a watch before it counts as overdue."""

MAX_SILENCE_SECONDS: Final = 90.0
"""How long a watch may deliver nothing: bookmarks come every 60 s (the API server's
``bookmarkFrequency``), with a jitter of a quarter, and may be late."""

BRIEF_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner without any event counts as a failure (client-go: "very short")."""

MAX_REFUSED_WATCHES: Final = 3
"""After this many consecutive watches that the server answered with an error, a list is tried: the
server may not know the resourceVersion (restored from a backup)."""

PAUSES: Final = Backoff(base_seconds=0.2, cap_seconds=3.5, jitter=0.25)
"""Pauses after failures: a recovered server is noticed within 5 s, and many clients do not return
to an overloaded one at the same time."""

REMIND_SECONDS: Final = 60.0
"""Interval between two warnings of the same failure, so that a lasting one stays in the log."""

T = TypeVar("T")

log = structlog.get_logger("reflector")


class EventStream(Protocol[T]):
    """An open watch; a ``WatchStream`` is one."""

    def next_event(self, idle_seconds: float, /) -> WatchEvent[T] | None:
        """Return the next event, None at the orderly end.

        Raises:
            StreamIdle: None arrived in that time; the watch continues.
            ConnectionLost: The watch broke, or was closed.
        """

    def close(self) -> None:
        """End the watch. Idempotent; callable from any thread."""


class ListWatcher(Protocol[T]):
    """One resource, with its selectors, on the API server. Raises ``ApiFailure``."""

    def list_page(self, *, limit: int, continue_token: str) -> Page[T]:
        """Return one page of the newest state; `limit` 0 returns everything."""

    def watch(self, *, resource_version: str, timeout_seconds: int) -> EventStream[T]:
        """Open a watch, with bookmarks, of the changes after this version."""


class ReflectorSink(Protocol[T]):
    """Receives what a reflector reads; called by its `step`."""

    def on_list_start(self, resource_version: str, *, rewound: bool) -> None:
        """Handle that a list of this version begins; an unfinished one is void.

        `rewound` means that the server is behind what it sent before: its history was replaced.
        """

    def on_page(self, items: Sequence[T | DecodeFailure]) -> None:
        """Handle a part of the list; may be called twice for the same part."""

    def on_list_end(self, resource_version: str) -> None:
        """Handle that the list is complete: objects that were not in it do not exist."""

    def on_event(self, event: WatchEvent[T]) -> None:
        """Handle an ADDED, MODIFIED or DELETED event; may be called twice for the same one."""

    def on_bookmark(self, resource_version: str) -> None:
        """Handle that everything up to this version has been sent."""


class ReflectorObserver(Protocol):
    """Counts what a reflector does, for metrics."""

    def on_list(self) -> None:
        """Count a complete list."""

    def on_watch_end(self, reason: str) -> None:
        """Count the end of a watch: ended, lost, stalled, overdue, expired, refused, asked."""


class _Listing(msgspec.Struct):
    """An unfinished list."""

    resource_version: str = ""
    continue_token: str = ""


class _Watching(msgspec.Struct, Generic[T]):
    """An open watch."""

    stream: EventStream[T]
    opened_at: float
    overdue_at: float
    events: int = 0


class Reflector(Generic[T]):
    """Follows one resource. `step` is called by one thread.

    Args:
        name: The resource, for logs.
        source: Lists and watches it.
        sink: Receives what is read.
        clock: The time, for deadlines and pauses.
        rng: Source of the jitter of watch durations and pauses.
        observer: Counts lists and watches; None if they are not counted.
        if_missing: Explanation that is added to an error 404: the server does not have the
            resource.
    """

    def __init__(
        self,
        name: str,
        source: ListWatcher[T],
        sink: ReflectorSink[T],
        *,
        clock: Clock,
        rng: random.Random,
        observer: ReflectorObserver | None = None,
        if_missing: str = "",
    ) -> None:
        self._name = name
        self._if_missing = if_missing
        self._source = source
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self._listing: _Listing | None = _Listing()
        self._watching: _Watching[T] | None = None
        self._list_requested = False
        self._bookmark_requested = False
        # True until a list of the new history is complete: a list that expires leaves the sink with
        # parts of both histories, and by then the server's version may have passed the old one.
        self._rewound = False
        self._expired_lists = 0
        self._refused_watches = 0
        self._failures = 0  # in a row
        self._fruitless_lists = 0  # complete ones since a watch last worked
        self._resume_at = clock.monotonic()
        self._heard_at = clock.monotonic()
        self._trouble = ""
        self._is_forbidden = False
        self._remind_at = 0.0
        self._resource_version = ""

    # ------------------------------------------------------------------ from any thread

    @property
    def resource_version(self) -> str:
        """The version up to which the sink has seen everything; "" before the first full list."""
        return self._resource_version

    @property
    def trouble(self) -> str:
        """The failure that keeps the reflector from following, as text; "" if there is none."""
        return self._trouble

    @property
    def is_forbidden(self) -> bool:
        """Whether that failure is a missing permission of this process."""
        return self._is_forbidden

    def silence_seconds(self) -> float:
        """Return the seconds since the server last sent anything."""
        return self._clock.monotonic() - self._heard_at

    def request_list(self) -> None:
        """Start a new list at the next step."""
        self._list_requested = True

    def request_bookmark(self) -> None:
        """Reopen the watch, for so short a time that the server soon tells how far it is.

        A quiet watch says so once a minute otherwise. Nothing is listed, and nothing lost.
        """
        self._bookmark_requested = True
        self.interrupt()

    def interrupt(self) -> None:
        """Make a `step` that waits for events return, by closing the watch."""
        watching = self._watching
        if watching is not None:
            watching.stream.close()

    # ------------------------------------------------------------------ from one thread

    def step(self, wait_seconds: float) -> float:
        """Do a bounded piece of work; return the seconds to rest.

        Args:
            wait_seconds: How long to block for the next event of a watch. With 0 the step never
                blocks, and for an idle watch it returns the seconds until the next deadline: call
                it again then, or as soon as the server may have sent something.
        """
        pause = self._resume_at - self._clock.monotonic()
        if pause > 0:
            return pause
        if self._list_requested and self._listing is None:
            self._begin_list("asked")
        if self._bookmark_requested:
            self._end_watch("asked")
        rest = 0.0
        try:
            if self._listing is not None:
                self._list_page(self._listing)
            elif self._watching is None:
                self._open_watch()
            else:
                rest = self._read_watch(self._watching, wait_seconds)
        except BaseException:
            # The sink failed in the middle of an event, which is gone from the stream: only a list
            # can recover it. A page, however, is simply requested again.
            self._list_requested = self._listing is None
            raise
        return max(self._resume_at - self._clock.monotonic(), rest)

    def close(self) -> None:
        """Close the watch; call it after the last `step`."""
        if self._watching is not None:
            self._watching.stream.close()
            self._watching = None

    # ------------------------------------------------------------------ list

    def _begin_list(self, reason: str) -> None:
        self._end_watch(reason)
        self._list_requested = False
        self._listing = _Listing()

    def _list_page(self, listing: _Listing) -> None:
        """Fetch one page and pass it on; the continue token advances only after the sink has it."""
        limit = 0 if self._expired_lists >= MAX_EXPIRED_LISTS else PAGE_LIMIT
        try:
            page = self._source.list_page(limit=limit, continue_token=listing.continue_token)
        except Gone as gone:
            self._expired_lists += 1
            self._listing = _Listing()
            self._on_failure(gone, "list")
            return
        except ApiFailure as failure:
            self._on_failure(failure, "list")  # the token is still valid: retry the same page
            return
        if not listing.continue_token:
            listing.resource_version = page.resource_version
            self._rewound = self._rewound or self._is_rewound(page)
            self._sink.on_list_start(page.resource_version, rewound=self._rewound)
        self._sink.on_page(page.items)
        self._on_progress()
        listing.continue_token = page.continue_token
        if not page.continue_token:
            self._finish_list(listing)

    def _is_rewound(self, page: Page[T]) -> bool:
        """Return whether the server is behind what it sent before: restored from a backup."""
        return 0 < version_number(page.resource_version) < version_number(self._resource_version)

    def _finish_list(self, listing: _Listing) -> None:
        self._sink.on_list_end(listing.resource_version)
        self._resource_version = listing.resource_version
        self._listing = None
        self._rewound = False
        self._expired_lists = 0
        self._is_forbidden = False
        self._fruitless_lists += 1
        if self._observer is not None:
            self._observer.on_list()

    # ------------------------------------------------------------------ watch

    def _open_watch(self) -> None:
        is_brief = self._bookmark_requested  # read once: it may be asked for while the watch opens
        timeout = int(MIN_WATCH_SECONDS * (1 + self._rng.random()))
        timeout = BOOKMARK_WATCH_SECONDS if is_brief else timeout
        now = self._clock.monotonic()
        try:
            stream = self._source.watch(
                resource_version=self._resource_version, timeout_seconds=timeout
            )
        except Gone as gone:
            self._on_expired(gone)
        except ApiError as refusal:
            self._on_refusal(refusal)
        except ApiFailure as failure:
            self._on_failure(failure, "watch")
        else:
            if is_brief:
                self._bookmark_requested = False
            self._watching = _Watching(stream, now, now + timeout + WATCH_MARGIN_SECONDS)
            self._heard_at = self._clock.monotonic()

    def _read_watch(self, watching: _Watching[T], wait_seconds: float) -> float:
        """Pass on events, blocking only for the first one; return the seconds to rest."""
        wait = wait_seconds
        for number in range(EVENTS_PER_STEP):
            try:
                event = watching.stream.next_event(wait)
            except StreamIdle:
                rest = self._check_deadlines(watching)
                return 0.0 if wait_seconds > 0 else rest
            except ConnectionLost as lost:
                # A request for a bookmark has closed the watch, which the next step reopens.
                if not self._bookmark_requested:
                    self._on_watch_over("lost", watching, lost)
                return 0.0
            except ApiFailure as failure:
                # The line is not an event. A resumed watch would deliver it again; a list does not.
                self._begin_list("unreadable")
                self._on_failure(failure, "watch")
                return 0.0
            if event is None:
                self._on_watch_over("ended", watching, None)
                return 0.0
            if not self._take(event, watching):
                return 0.0
            if not number:
                self._on_progress()
            wait = 0.0
        return 0.0

    def _take(self, event: WatchEvent[T], watching: _Watching[T]) -> bool:
        """Handle one event; return whether the watch continues."""
        if event.type == "ERROR":
            self._on_error_event(event)
            return False
        if event.type == "BOOKMARK":
            self._sink.on_bookmark(event.resource_version)
        else:
            self._sink.on_event(event)
        watching.events += 1
        self._fruitless_lists = 0
        # Last: readers of this version rely on the sink having everything up to it.
        self._resource_version = event.resource_version or self._resource_version
        return True

    def _on_error_event(self, event: WatchEvent[T]) -> None:
        """Handle the server's error event, which ends the watch."""
        code, reason, message = event.status or (0, "", "without a status")
        refusal = ApiError(code, reason, message)
        if code == HTTP_GONE or reason in {"Expired", "Gone"} or "too old" in message:
            self._on_expired(refusal)
        else:
            self._on_refusal(refusal)

    def _on_expired(self, gone: ApiError) -> None:
        """List at once, or after a pause if the version of the last list is already too old."""
        self._begin_list("expired")
        if self._fruitless_lists:
            self._on_failure(gone, "watch")

    def _on_refusal(self, refusal: ApiError) -> None:
        """Pause after the server refused a watch; list after the third refusal in a row."""
        self._refused_watches += 1
        if self._refused_watches >= MAX_REFUSED_WATCHES:
            self._refused_watches = 0
            self._begin_list("refused")
        else:
            self._end_watch("refused")
        self._on_failure(refusal, "watch")

    def _on_watch_over(
        self, reason: str, watching: _Watching[T], failure: ApiFailure | None
    ) -> None:
        """Handle a watch that ended without an error event: the next one resumes where it was."""
        lasted = self._clock.monotonic() - watching.opened_at
        self._end_watch(reason)
        if not watching.events and lasted < BRIEF_WATCH_SECONDS:
            # Otherwise a server that closes at once would be called again without a pause.
            self._on_failure(failure or ConnectionLost("watch ended at once", sent=True), "watch")

    def _check_deadlines(self, watching: _Watching[T]) -> float:
        """End the watch if a deadline has passed; return the seconds until the next deadline."""
        now = self._clock.monotonic()
        if now - watching.opened_at >= BRIEF_WATCH_SECONDS:
            self._fruitless_lists = 0
            self._on_health()
        left = min(self._heard_at + MAX_SILENCE_SECONDS, watching.overdue_at) - now
        if left > 0:
            return left
        if now >= watching.overdue_at:
            self._end_watch("overdue")
        elif watching.events:
            self._end_watch("stalled")
        else:
            # Silent from the start: the server may be behind the resourceVersion (restored from a
            # backup) and wait until it gets there; only a list detects that.
            self._begin_list("stalled")
        return 0.0

    def _end_watch(self, reason: str) -> None:
        if self._watching is None:
            return
        self._watching.stream.close()
        self._watching = None
        log.debug("watch over", resource=self._name, reason=reason)
        if self._observer is not None:
            self._observer.on_watch_end(reason)

    # ------------------------------------------------------------------ both

    def _on_progress(self) -> None:
        self._heard_at = self._clock.monotonic()
        self._on_health()

    def _on_health(self) -> None:
        self._failures = 0
        self._refused_watches = 0
        if self._trouble:
            log.info("following again", resource=self._name)
            self._trouble = ""
        self._is_forbidden = False

    def _on_failure(self, failure: ApiFailure, doing: str) -> None:
        """Pause, longer with each consecutive failure, and at least as long as the server asks.

        The same failure is logged as a warning at most once a minute.
        """
        # A successful list does not reset the pause: otherwise a server that refuses only watches
        # would have to serve lists without end.
        attempt = self._failures + max(self._fruitless_lists - 1, 0)
        pause = max(PAUSES.seconds(attempt, self._rng), failure.retry_after_seconds)
        self._failures += 1
        now = self._clock.monotonic()
        self._resume_at = now + pause
        trouble = f"{doing}: {failure}"
        if self._if_missing and isinstance(failure, NotFound):
            trouble = f"{trouble}: {self._if_missing}"
        report = log.debug
        if trouble != self._trouble or now >= self._remind_at:
            report = log.warning
            self._remind_at = now + REMIND_SECONDS
        self._trouble, self._is_forbidden = trouble, isinstance(failure, Forbidden)
        report("cannot follow", resource=self._name, error=trouble, retry_in_seconds=pause)
