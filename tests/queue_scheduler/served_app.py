"""A debug application behind its real server, on a free loopback port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from starlette.applications import Starlette

from queue_scheduler.debug_api.server import DebugServer
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import Address, open_listener

PATIENCE_SECONDS = 60.0


@contextmanager
def served(app: Starlette) -> Iterator[httpx.Client]:
    """Serve it, and give a client for it."""
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    port = listener.getsockname()[1]
    server = DebugServer(app, listener, "", "")
    thread = LoopThread("debug-api", server.step, SystemClock(), unblock=server.close)
    thread.start()
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
            yield client
    finally:
        assert thread.stop(), "the server did not end"
