"""An informer with a scripted server, which the test steps."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import IndexedStore, IndexFunction
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.metrics import SharedMetrics
from shared_api.objects.namespace import Namespace
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.informer.fake_list_watch import FakeListWatch, Listener

THINGS = ResourceType(
    group="", version="v1", plural="things", kind="Thing", namespaced=False, object_type=Namespace
)
NEVER_BLOCK = InformerSettings(wait_seconds=0.0)


class Scene:
    """An informer on one thread, its server, and one handler."""

    def __init__(self, settings: InformerSettings = NEVER_BLOCK) -> None:
        self.clock = VirtualClock(start=0)
        self.indexes: dict[str, IndexFunction[Namespace]] = {"team": _labels_of}
        self.server = FakeListWatch()
        self.metrics = SharedMetrics(component="c", version="v", python_version="p")
        self.informer = SharedInformer(
            self.server,
            THINGS,
            clock=self.clock,
            rng=random.Random(7),
            settings=settings,
            store=IndexedStore[Namespace](indexes={"team": self._index}),
            observer=self.metrics.informers.of_resource("things"),
        )
        self.listener = Listener()
        self.informer.add_handler(self.listener)

    def _index(self, thing: Namespace) -> Iterable[str]:
        return self.indexes["team"](thing)  # a test may replace it

    def run(self, seconds: float = 0.0) -> list[str]:
        """Step until nothing is left to do in this time; return the calls of the handler."""
        until = self.clock.monotonic() + seconds
        for _ in range(100_000):
            rest = self.informer.step()
            self.informer.store.validate()
            if rest > 0 and self.clock.monotonic() + rest > until:
                break
            self.clock.advance(rest)
        else:
            pytest.fail("the informer spins")
        self.clock.advance(until - self.clock.monotonic())
        return self.listener.take()

    def relist(self) -> list[str]:
        """Lose the watch together with its undelivered events, then list."""
        self.server.watches[-1].silent = True
        self.server.send_error(410, "Expired")
        return self.run(1)

    def count(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            f"koord_queue_informer_{name}", {"resource": "things"}
        )


def _labels_of(thing: Namespace) -> list[str]:
    return list(thing.metadata.labels.values())
