"""Which API answers a question: `--server` alone; else the aggregated API, else a port-forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from koord_queue.reach.errors import NotServed

if TYPE_CHECKING:
    from contextlib import ExitStack

    from koord_queue.answers.pending import Pending
    from koord_queue.reach.choice import Choice
    from koord_queue.reach.cluster import Cluster, Query
    from koord_queue.reach.port_forward import Program
    from shared_api.process.clock import Clock

AnswerT = TypeVar("AnswerT")

ANY_STEP: Final = "Install with insight.visibility.enabled, or name a --server."
DEBUG_STEP: Final = "Name a --server, or where Koord-Queue is installed: --system-namespace."
"""For what the aggregated API never has."""
SERVER_STEP: Final = "Name the debug API of the scheduler: --server http://HOST:19876."
"""Where the named one has no such answer."""


class Source(Protocol):
    """An API that answers questions, each as the JSON of the debug API.

    Each method raises `NotServed` for a question that the API does not answer, or does not now.
    """

    def pending(self, namespace: str | None, queue: str | None) -> list[Pending]:
        """Return the units that wait: of a namespace, of a queue, or all that may be read."""

    def explain(self, namespace: str, name: str, *, changes: bool = False) -> bytes:
        """Return why a unit waits; `changes`: also what would start it."""

    def forecast(self, namespace: str, name: str) -> bytes:
        """Return when a unit starts."""

    def queue_forecast(self, queue: str) -> bytes:
        """Return when the units of a queue start."""

    def try_(
        self,
        manifest: bytes,
        namespace: str,
        *,
        is_json: bool,
        changes: bool = False,
        defaulted: bool = False,
    ) -> bytes:
        """Return what becomes of a manifest; `defaulted`: it is the answer of a dry run."""

    def what_if(self, question: bytes) -> bytes:
        """Return what edits would change."""

    def debug(self, path: str, query: Query = ()) -> bytes:
        """Return the answer of a route of the debug API."""


class Sources:
    """The sources in their order, opened when they are needed; a `Source` itself.

    Args:
        choice: What the options say.
        cluster: Opens the API server.
        forwarded: Returns where a program's debug API is behind a port-forward.
        clock: The time.
        connections: Closes its connections at the end.
    """

    def __init__(
        self,
        choice: Choice,
        cluster: Callable[[], Cluster],
        forwarded: Callable[[Program], str],
        clock: Clock,
        connections: ExitStack,
    ) -> None:
        self._choice = choice
        self._cluster = cluster
        self._forwarded = forwarded
        self._clock = clock
        self._connections = connections
        self._opened: list[Source] = []
        self._openers = self._plan()
        self._reasons: list[str] = []

    # --- questions ----------------------------------------------------------------------------

    def pending(self, namespace: str | None, queue: str | None) -> list[Pending]:
        """Return the units that wait. See `Source`."""
        return self._first(lambda source: source.pending(namespace, queue))

    def explain(self, namespace: str, name: str, *, changes: bool = False) -> bytes:
        """Return why a unit waits. See `Source`."""
        return self._first(lambda source: source.explain(namespace, name, changes=changes))

    def forecast(self, namespace: str, name: str) -> bytes:
        """Return when a unit starts. See `Source`."""
        return self._first(lambda source: source.forecast(namespace, name))

    def queue_forecast(self, queue: str) -> bytes:
        """Return when the units of a queue start. See `Source`."""
        return self._first(lambda source: source.queue_forecast(queue), DEBUG_STEP)

    def try_(
        self,
        manifest: bytes,
        namespace: str,
        *,
        is_json: bool,
        changes: bool = False,
        defaulted: bool = False,
    ) -> bytes:
        """Return what becomes of a manifest. See `Source`."""
        return self._first(
            lambda source: source.try_(
                manifest, namespace, is_json=is_json, changes=changes, defaulted=defaulted
            )
        )

    def what_if(self, question: bytes) -> bytes:
        """Return what edits would change. See `Source`."""
        return self._first(lambda source: source.what_if(question), DEBUG_STEP)

    def debug(self, path: str, query: Query = ()) -> bytes:
        """Return the answer of a route of the debug API. See `Source`."""
        return self._first(lambda source: source.debug(path, query), DEBUG_STEP)

    # --- the order ----------------------------------------------------------------------------

    def _first(self, ask: Callable[[Source], AnswerT], step: str = ANY_STEP) -> AnswerT:
        """Return the answer of the first source that has one.

        Raises:
            NotServed: None has; the message says why each has none.
            CommandError: A source has refused the question: the next one is not asked, since what
                the user may not learn from one must not depend on the other.
        """
        reasons: list[str] = []
        for source in self._all():
            try:
                return ask(source)
            except NotServed as error:
                reasons.append(error.message)
        told = "; ".join(dict.fromkeys((*reasons, *self._reasons)))
        raise NotServed(told, SERVER_STEP if self._choice.server else step)

    def _all(self) -> Iterator[Source]:
        yield from self._opened
        while self._openers:
            try:
                source = self._openers.pop(0)()
            except NotServed as error:
                self._reasons.append(error.message)
                continue
            self._opened.append(source)
            yield source

    def _plan(self) -> list[Callable[[], Source]]:
        if self._choice.server:
            return [self._open_server]
        return [self._open_aggregated, self._open_forward]

    def _open_server(self) -> Source:
        from koord_queue.reach.debug_api import open_debug_api  # noqa: PLC0415 - if it is asked

        return open_debug_api(self._choice, self._clock, self._connections)

    def _open_aggregated(self) -> Source:
        from koord_queue.reach.aggregated import AggregatedApi  # noqa: PLC0415 - the same

        return AggregatedApi(self._cluster())

    def _open_forward(self) -> Source:
        from koord_queue.reach.debug_api import open_forwarded  # noqa: PLC0415 - the same
        from koord_queue.reach.port_forward import SCHEDULER  # noqa: PLC0415 - the same

        return open_forwarded(self._forwarded(SCHEDULER), self._clock, self._connections)
