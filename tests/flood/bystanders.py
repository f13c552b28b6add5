"""Those that are to be answered during a flood: a user of each port, kubelets, and discovery."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.flood.flood_world import BYSTANDER, CALM_NAMESPACE, NEWCOMERS, WAITS, FloodWorld
from tests.flood.http_connection import Asker, Connection, Question, lenient_context
from tests.flood.questions import LOGIN, VISIBILITY, Port

INTERVAL_SECONDS: Final = 0.5
LOGIN_SECONDS: Final = 6.0
"""From one address the page takes a login every five seconds."""
SILENCE_SECONDS: Final = 10.0
LATE_SECONDS: Final = 1.0
"""From then on it counts that no answer has come."""
AVAILABLE: Final = "is available"
DISCOVERY: Final = "discovery"


class Sample(NamedTuple):
    """One answer: who asked, when it came (monotonic), how long it took, and its status."""

    name: str
    at: float
    seconds: float
    status: int


class Bystander(NamedTuple):
    """One of them.

    Attributes:
        name: What it asks for.
        ask: Asks; returns the status.
        interval: Seconds between two questions.
    """

    name: str
    ask: Callable[[], int]
    interval: float = INTERVAL_SECONDS


def is_probe(name: str) -> bool:
    """Return whether a bystander is a kubelet or the API server, not a user."""
    return name.startswith(("/livez", "/readyz", AVAILABLE, DISCOVERY))


def bystanders(world: FloodWorld, interval: float = INTERVAL_SECONDS) -> list[Bystander]:
    """Return all of them; each request has a connection of its own, as kubectl's has."""
    context = lenient_context()
    asker = Asker(random.Random(0), world.since)

    def asks(
        name: str, port: Port, target: str, interval: float = interval, body: str = ""
    ) -> Bystander:
        endpoint = world.endpoints[port]
        headers = world.headers(BYSTANDER, port) | (LOGIN if body else {})
        method = "POST" if body else "GET"
        sent = asker.encode(Question(name, target, headers, method, body), endpoint.name)

        def ask() -> int:
            with Connection(endpoint, SILENCE_SECONDS, context=context) as connection:
                return connection.ask(sent)

        return Bystander(name, ask, interval)

    unit = f"/namespaces/{CALM_NAMESPACE}/pendingunits/{WAITS}"
    token = json.dumps({"token": world.world.plane.token_for(NEWCOMERS[0])})
    probes = [
        asks(f"{path} of {port.split()[0]}", port, path)
        for port in (Port.SCHEDULER_HEALTH, Port.CONTROLLERS_HEALTH, Port.INSIGHT_HEALTH)
        for path in ("/livez", "/readyz")
    ]
    return [
        *probes,
        asks("a unit in the debug API", Port.SCHEDULER_DEBUG, _unit("/debug/queueunits")),
        asks("a job in the debug API", Port.CONTROLLERS_DEBUG, _unit("/debug/jobs", "Job/")),
        asks("metrics of scheduler", Port.SCHEDULER_METRICS, "/metrics"),
        asks("metrics of controllers", Port.CONTROLLERS_METRICS, "/metrics"),
        asks("metrics of insight", Port.INSIGHT_METRICS, "/metrics"),
        asks("a unit on the page", Port.PAGE, _unit("/page/units")),
        asks("a login", Port.PAGE, "/page/session", max(interval, LOGIN_SECONDS), token),
        asks("kubectl get", Port.AGGREGATED, f"{VISIBILITY}{unit}"),
        asks(DISCOVERY, Port.AGGREGATED, VISIBILITY),
        Bystander(AVAILABLE, lambda: 200 if world.is_available() else 503, interval),
    ]


def _unit(prefix: str, kind: str = "") -> str:
    return f"{prefix}/{CALM_NAMESPACE}/{kind}{WAITS}"


class Asking:
    """Lets all of them ask between `__enter__` and `__exit__`."""

    def __init__(self, those: Sequence[Bystander]) -> None:
        self.samples: list[Sample] = []
        """Appended to by all threads."""
        self._asked_at: dict[str, float] = {}
        """Since when those wait that do; each thread has its own key."""
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(each,)) for each in those]

    def __enter__(self) -> Self:
        """Begin."""
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._over.set()
        for each in self._threads:
            each.join()

    def between(self, begin: float, end: float) -> list[Sample]:
        """Return the answers that came in this time (monotonic), and those that do not come.

        Who still waits is counted as if it were answered now: it waits that long at least.
        """
        waiting = [Sample(name, end, end - at, 200) for name, at in list(self._asked_at.items())]
        late = [each for each in waiting if each.seconds > LATE_SECONDS]
        return [*(each for each in list(self.samples) if begin <= each.at < end), *late]

    def _ask(self, one: Bystander) -> None:
        while True:
            self._asked_at[one.name] = began = time.monotonic()
            status = one.ask()
            now = time.monotonic()
            del self._asked_at[one.name]
            self.samples.append(Sample(one.name, now, now - began, status))
            if self._over.wait(max(0.0, one.interval - (now - began))):
                return
