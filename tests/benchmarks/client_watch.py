"""CPU of one watch event on the client's side: our informer beside the official client's.

A child process serves TLS on loopback: an empty list of pods, and a watch that reports the same
pods again and again. Both informers keep a cache and call a handler; they take turns, each in a
process of its own, of which the CPU time is measured. The control is
`kubernetes.informer.SharedInformer` with `CoreV1Api`: it cannot list custom objects.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kubernetes.client import CoreV1Api
from kubernetes.informer import ADDED, MODIFIED
from kubernetes.informer import SharedInformer as OfficialInformer

from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import PODS
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.pod import Pod
from shared_api.process.clock import SystemClock
from tests.benchmarks import official_client
from tests.benchmarks.client_transport import TOKEN
from tests.tls_files import CA, server_context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

NAMES: Final = 200
"""Pods that the events are about."""
ROUNDS: Final = 3
PATIENCE_SECONDS: Final = 120.0
LIST: Final = json.dumps(
    {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
)
HEAD: Final = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def pod_body(number: int, version: int) -> dict[str, Any]:
    """Return a running pod of a job, as the API server reports it: 1.9 kB."""
    name = f"train-{number:04}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"0b8c4ee1-5e4f-4f3c-9d11-{number:012}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"batch.kubernetes.io/job-name": "train", "koord-queue/queue-name": "gold"},
            "annotations": {"koord-queue/related-queue-unit": "team/train"},
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {}}
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 20}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry/train:1",
                    "env": [{"name": f"OPTION_{each}", "value": "x" * 20} for each in range(12)],
                    "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
        },
    }


def serve(port_to: Connection, events: int) -> None:
    """Answer lists and watches, each connection on a thread, until the parent ends us."""
    context = server_context()
    stream = b"".join(_chunk(number) for number in range(events))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port_to.send(listener.getsockname()[1])
        while True:
            accepted, _ = listener.accept()
            secured = context.wrap_socket(accepted, server_side=True)
            threading.Thread(target=_answer, args=(secured, stream), daemon=True).start()


def _chunk(number: int) -> bytes:
    kind = "ADDED" if number < NAMES else "MODIFIED"
    line = json.dumps({"type": kind, "object": pod_body(number % NAMES, number + 2)}) + "\n"
    return f"{len(line):x}\r\n{line}\r\n".encode()


def _answer(connection: Any, stream: bytes) -> None:
    received = b""
    while piece := connection.recv(65_536):
        received += piece
        while b"\r\n\r\n" in received:
            head, _, received = received.partition(b"\r\n\r\n")
            if b"watch=" in head.split(b"\r\n", 1)[0]:
                connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + stream)
                continue
            connection.sendall(f"{HEAD}Content-Length: {len(LIST)}\r\n\r\n{LIST}".encode())


def measure(events: int) -> dict[str, float]:
    """Return CPU microseconds per event, by client: the best of the rounds."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    spawned = multiprocessing.get_context("spawn")
    server = spawned.Process(target=serve, args=(sender, events), daemon=True)
    server.start()
    try:
        port = int(receiver.recv())
        clients = {"informer": _our_round, "official": _official_round}
        best = dict.fromkeys(clients, float("inf"))
        for _ in range(ROUNDS):
            for name, run in clients.items():
                # The official client's `stop` waits for an event: its process is ended instead.
                with spawned.Pool(1) as pool:
                    used = pool.apply(run, (port, events))
                best[name] = min(best[name], 1e6 * used / events)
        return best
    finally:
        server.terminate()
        server.join()


class _Counter:
    """Counts calls of a handler; `seen` is set with the last one."""

    def __init__(self, events: int) -> None:
        self._left = events
        self.seen = threading.Event()

    def count(self) -> None:
        self._left -= 1
        if not self._left:
            self.seen.set()


def _time(start: Callable[[], object], counter: _Counter) -> float:
    """Return the CPU seconds until all events were seen."""
    started = time.process_time()
    start()
    assert counter.seen.wait(PATIENCE_SECONDS), "not all events came"
    return time.process_time() - started


def _our_round(port: int, events: int) -> float:
    login = Login(authorization=TOKEN, ca_pem=Path(CA).read_bytes())
    settings = connection_settings(f"https://127.0.0.1:{port}", FixedLogin(login))
    clock = SystemClock()
    transport = HttpTransport(settings, clock)
    rng = random.Random(1)
    client = ResourceClient(transport, flow=FlowControl(0, 1, clock), clock=clock, rng=rng)
    informer: SharedInformer[Pod] = SharedInformer(client, PODS, clock=clock, rng=rng)
    counter = _Counter(events)
    informer.add_handler(lambda _old, _new: counter.count())
    return _time(informer.start, counter)


def _official_round(port: int, events: int) -> float:
    api = CoreV1Api(official_client.connect(port, TOKEN))
    informer: Any = cast("Any", OfficialInformer)(api.list_pod_for_all_namespaces)
    counter = _Counter(events)
    for kind in (ADDED, MODIFIED):
        informer.add_event_handler(kind, lambda _pod: counter.count())
    return _time(informer.start, counter)
