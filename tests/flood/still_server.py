"""A server that has its one answer ready: what a flood of it costs is what the flood itself costs.

`python -m tests.flood.still_server` prints its port, and ends with its standard input.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.cluster.program_process import ROOT
from tests.flood.http_connection import Endpoint

BODY: Final = b"ok"


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that have gone."""


@contextmanager
def still_server() -> Iterator[Endpoint]:
    """Yield the port of such a server, a process of its own."""
    command = [sys.executable, "-m", "tests.flood.still_server"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None, "a pipe"
            yield Endpoint(int(process.stdout.readline()))
        finally:
            process.kill()


def main() -> None:
    """Serve until the standard input ends."""
    server = _Server(("127.0.0.1", 0), _Answer)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
