"""CPU of one PATCH over TLS on the client's side: our transport beside two others.

These are `http.client`, which is the least that the standard library takes, and the official client
of the Kubernetes project (`patch_namespaced_custom_object_status`).

    python -m tests.benchmarks.client_transport [REQUESTS]

A child process serves TLS on loopback and answers every request with the same QueueUnit-sized
body. The clients take turns in one run, so that a busy machine affects all alike. Measured is the
CPU time of this process, not wall time.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubernetes.client import CustomObjectsApi

from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request
from shared_api.process.clock import SystemClock
from tests.benchmarks import official_client
from tests.tls_files import CA, client_context, server_context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TOKEN: Final = "Bearer " + "t" * 900  # as long as a service account's
PATH: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/queueunits/job-1/status"
BODY: Final = json.dumps(
    {
        "metadata": {"resourceVersion": "123456"},
        "status": {"phase": "Dequeued", "message": "m" * 60},
    }
).encode()
ANSWER_BODY: Final = json.dumps({"kind": "QueueUnit", "filler": "f" * 1_500}).encode()
ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nAudit-Id: 0b8c4ee1-5e4f-4f3c-9d11-7b1f0a0d2a55\r\n"
    b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 8a3c1f8e-6a51-4b1b-b0a8-9f7b5ad6d1aa\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 5f6d8a34-07c2-4f05-8c55-0d7f4bd4f7d1\r\n"
    b"Date: Sun, 01 Nov 2026 10:00:00 GMT\r\n"
    b"Content-Length: " + str(len(ANSWER_BODY)).encode() + b"\r\n\r\n" + ANSWER_BODY
)
ROUNDS: Final = 5


def serve(port_to: Connection) -> None:
    """Answer PATCH after PATCH, one connection after the other, until the parent ends us."""
    context = server_context()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port_to.send(listener.getsockname()[1])
        while True:
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(accepted, server_side=True) as connection:
                _answer_all(connection)


def _answer_all(connection: ssl.SSLSocket) -> None:
    received = b""
    while piece := connection.recv(65_536):
        received += piece
        if received.endswith(BODY):
            received = b""
            connection.sendall(ANSWER)


def measure(requests: int) -> dict[str, float]:
    """Return CPU microseconds per PATCH, by client: the best of the rounds."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(sender,), daemon=True)
    server.start()
    try:
        port = int(receiver.recv())
        clients = {
            "transport": _transport_round,
            "http.client": _http_client_round,
            "official": _official_round,
        }
        best = dict.fromkeys(clients, float("inf"))
        for _ in range(ROUNDS):
            for name, run in clients.items():
                best[name] = min(best[name], _cpu_microseconds(run, port, requests // ROUNDS))
        return best
    finally:
        server.terminate()
        server.join()


def _cpu_microseconds(run: Callable[[int, int], float], port: int, requests: int) -> float:
    return 1e6 * run(port, requests) / requests


def _transport_round(port: int, requests: int) -> float:
    login = Login(authorization=TOKEN, ca_pem=Path(CA).read_bytes())
    settings = connection_settings(f"https://127.0.0.1:{port}", FixedLogin(login))
    transport = HttpTransport(settings, SystemClock())
    request = Request(
        "PATCH",
        PATH,
        (("timeout", "4s"), ("fieldManager", "koord-queue")),
        (("Content-Type", "application/merge-patch+json"), ("Accept", "application/json")),
        BODY,
    )
    transport.send(request, 4.0)  # connects
    started = time.process_time()
    for _ in range(requests):
        assert transport.send(request, 4.0).status == 200
    used = time.process_time() - started
    transport.close()
    return used


def _http_client_round(port: int, requests: int) -> float:
    context = client_context()
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=4.0, context=context)
    headers = {
        "Authorization": TOKEN,
        "Content-Type": "application/merge-patch+json",
        "Accept": "application/json",
    }

    def send() -> int:
        connection.request("PATCH", f"{PATH}?timeout=4s&fieldManager=koord-queue", BODY, headers)
        response = connection.getresponse()
        response.read()
        return response.status

    send()  # connects
    started = time.process_time()
    for _ in range(requests):
        assert send() == 200
    used = time.process_time() - started
    connection.close()
    return used


def _official_round(port: int, requests: int) -> float:
    api = CustomObjectsApi(official_client.connect(port, TOKEN))
    body = json.loads(BODY)

    def send() -> None:
        api.patch_namespaced_custom_object_status(
            "scheduling.x-k8s.io",
            "v1alpha1",
            "team",
            "queueunits",
            "job-1",
            body,
            field_manager="koord-queue",
            _content_type="application/merge-patch+json",
        )

    send()  # connects
    started = time.process_time()
    for _ in range(requests):
        send()  # raises for other answers than 200
    used = time.process_time() - started
    api.api_client.close()
    return used


def main() -> None:
    """Print one line per client."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    figures = measure(requests)
    for name, microseconds in figures.items():
        print(f"{name:12} {microseconds:7.1f} µs of CPU per TLS PATCH")
    for name in ("http.client", "official"):
        print(f"{'ratio to ' + name:22} {figures['transport'] / figures[name]:7.2f}")


if __name__ == "__main__":
    main()
