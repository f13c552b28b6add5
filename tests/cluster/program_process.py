"""Our programs as real processes, with their logs in files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import httpx

from tests.tls_files import CERTIFICATE, KEY, client_context

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0
SCHEDULER: Final = "queue_scheduler"
CONTROLLERS: Final = "queue_controllers"
INSIGHT: Final = "queue_insight.insight_program"
PORTS: Final = ("--health-address", "--metrics-address")
EXPOSED: Final = (
    "--debug-address=:0",
    f"--debug-tls-certificate={CERTIFICATE}",
    f"--debug-tls-key={KEY}",
)
"""Flags of a program whose debug API listens on all addresses, with TLS."""


class ProgramFailed(Exception):
    """A program did not become ready, or ended; the message has the end of its log."""


class ProgramProcess:
    """One program, listening on free loopback ports.

    Args:
        module: `SCHEDULER`, `CONTROLLERS`, another that runs with -m, or the path of a script
            from the root.
        kubeconfig: What it connects with; None: it talks to no API server.
        log: Its output; appended to, so that a restart keeps the story.
        arguments: Further flags.
        group: The process group that it joins, a guardian's; None: this process's.
        root: The checkout that it is run from, such as one of another version.
        ports: The flags of its ports; None: those that its module has.
    """

    def __init__(
        self,
        module: str,
        kubeconfig: Path | None,
        log: Path,
        arguments: Sequence[str] = (),
        *,
        group: int | None = None,
        root: Path = ROOT,
        ports: Sequence[str] | None = None,
    ) -> None:
        debugs = ["--debug-address"] if module in {SCHEDULER, CONTROLLERS} else []
        self._module = module
        self._root = root
        self._log = log
        self._group = group
        self._arguments = (
            *(() if kubeconfig is None else (f"--kubeconfig={kubeconfig}",)),
            *(f"{each}=127.0.0.1:0" for each in (ports or [*PORTS, *debugs])),
            *arguments,
        )
        self._code = [module] if module.endswith(".py") else ["-m", module]
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._port_by_flag: dict[str, int] = {}

    def start(self, *more: str) -> None:
        """Start it, with more flags for this time; returns at once."""
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        self._port_by_flag.clear()
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *self._code, *self._arguments, *more],
                cwd=self._root,
                stdout=out,
                stderr=out,
                process_group=self._group,
                # A script finds this checkout's packages, whichever is installed.
                env={**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONPATH": str(self._root)},
            )

    def wait_until_ready(self) -> None:
        """Return when /readyz says 200."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.get_health("/readyz") == 200:
                return
            if self.exit_code() is not None:
                break
            time.sleep(0.05)
        raise ProgramFailed(f"{self._module} is not ready:\n{self.log()[-3000:]}")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "not started"
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return how it ended, or None while it runs."""
        assert self._process is not None, "not started"
        return self._process.poll()

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for its end, and return how it ended."""
        assert self._process is not None, "not started"
        return self._process.wait(seconds)

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int | None:
        """End it politely, then not; return its exit code. May be called twice."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return self._process.returncode

    def port_of(self, flag: str) -> int:
        """Return the port that a flag's address became, 0 while it is not known."""
        if flag not in self._port_by_flag:  # its log may be long, and waiting tests ask often
            ports = (int(str(each["port"])) for each in self.events() if each.get("flag") == flag)
            port = next(ports, 0)
            if not port:
                return 0
            self._port_by_flag[flag] = port
        return self._port_by_flag[flag]

    def ask(
        self,
        path: str,
        flag: str = "--debug-address",
        *,
        body: object = None,
        token: str = "",
        tls: bool = False,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> httpx.Response:
        """Return what it answers on the port of a flag; a request with a body is a POST.

        Raises:
            httpx.TransportError: There was no answer.
        """
        url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port_of(flag)}{path}"
        return httpx.request(
            "GET" if body is None else "POST",
            url,
            json=body,
            headers={**headers, **({"Authorization": f"Bearer {token}"} if token else {})},
            verify=client_context() if tls else False,
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )

    def get_health(self, path: str) -> int:
        """Return the status of a probe, 0 without an answer."""
        port = self.port_of("--health-address")
        if not port:
            return 0
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_SECONDS) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except OSError:
            return 0

    def log(self) -> str:
        """Return what it wrote since its last start."""
        if not self._log.exists():
            return ""
        return self._log.read_bytes()[self._log_start :].decode(errors="replace")

    def events(self) -> list[dict[str, object]]:
        """Return its log since the last start, line by line; other lines are left out."""
        found = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue  # half a line, still being written
        return found

    def errors(self) -> list[str]:
        """Return the lines of its log that are errors, and those that are no log lines."""
        lines = self.log().splitlines()
        return [line for line in lines if '"level":"error"' in line or line[:1] != "{"]
