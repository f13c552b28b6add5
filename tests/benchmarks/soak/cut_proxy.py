"""A TCP proxy between programs and the API server, whose connections can be cut or held."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"
PIECE_BYTES: Final = 65_536


class CutProxy:
    """Forwards connections of a free port to another, both on loopback.

    Args:
        port: The port of the server.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = False
        self._is_over = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._flows.set()
        self._listener.close()
        self._close_all()

    def kubeconfig(self, original: Path, path: Path) -> Path:
        """Write a kubeconfig that differs from another in leading through this proxy."""
        config = json.loads(original.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{self.port}"
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def cut(self) -> None:
        """Close all connections, and each new one at once, until `fix`."""
        self._refuses = True
        self._close_all()

    def hold(self) -> None:
        """Forward nothing, and close nothing, until `fix`: no packet arrives any more."""
        self._flows.clear()

    def fix(self) -> None:
        """Forward again."""
        self._refuses = False
        self._flows.set()

    def _close_all(self) -> None:
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._is_over:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with ExitStack() as stack:
            stack.enter_context(client)
            self._flows.wait()
            if self._refuses or self._is_over:
                return
            try:
                server = stack.enter_context(socket.create_connection((LOOPBACK, self._target)))
            except OSError:
                return  # the server is down
            with self._lock:
                self._open |= {client, server}
            back = threading.Thread(target=self._forward, args=(server, client), daemon=True)
            back.start()
            self._forward(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                self._flows.wait()
                sink.sendall(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
