"""A debug application behind its real server, on a free loopback port."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
from starlette.applications import Starlette

from shared_api.debug_api.server import Callers, DebugServer
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread, stop_all
from shared_api.process.probes import Address, open_listener

PATIENCE_SECONDS = 60.0


@contextmanager
def served(
    app: Starlette,
    *,
    tls: ssl.SSLContext | None = None,
    authority: str = "",
    limit: int = 16,
    callers: Callers = Callers(),  # noqa: B008 - it is immutable
) -> Iterator[httpx.Client]:
    """Serve an application, and yield a client that trusts its certificate authority."""
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    port = listener.getsockname()[1]
    server = DebugServer(
        lambda: app, listener, tls, limit=limit, clock=SystemClock(), callers=callers
    )
    threads = server.threads(
        lambda name, step: LoopThread(name, step, SystemClock(), unblock=server.end)
    )
    for thread in threads:
        thread.start()
    verify = ssl.create_default_context(cafile=authority) if authority else False
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    try:
        with httpx.Client(
            base_url=url, timeout=PATIENCE_SECONDS, trust_env=False, verify=verify
        ) as client:
            yield client
    finally:
        assert stop_all(threads, SystemClock(), PATIENCE_SECONDS), "the server has not ended"
        server.close()


def words_in(answer: httpx.Response, words: Iterable[str]) -> list[str]:
    """Return those of the lower-case words that are in the text or the headers of an answer."""
    text = (answer.text + str(answer.headers)).lower()
    return [word for word in words if word in text]
