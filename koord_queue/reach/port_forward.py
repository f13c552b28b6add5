"""`kubectl port-forward` to the program that leads, for as long as a command runs.

kubectl does it, since whoever may forward ports has it: it speaks what the kubelets of all versions
speak, and logs in as the user is used to.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from koord_queue.checks.programs import CONTROLLERS_LEASE, SCHEDULER_LEASE
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.resources import LEASES

if TYPE_CHECKING:
    from koord_queue.reach.choice import Choice
    from koord_queue.reach.cluster import Cluster
    from shared_api.process.clock import Clock


class Program(NamedTuple):
    """A program with a debug API.

    Attributes:
        port: The port of its debug API.
        lease: Held by the replica that leads.
        deployment: As the chart names it.
    """

    port: int
    lease: str
    deployment: str


SCHEDULER: Final = Program(19876, SCHEDULER_LEASE, "koord-queue")
CONTROLLERS: Final = Program(19877, CONTROLLERS_LEASE, "koord-queue-controllers")
START_SECONDS: Final = 15.0
"""kubectl asks the API server for the pod, and connects, before it says that it listens."""
STOP_SECONDS: Final = 5.0
_LISTENS: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ->")
_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class PortForward:
    """A kubectl that listens on a port of this machine.

    Attributes:
        url: Where.
    """

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url

    def close(self) -> None:
        """End it."""
        end(self._process)


class PortForwards:
    """The port-forwards of a command: each starts when it is asked for, all end together.

    Args:
        choice: What the options say.
        cluster: Opens the API server.
        clock: The time.
    """

    def __init__(self, choice: Choice, cluster: Callable[[], Cluster], clock: Clock) -> None:
        self._choice = choice
        self._cluster = cluster
        self._clock = clock
        self._started: dict[Program, PortForward] = {}

    def url(self, program: Program) -> str:
        """Return where the debug API of a program is on this machine.

        Raises:
            NotServed: The user may not forward ports, there is no kubectl, or the program does not
                run.
            CommandError: No cluster is configured.
        """
        if program not in self._started:
            started = forward(self._choice, self._cluster(), self._clock, program)
            self._started[program] = started
        return self._started[program].url

    def close(self) -> None:
        """End them."""
        for each in self._started.values():
            each.close()


def forward(choice: Choice, cluster: Cluster, clock: Clock, program: Program) -> PortForward:
    """Return a port that leads to the debug API of a program.

    Raises:
        NotServed: The user may not forward ports, there is no kubectl, or the program does not run.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise NotServed("there is no kubectl for a port-forward")
    namespace = choice.system_namespace
    if not may_forward(cluster, namespace):
        raise NotServed(f"you may not forward ports in namespace {namespace}")
    target = leading_pod(cluster, namespace, program)
    command = [kubectl, *_as_chosen(choice), "--namespace", namespace]
    command += ["port-forward", "--address", "127.0.0.1", target, f":{program.port}"]
    process = subprocess.Popen(  # noqa: S603 - kubectl of the user's PATH, with the user's options
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    port = _listening_port(process, clock)
    if port is None:
        text = end(process)
        last = text.strip().splitlines()[-1:] or ["it said nothing"]
        raise NotServed(f"kubectl port-forward failed: {last[0]}")
    return PortForward(process, f"http://127.0.0.1:{port}")


def may_forward(cluster: Cluster, namespace: str) -> bool:
    """Return whether the user may forward ports of pods in a namespace."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": namespace,
                "verb": "create",
                "resource": "pods",
                "subresource": "portforward",
            }
        },
    }
    answer = cluster.send("POST", _REVIEW, msgspec.json.encode(asked))
    return bool(msgspec.json.decode(answer)["status"]["allowed"])


def leading_pod(cluster: Cluster, namespace: str, program: Program) -> str:
    """Return what to forward to: the pod that holds the lease, else the Deployment."""
    try:
        spec = msgspec.json.decode(cluster.get(LEASES.path(namespace, program.lease))).get(
            "spec", {}
        )
    except (Missing, Refused):
        spec = {}
    # The holder is the name of the pod, "_", and a random number.
    holder = str(spec.get("holderIdentity") or "").rpartition("_")[0]
    return f"pod/{holder}" if holder else f"deployment/{program.deployment}"


def end(process: subprocess.Popen[bytes]) -> str:
    """End a process; return its standard error once it has ended."""
    process.terminate()
    try:
        _, text = process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, text = process.communicate()
    return text.decode(errors="replace")


def _as_chosen(choice: Choice) -> list[str]:
    named = (
        ("--context", choice.context),
        ("--kubeconfig", choice.kubeconfig),
        ("--as", choice.as_user),
        *(("--as-group", group) for group in choice.as_groups),
    )
    return [f"{name}={value}" for name, value in named if value]


def _listening_port(process: subprocess.Popen[bytes], clock: Clock) -> int | None:
    """Return the port that it listens on; None if it ends, or says nothing for too long."""
    assert process.stdout is not None
    deadline = clock.monotonic() + START_SECONDS
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - clock.monotonic())):
            more = os.read(process.stdout.fileno(), 4096)
            text += more
            if found := _LISTENS.search(text):
                return int(found.group(1))
            if not more:
                return None
    return None
