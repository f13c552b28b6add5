"""Any number of units that wait in full queues, in a real API server, as a scheduler left them.

The API server would take minutes for 100,000 units, and the scheduler as long for the reasons of
all. So a scheduler sees the first queue only: some units run there, and one of each class waits,
with its reason. The others are copies of their stored objects, written into etcd. Nothing may watch
meanwhile: copies that are written together have one version.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import httpx
import msgspec

from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.load_player import NAMESPACE, PlannedUnit, unit_body
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_process import SCHEDULER, ProgramProcess

ELECTED: Final = ("--leader-elect=true",)
RUNNING: Final = 4
"""Units that run in each queue, of one CPU each: its quota has no more."""
CLASSES: Final = 4
"""Waiting units of one to so many CPUs."""
PER_WRITE: Final = 100
"""Objects of one transaction; etcd takes at most 128."""
PATIENCE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.2
ETCD_SECONDS: Final = 60.0


def start_first(world: ClusterWorld, queues: int, spare_cpu: int = 0) -> ProgramProcess:
    """Create the quotas and the units of the first queue; return the scheduler that has seen them.

    It is ready to be stopped, before `write_copies`. The cluster has `spare_cpu` CPUs more than
    these quotas.
    """
    client = world.client()
    names = [queue_name(number) for number in range(queues)]
    create_quotas(client, [quota(n, "", minimum=RUNNING, maximum=RUNNING) for n in names])
    create_node(client, queues * RUNNING + spare_cpu)
    scheduler = world.start(SCHEDULER, *ELECTED)  # a scheduler that finds no lease waits
    await_queues(client, queues)
    first = names[0]
    running = [PlannedUnit(name=running_name(first, n), quota=first) for n in range(RUNNING)]
    for unit in running:
        client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))
    _await(client, [u.name for u in running], lambda u: u.status.phase == Phase.DEQUEUED)
    waiting = [PlannedUnit(name=_pattern(n), quota=first, cpu=n + 1) for n in range(CLASSES)]
    for unit in waiting:
        client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))
    _await(client, [u.name for u in waiting], lambda u: bool(u.status.conditions))
    return scheduler


def write_copies(world: ClusterWorld, queues: int, waiting: int) -> None:
    """Fill all queues like the first; `waiting` units wait altogether."""
    with httpx.Client(base_url=world.plane.etcd_url, timeout=ETCD_SECONDS) as etcd:
        first = queue_name(0)
        running = [_read(etcd, running_name(first, number)) for number in range(RUNNING)]
        patterns = [_read(etcd, _pattern(number)) for number in range(CLASSES)]
        copies = _copies(running, patterns, queues, waiting - CLASSES)
        while some := list(islice(copies, PER_WRITE)):
            _write(etcd, some)


def queue_name(number: int) -> str:
    """Return the name of a queue and of its quota."""
    return f"team-{number:03}"


def running_name(queue: str, number: int) -> str:
    """Return the name of a unit that runs from the start."""
    return f"{queue}-runs-{number}"


def waiting_name(queue: str, number: int) -> str:
    """Return the name of a copy that waits; numbers count through all queues."""
    return f"{queue}-waits-{number:06}"


def _pattern(number: int) -> str:
    return f"{queue_name(0)}-pattern-{number}"


def _copies(
    running: list[dict[str, Any]], patterns: list[dict[str, Any]], queues: int, waiting: int
) -> Iterator[dict[str, Any]]:
    for queue in map(queue_name, range(1, queues)):
        for number, unit in enumerate(running):
            yield _copy(unit, queue, running_name(queue, number))
    for number in range(waiting):
        queue = queue_name(number % queues)
        unit = patterns[number // queues % CLASSES]
        yield _copy(unit, queue, waiting_name(queue, number))


def _copy(unit: dict[str, Any], queue: str, name: str) -> dict[str, Any]:
    """Return a unit of another queue: label and condition name it."""
    text = msgspec.json.encode(unit).replace(queue_name(0).encode(), queue.encode())
    copy: dict[str, Any] = msgspec.json.decode(text)
    copy["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
    return copy


def _read(etcd: httpx.Client, name: str) -> dict[str, Any]:
    asked = {"key": _encode(_key(name).encode())}
    (found,) = etcd.post("/v3/kv/range", json=asked).raise_for_status().json()["kvs"]
    unit: dict[str, Any] = msgspec.json.decode(base64.b64decode(found["value"]))
    return unit


def _write(etcd: httpx.Client, units: Iterable[dict[str, Any]]) -> None:
    puts = [
        {
            "requestPut": {
                "key": _encode(_key(unit["metadata"]["name"]).encode()),
                "value": _encode(msgspec.json.encode(unit)),
            }
        }
        for unit in units
    ]
    etcd.post("/v3/kv/txn", json={"success": puts}).raise_for_status()


def _key(name: str) -> str:
    """Return where the API server stores a unit."""
    return f"/registry/{QUEUE_UNITS.group}/{QUEUE_UNITS.plural}/{NAMESPACE}/{name}"


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _await(
    client: ResourceClient, names: Iterable[str], is_done: Callable[[QueueUnit], bool]
) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for name in names:
        while not is_done(unit := client.get(QUEUE_UNITS, NAMESPACE, name)):
            if time.monotonic() > deadline:
                message = f"the scheduler left {name} at {unit.status}"
                raise RuntimeError(message)
            time.sleep(POLL_SECONDS)
