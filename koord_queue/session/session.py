"""What one run of a command works with: the cluster, the answers, the output, the time."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.choice import Choice
from koord_queue.reach.cluster import Cluster, Query, open_cluster
from koord_queue.reach.controllers import Controllers
from koord_queue.reach.named import UnitNotFound, find_unit, list_owned
from koord_queue.reach.parts import find_whole
from koord_queue.reach.port_forward import PortForwards, Program
from koord_queue.reach.sources import Sources
from koord_queue.reach.unmanaged import is_pod, unit_or_why
from koord_queue.show.printer import Printer, standard_output
from shared_api.process.clock import Clock, SystemClock


class Session:
    """Made for one command. What it needs is opened when it is asked for."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._cluster: Cluster | None = None
        self._forwards: PortForwards | None = None
        self._sources: Sources | None = None
        self._controllers: Controllers | None = None
        self._out: Printer | None = None
        self._clock: Clock | None = None
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        self.close()

    def close(self) -> None:
        """Close connections, and end port-forwards."""
        self._opened.close()

    @property
    def clock(self) -> Clock:
        """The time."""
        if self._clock is None:
            self._clock = SystemClock()
        return self._clock

    @property
    def out(self) -> Printer:
        """Where answers go."""
        if self._out is None:
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
            self._cluster = open_cluster(self.choice, self.clock)
            self._opened.callback(self._cluster.close)
        return self._cluster

    def forwarded(self, program: Program) -> str:
        """Return where the debug API of a program is, behind a port-forward.

        Raises:
            NotServed: It cannot be reached so.
            CommandError: No cluster is configured.
        """
        if self._forwards is None:
            self._forwards = PortForwards(self.choice, self.cluster, self.clock)
            self._opened.callback(self._forwards.close)
        return self._forwards.url(program)

    def sources(self) -> Sources:
        """Return what answers questions about the queue."""
        if self._sources is None:
            self._sources = Sources(
                self.choice, self.cluster, self.forwarded, self.clock, self._opened
            )
        return self._sources

    def debug(self, path: str, query: Query = ()) -> bytes:
        """Return the answer of a route that only the debug API has."""
        return self.sources().answer(questions.route(path, query))

    def controllers(self) -> Controllers:
        """Return what answers questions about jobs that have no unit."""
        if self._controllers is None:
            self._controllers = Controllers(self.choice, self.forwarded, self.clock, self._opened)
        return self._controllers

    def unit(self, named: str) -> tuple[str, str]:
        """Return namespace and name of a unit.

        Args:
            named: `job/train-1`, `team/train-1` with a namespace, or a bare name.

        Raises:
            CommandError: There is none of that name, or several.
        """
        return find_unit(self.cluster(), self.namespace, named)

    def unit_or_why(self, named: str) -> tuple[str, str]:
        """Return namespace and name of a unit, for a question about it: also of a pod's job.

        Args:
            named: As `unit` has it; `pod/train-1-x7` is a part of a job, set or group.

        Raises:
            CommandError: There is none; of a job that exists the message says why.
        """
        try:
            return self.unit(named)
        except UnitNotFound as error:
            whole = self._whole_of_pod(error) if is_pod(error.word) else error
            if isinstance(whole, str):
                return error.namespace, whole
            return error.namespace, unit_or_why(self.controllers().job, whole)

    def _whole_of_pod(self, error: UnitNotFound) -> str | UnitNotFound:
        """Return the unit that a pod is a part of, or what to ask the controllers about."""
        cluster, namespace = self.cluster(), error.namespace
        try:
            whole = find_whole(cluster, list_owned(cluster, namespace), namespace, error.name)
        except CommandError as unread:
            raise CommandError(f"{error.message}: {unread.message}", error.next_step) from unread
        if whole is None:
            return error
        self.out.note(f"pod/{error.name} is a part of {whole.shown}")
        if whole.unit:
            return whole.unit
        text = f"no unit of namespace {namespace} belongs to {whole.shown}"
        return UnitNotFound(text, namespace=namespace, word=whole.kind, name=whole.name)
