"""Whether an installation works: ``python -m shared_api.installation_check``; `helm test` runs it.

It asks the API server alone, as any client would: are the CRDs served, and does each program hold
its lease and keep renewing it? A program that holds its lease has reached the API server, has its
rights, and has filled its caches. One line for each answer, and exit status 1 if one is bad.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from shared_api.client.connection_settings import SettingsError
from shared_api.client.discovery import is_served
from shared_api.client.errors import ApiFailure
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import load_connection
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.resource_types import QUEUE_UNITS, QUEUES
from shared_api.lease_lock import ApiLeaseLock
from shared_api.objects.lease import Lease
from shared_api.process.clock import Clock, SystemClock
from shared_api.timestamps import read_time

REQUEST_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 60.0
"""How long to wait for missing parts: right after an installation images are still being pulled."""
PAUSE_SECONDS: Final = 2.0
DEFAULT_LEASE_SECONDS: Final = 15
"""Duration of a lease that does not state one: the programs' default."""


class Answer(msgspec.Struct, frozen=True):
    """The result for one part of the installation."""

    is_good: bool
    text: str


def judge_lease(name: str, lease: Lease | None, now: datetime) -> Answer:
    """Return whether a program holds its lease now."""
    if lease is None or not lease.spec.holder_identity:
        why = "does not exist" if lease is None else "has no holder"
        text = f"lease {name} {why}: the program is not running, or is not ready"
        return Answer(is_good=False, text=text)
    renewed_at = read_time(lease.spec.renew_time or "")
    age = (now - renewed_at).total_seconds() if renewed_at is not None else None
    holder = lease.spec.holder_identity
    if age is None or age > (lease.spec.lease_duration_seconds or DEFAULT_LEASE_SECONDS):
        since = "never" if age is None else f"{age:.0f} s ago"
        text = f"lease {name} was last renewed {since}, by {holder}: it has stopped"
        return Answer(is_good=False, text=text)
    return Answer(is_good=True, text=f"lease {name} is held by {holder}")


class InstallationCheck:
    """Checks every part of an installation, once per `look`."""

    def __init__(
        self, client: ResourceClient, clock: Clock, namespace: str, leases: Sequence[str]
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._leases = leases

    def look(self) -> list[Answer]:
        """Return a result for each part; it is bad if the server does not answer."""
        return list(self._answers())

    def wait(self, patience_seconds: float = PATIENCE_SECONDS) -> list[Answer]:
        """Check until all results are good, or `patience_seconds` have passed; return the last."""
        deadline = self._clock.monotonic() + patience_seconds
        while True:
            answers = self.look()
            is_over = self._clock.monotonic() + PAUSE_SECONDS > deadline
            if is_over or all(answer.is_good for answer in answers):
                return answers
            self._clock.sleep(PAUSE_SECONDS)

    def _answers(self) -> Iterator[Answer]:
        for kind in (QUEUES, QUEUE_UNITS):
            yield self._ask(_name_of(kind), partial(self._judge_kind, kind))
        for name in self._leases:
            yield self._ask(f"lease {name}", partial(self._judge_lease, name))

    def _ask(self, what: str, question: Callable[[], Answer]) -> Answer:
        try:
            return question()
        except ApiFailure as failure:
            return Answer(is_good=False, text=f"{what}: the API server does not say: {failure}")

    def _judge_kind(self, kind: ResourceType[Any]) -> Answer:
        if is_served(self._client, kind.group, kind.version, kind.plural):
            return Answer(is_good=True, text=f"{_name_of(kind)} is served")
        missing = "is not served: its CRD is missing (kubectl apply --server-side -f crds/)"
        return Answer(is_good=False, text=f"{_name_of(kind)} {missing}")

    def _judge_lease(self, name: str) -> Answer:
        lease = ApiLeaseLock(self._client, self._namespace, name).read()
        return judge_lease(name, lease, self._clock.now())


def _name_of(kind: ResourceType[Any]) -> str:
    return f"{kind.plural}.{kind.group}/{kind.version}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status: 0 if all is good, 2 without access to the server."""
    parser = argparse.ArgumentParser(
        prog="python -m shared_api.installation_check", description=__doc__
    )
    parser.add_argument(
        "--kubeconfig", help="default: that of kubectl, or the pod's service account"
    )
    parser.add_argument("--namespace", default="koord-queue", help="of the installation")
    parser.add_argument("--lease", action="append", default=[], help="of a program; repeatable")
    parser.add_argument("--patience-seconds", type=float, default=PATIENCE_SECONDS)
    options = parser.parse_args(arguments)
    clock = SystemClock()
    try:
        connection = load_connection(options.kubeconfig, None, clock=clock)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    client = ResourceClient(
        HttpTransport(connection, clock),
        flow=FlowControl(0, 1, clock),
        clock=clock,
        rng=random.Random(),
        request_timeout_seconds=REQUEST_SECONDS,
        user_agent="koord-queue-installation-check",
    )
    check = InstallationCheck(client, clock, options.namespace, options.lease)
    answers = check.wait(options.patience_seconds)
    for answer in answers:
        sys.stdout.write(f"{'ok' if answer.is_good else 'FAILED'}: {answer.text}\n")
    return 0 if all(answer.is_good for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
