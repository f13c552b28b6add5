"""The controllers with counters around their parts, which `--counts=SOCKET` serves as JSON.

Each connection to the socket gets one document: numbers by name, since the start. The counters are
wrapped around the functions of any version of the program, so that two versions are counted in the
same way. They take about a hundredth of what they count.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from queue_controllers.__main__ import main
from queue_controllers.reconcile.reconciler import JobReconciler
from shared_api.client.resource_client import ResourceClient
from shared_api.client.response_decoding import AnswerReader
from shared_api.process.loop_thread import LoopThread

FLAG: Final = "--counts="
SECONDS_PER_NS: Final = 1e-9

counts: defaultdict[str, float] = defaultdict(float)


def counted(
    owner: type[Any], method: str, name: str, size: Callable[..., int] | None = None
) -> None:
    """Count the calls of a method and their CPU seconds; `size`: the bytes of what it took."""
    inner = getattr(owner, method)

    def call(*arguments: Any, **named: Any) -> Any:
        began = time.thread_time()
        try:
            return inner(*arguments, **named)
        finally:
            counts[f"cpu {name}"] += time.thread_time() - began
            counts[name] += 1
            if size is not None:
                counts[f"{name[:-1]} bytes"] += size(*arguments)

    setattr(owner, method, call)


def size_of(_reader: AnswerReader[Any], line: bytes) -> int:
    """Return the size of an event."""
    return len(line)


def threads() -> dict[str, float]:
    """Return CPU seconds and context switches of threads, those of one kind together."""
    found: defaultdict[str, float] = defaultdict(float)
    for thread in threading.enumerate():
        place = Path(f"/proc/self/task/{thread.native_id}")
        name = thread.name.rstrip("-0123456789")
        try:
            ran = int((place / "schedstat").read_text("ascii").split()[0])
            status = (place / "status").read_text("ascii").splitlines()
        except OSError:
            continue  # it has just ended
        found[f"cpu of {name}"] += ran * SECONDS_PER_NS
        found[f"switches of {name}"] += sum(
            int(line.split()[1]) for line in status if "ctxt_switches" in line
        )
    return dict(found)


def serve(path: str) -> None:
    """Send the counts to everybody who connects."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(json.dumps({**counts, **threads()}).encode())


if __name__ == "__main__":
    counted(AnswerReader, "read_event", "events", size_of)
    counted(JobReconciler, "_reconcile", "reconciles")
    counted(JobReconciler, "_reconcile_once", "looks")
    counted(JobReconciler, "_carry_out", "deeds")
    counted(ResourceClient, "_write", "writes")
    counted(LoopThread, "wake", "wakes")
    threading.Thread(
        target=serve, args=(sys.argv.pop().removeprefix(FLAG),), name="counts", daemon=True
    ).start()
    main()
