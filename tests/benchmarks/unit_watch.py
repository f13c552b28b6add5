"""All units of an API server: read in pages, and watched until one starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from shared_api.client.resource_client import ResourceClient, WatchStream
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase

PATIENCE_SECONDS: Final = 300.0


def pages_of_units(client: ResourceClient) -> Iterator[list[QueueUnit]]:
    """Read all units, and keep none."""
    token = ""
    while True:
        page = client.list_page(QUEUE_UNITS, continue_token=token)
        yield [item for item in page.items if isinstance(item, QueueUnit)]
        token = page.continue_token
        if not token:
            return


def watch_units(client: ResourceClient) -> WatchStream[QueueUnit]:
    """Open a watch of all that happens to units from now on."""
    version = client.list_page(QUEUE_UNITS, limit=1).resource_version
    return client.watch(
        QUEUE_UNITS, resource_version=version, timeout_seconds=2 * int(PATIENCE_SECONDS)
    )


def await_start(stream: WatchStream[QueueUnit]) -> tuple[str, float]:
    """Return which unit starts, and when, as Unix time."""
    while True:
        event = stream.next_event(PATIENCE_SECONDS)
        if event is None or event.object is None:
            raise RuntimeError("the watch ended before a unit started")
        if event.object.status.phase == Phase.DEQUEUED:
            return event.object.metadata.name, time.time()
