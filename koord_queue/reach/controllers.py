"""What the controllers know of a job: at `--server`, or behind a port-forward to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from koord_queue.answers.decoding import decode
from koord_queue.answers.jobs import Job
from koord_queue.reach.debug_api import open_debug_api, open_forwarded
from koord_queue.reach.errors import NotServed
from koord_queue.reach.port_forward import CONTROLLERS

if TYPE_CHECKING:
    from contextlib import ExitStack

    from koord_queue.reach.choice import Choice
    from koord_queue.reach.cluster import Cluster
    from koord_queue.reach.port_forward import Program
    from shared_api.process.clock import Clock

ANOTHER_SERVER: Final = "--server is not the debug API of the controllers (port 19877)"


class Controllers:
    """The debug API of the controllers, reached when it is asked first.

    Args:
        choice: What the options say.
        forwarded: Returns where a program's debug API is behind a port-forward.
        clock: The time.
        connections: Closes its connections at the end.
    """

    def __init__(
        self,
        choice: Choice,
        forwarded: Callable[[Program], str],
        clock: Clock,
        connections: ExitStack,
    ) -> None:
        self._choice = choice
        self._forwarded = forwarded
        self._clock = clock
        self._connections = connections
        self._api: Cluster | None = None

    def job(self, namespace: str, kind: str, name: str) -> Job:
        """Return whether a job is managed, and why or why not.

        Args:
            namespace: The job's.
            kind: As kubectl takes it, in any case: `job`, `jobs.batch`.
            name: The job's, or that of a group of pods.

        Raises:
            Missing: There is no such job, or no kind of that name is known there.
            NotServed: No replica can be reached.
            CommandError: The answer depends on what is not read yet, or is refused.
        """
        if self._api is None:
            self._api = self._open()
        path = f"/debug/jobs/{namespace}/{kind}/{name}"
        try:
            return decode(self._api.get(path), Job)
        except NotServed as error:
            raise NotServed(ANOTHER_SERVER if self._choice.server else error.message) from error

    def _open(self) -> Cluster:
        if self._choice.server:
            return open_debug_api(self._choice, self._clock, self._connections)
        return open_forwarded(self._forwarded(CONTROLLERS), self._clock, self._connections)
