"""The two APIs that answer questions, and which is asked.

It is `--server` alone; else the aggregated API, else the debug API behind a port-forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from koord_queue.reach.debug_api import open_debug_api, open_forwarded
from koord_queue.reach.errors import NotServed
from koord_queue.reach.port_forward import SCHEDULER

if TYPE_CHECKING:
    from contextlib import ExitStack

    from koord_queue.reach.choice import Choice
    from koord_queue.reach.cluster import Cluster
    from koord_queue.reach.port_forward import Program
    from koord_queue.reach.questions import AnswerT, Question
    from shared_api.process.clock import Clock

ANY_STEP: Final = "Install with insight.visibility.enabled, or name a --server."
DEBUG_STEP: Final = "Name a --server, or where Koord-Queue is installed: --system-namespace."
"""For what the aggregated API never has."""
SERVER_STEP: Final = "Name the debug API of the scheduler: --server http://HOST:19876."
"""Where the named one has no such answer."""


class Source(Protocol):
    """What answers questions: an API, or a dump."""

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer to a question.

        Raises:
            NotServed: The source does not answer this question, or does not now.
            CommandError: It refuses the question, or does not answer.
        """


class DebugApi:
    """A `Source` that answers every question.

    Args:
        server: Where it is.
    """

    def __init__(self, server: Cluster) -> None:
        self._server = server

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer. See `Source`."""
        return question.debug_api(self._server)


class AggregatedApi:
    """A `Source`: the aggregated API, through the API server, with the rights of the caller.

    Errors of the aggregator, which are no `Status`, become `NotServed`.

    Args:
        cluster: The API server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer. See `Source`."""
        if question.aggregated_api is None:
            raise NotServed(f"the aggregated API does not have {question.name}")
        try:
            return question.aggregated_api(self._cluster)
        except NotServed as error:
            raise NotServed(f"the aggregated API is not served here ({error.message})") from error


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

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer of the first source that has one.

        Raises:
            NotServed: None has; the message says why each has none.
            CommandError: A source has refused the question: the next one is not asked, since what
                the user may not learn from one must not depend on the other.
        """
        reasons: list[str] = []
        for source in self._all():
            try:
                return source.answer(question)
            except NotServed as error:
                reasons.append(error.message)
        message = "; ".join(dict.fromkeys((*reasons, *self._reasons)))
        step = DEBUG_STEP if question.aggregated_api is None else ANY_STEP
        raise NotServed(message, SERVER_STEP if self._choice.server else step)

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
        return DebugApi(open_debug_api(self._choice, self._clock, self._connections))

    def _open_aggregated(self) -> Source:
        return AggregatedApi(self._cluster())

    def _open_forward(self) -> Source:
        url = self._forwarded(SCHEDULER)
        return DebugApi(open_forwarded(url, self._clock, self._connections))
