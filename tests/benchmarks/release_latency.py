"""The time from a release to the next start: one unit at a time in a quota of one core.

The release is the time at which the API server has answered the write that ends a unit. The start
is the time at which an observer sees the next one Dequeued. Control: the API server's own time,
from sending such a write to seeing it through the same watch.
"""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import SystemClock
from shared_api.well_known_labels import QUOTA_NAME
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.load_player import NAMESPACE, PlannedUnit, unit_body
from tests.benchmarks.quota_tree_objects import create_quotas, quota
from tests.waiting import within

RELEASES: Final = 200
QUOTA: Final = "one-at-a-time"
SETTLE_SECONDS: Final = 6.0
"""Seconds after which pending units have their reasons, and there are no further writes."""
PATIENCE_SECONDS: Final = 30.0
END: Final = {"status": {"phase": "Succeed", "message": "Succeeded", "admissions": []}}


def measure(client: ResourceClient, releases: int = RELEASES) -> list[Figure]:
    """Measure with a running scheduler."""
    create_quotas(client, [quota(QUOTA, "", minimum=1, maximum=1)])
    starts, echoes = release_in_turn(client, "turn", releases)
    return [
        Figure(
            name=f"release_to_start_ms_{what}",
            value=percentile(starts, share),
            unit="ms",
            control=percentile(echoes, share),
            note=f"{releases} releases; control: one write seen through the watch",
        )
        for what, share in (("p50", 0.5), ("p99", 0.99))
    ]


def compare(name: str, pairs: Sequence[tuple[list[float], list[float]]]) -> list[Figure]:
    """Return the p50 and p99 of times from a release to the next start, in ms.

    Args:
        name: Prefix of the figures.
        pairs: The times of turns that follow each other: what is measured, and its control.
    """
    figures = []
    for what, share in (("p50", 0.5), ("p99", 0.99)):
        measured, control = ([ms for pair in pairs for ms in pair[side]] for side in (0, 1))
        ratio = median(percentile(a, share) / percentile(b, share) for a, b in pairs)
        figures.append(
            Figure(
                name=f"{name}_release_to_start_ms_{what}",
                value=percentile(measured, share),
                unit="ms",
                control=percentile(control, share),
                note=f"of {len(measured)} releases each; median of the pairs' ratios {ratio:.3f}",
            )
        )
    return figures


def release_in_turn(
    client: ResourceClient, prefix: str, releases: int
) -> tuple[list[float], list[float]]:
    """Return the times from a release to the next start, and the API server's own, in ms.

    Args:
        client: Of an API server with a scheduler, and the quota `QUOTA` without units.
        prefix: Of the names of units; the last one still runs afterwards.
        releases: How many.
    """
    observer = Observer(client)
    try:
        for number in range(releases + 1):
            unit = PlannedUnit(name=f"{prefix}-{number:03}", quota=QUOTA)
            client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))
        name = observer.next_seen("Dequeued")[0]
        time.sleep(SETTLE_SECONDS)
        starts, echoes = list[float](), list[float]()
        for _ in range(releases):
            sent = time.monotonic()
            client.patch(QUEUE_UNITS, NAMESPACE, name, END, subresource="status")
            answered = time.monotonic()
            _, ended = observer.next_seen("Succeed")
            name, started = observer.next_seen("Dequeued")
            echoes.append(1000 * (ended - sent))
            starts.append(1000 * (started - answered))
    finally:
        observer.stop()
    return starts, echoes


class Observer:
    """Records when units enter a phase, in order."""

    def __init__(self, client: ResourceClient) -> None:
        self._seen: queue.SimpleQueue[tuple[str, str, float]] = queue.SimpleQueue()
        self._informer: SharedInformer[QueueUnit] = SharedInformer(
            client, QUEUE_UNITS, clock=SystemClock(), rng=random.Random()
        )
        self._informer.add_handler(self._on_change)
        self._informer.start()
        assert within(PATIENCE_SECONDS, self._informer.has_synced), self._informer.check_synced()

    def next_seen(self, phase: str) -> tuple[str, float]:
        """Return the next unit that enters the phase, and when this was seen."""
        while True:
            name, seen, moment = self._seen.get(timeout=PATIENCE_SECONDS)
            if seen == phase:
                return name, moment

    def stop(self) -> None:
        """End the watch."""
        self._informer.stop()

    def _on_change(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        if new is None or new.metadata.labels.get(QUOTA_NAME) != QUOTA:
            return
        if old is None or old.status.phase != new.status.phase:
            self._seen.put((new.metadata.name, new.status.phase, time.monotonic()))
