"""The election of the Kubernetes project's own client, as the control of ours."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock import leaselock

from shared_api.leader_election import LEASE_SECONDS, RENEW_DEADLINE_SECONDS, RETRY_SECONDS

PATIENCE_SECONDS: Final = 120.0
STANDBY_SECONDS: Final = 3 * RETRY_SECONDS
"""After which a candidate that was started has seen who leads."""


class OfficialElection:
    """A leader and a standby, each a process."""

    def __init__(self, kubeconfig: Path) -> None:
        """Start nothing yet."""
        self._kubeconfig = str(kubeconfig)
        self._candidates: list[_Candidate] = []
        self._killed_at = 0.0

    def __enter__(self) -> Self:
        """Start a candidate, which leads."""
        self._add()
        self._candidates[0].await_lead()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all candidates."""
        for each in self._candidates:
            each.kill()

    def await_standby(self) -> None:
        """Start a second candidate; return when it waits for the first."""
        self._add()
        time.sleep(STANDBY_SECONDS)

    def kill_leader(self) -> None:
        """Kill the first candidate."""
        self._killed_at = time.monotonic()
        self._candidates.pop(0).kill()

    def seconds(self) -> float:
        """Return the time from the kill until the next candidate was told that it leads."""
        return self._candidates[0].await_lead() - self._killed_at

    def _add(self) -> None:
        self._candidates.append(_Candidate(self._kubeconfig))


class _Candidate:
    def __init__(self, kubeconfig: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=elect, args=(kubeconfig, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def await_lead(self) -> float:
        """Return the monotonic time at which it was told that it leads."""
        if not self._pipe.poll(PATIENCE_SECONDS):
            raise RuntimeError("no candidate of the control leads")
        got: float = self._pipe.recv()
        return got

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def elect(kubeconfig: str, parent: Connection) -> None:
    """Be a candidate until killed; send the time at which it leads."""
    client: Any = config  # the package has no types
    client.load_kube_config(kubeconfig)
    new_lock: Any = leaselock.LeaseLock
    new_settings: Any = electionconfig.Config
    new_election: Any = leaderelection.LeaderElection
    settings = new_settings(
        new_lock("official-election", "default", str(multiprocessing.current_process().pid)),
        lease_duration=LEASE_SECONDS,
        renew_deadline=int(RENEW_DEADLINE_SECONDS),
        retry_period=int(RETRY_SECONDS),
        onstarted_leading=lambda: parent.send(time.monotonic()),
        onstopped_leading=None,
    )
    new_election(settings).run()
