"""What goes wrong in a soak, one thing a minute, in a fixed order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from typing import Final

import httpx

from tests.benchmarks.soak.cut_proxy import CutProxy
from tests.benchmarks.soak.job_stream import QUOTA_CPU, QUOTAS
from tests.cluster.queue_world import QueueWorld
from tests.cluster.supervised import Supervised
from tests.controlplane.control_plane import ControlPlaneFailed

CUT_SECONDS: Final = 15.0
"""Longer than what a program retries without a word, shorter than two faults are apart."""
ETCD_SECONDS: Final = 30.0
START_TRIES: Final = 5

Fault = tuple[str, Callable[[], None]]


class Faults:
    """Causes them.

    Args:
        world: The cluster.
        proxy: What the programs connect through.
        scheduler, controllers: The programs.
    """

    def __init__(
        self, world: QueueWorld, proxy: CutProxy, scheduler: Supervised, controllers: Supervised
    ) -> None:
        self._world = world
        self._proxy = proxy
        kills: list[Fault] = [
            ("kill -9 of the scheduler", scheduler.kill),
            ("kill -9 of the controllers", controllers.kill),
        ]
        self._others: list[Fault] = [
            ("restart of the API server", self._start_api_server),
            ("connections cut", lambda: self._cut(proxy.cut)),
            ("quotas edited", self._edit_quotas),
            ("connections held", lambda: self._cut(proxy.hold)),
            ("history compacted", self._compact),
            ("kill -9 of the API server", self._kill_api_server),
        ]
        self._all = [kills[0], *self._others[:3], kills[1], *self._others[3:]]

    def in_order(self, *, with_kills: Callable[[], bool]) -> Iterator[Fault]:
        """Yield faults for ever; kills of the programs only while that is wanted.

        A program that is killed starts with fresh memory, and shows no growth.
        """
        for name, cause in cycle(self._all):
            if with_kills() or (name, cause) in self._others:
                yield name, cause

    def _cut(self, how: Callable[[], None]) -> None:
        how()
        time.sleep(CUT_SECONDS)
        self._proxy.fix()

    def _kill_api_server(self) -> None:
        self._world.plane.kill_api_server()
        self._start_api_server()

    def _start_api_server(self) -> None:
        """Start it until it stays, as a kubelet does: on a busy machine its own hooks may fail."""
        for _ in range(START_TRIES):
            with suppress(ControlPlaneFailed):
                self._world.plane.restart_api_server()
                return
        self._world.plane.restart_api_server()

    def _edit_quotas(self) -> None:
        for cpu in (1, QUOTA_CPU):
            for name in QUOTAS:
                self._world.resize_quota(name, cpu)
            time.sleep(CUT_SECONDS / 2)

    def _compact(self) -> None:
        """Forget all earlier revisions, and end all watches, whose resourceVersions are gone."""
        url = self._world.plane.etcd_url
        header = _ask(f"{url}/v3/maintenance/status", {})["header"]
        _ask(f"{url}/v3/kv/compaction", {"revision": header["revision"], "physical": True})
        self._proxy.cut()
        self._start_api_server()
        self._proxy.fix()


def _ask(url: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    answer = httpx.post(url, json=body, timeout=ETCD_SECONDS, trust_env=False)
    found: dict[str, dict[str, str]] = answer.raise_for_status().json()
    return found
