"""What one run of a command works with: the cluster, the answers, the output, the time."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from koord_queue.reach.choice import Choice
    from koord_queue.reach.cluster import Cluster
    from koord_queue.reach.sources import Sources
    from koord_queue.show.printer import Printer
    from shared_api.process.clock import Clock


class Session:
    """Made for one command. What it needs is imported and opened when it is asked for."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._cluster: Cluster | None = None
        self._sources: Sources | None = None
        self._out: Printer | None = None
        self._clock: Clock | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close connections, and end a port-forward."""
        if self._sources is not None:
            self._sources.close()
        if self._cluster is not None:
            self._cluster.close()

    @property
    def clock(self) -> Clock:
        """The time."""
        if self._clock is None:
            from shared_api.process.clock import SystemClock  # noqa: PLC0415 - as the class says

            self._clock = SystemClock()
        return self._clock

    @property
    def out(self) -> Printer:
        """Where answers go."""
        if self._out is None:
            from koord_queue.show.printer import standard_output  # noqa: PLC0415 - same

            self._out = standard_output()
        return self._out

    @property
    def namespace(self) -> str:
        """The namespace of names that have none: `-n`, or the context's, or default.

        Raises:
            CommandError: No cluster is configured.
        """
        return self.choice.namespace or self.cluster().namespace

    def cluster(self) -> Cluster:
        """Return the API server.

        Raises:
            CommandError: None is configured.
        """
        if self._cluster is None:
            from koord_queue.reach.cluster import open_cluster  # noqa: PLC0415 - same

            self._cluster = open_cluster(self.choice, self.clock)
        return self._cluster

    def answers(self) -> Sources:
        """Return what answers questions about the queue."""
        if self._sources is None:
            from koord_queue.reach.sources import Sources  # noqa: PLC0415 - same

            self._sources = Sources(self.choice, self.cluster, self.clock)
        return self._sources

    def unit(self, named: str) -> tuple[str, str]:
        """Return namespace and name of a unit.

        Args:
            named: `job/train-1`, `team/train-1` with a namespace, or a bare name.

        Raises:
            CommandError: There is none of that name, or several.
        """
        from koord_queue.reach.named import find_unit  # noqa: PLC0415 - same

        return find_unit(self.cluster(), self.namespace, named)
