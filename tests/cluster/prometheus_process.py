"""A real Prometheus that scrapes our programs each second, with the alerts of the chart."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.cluster.program_process import ANSWER_SECONDS, STOP_SECONDS
from tests.controlplane.control_plane import free_port
from tests.waiting import until

Json = dict[str, Any]

EACH: Final = "1s"
"""How often it scrapes, and evaluates its rules."""
NAMESPACE: Final = "koord-queue"
READY_SECONDS: Final = 60.0


class PrometheusProcess:
    """One Prometheus.

    Args:
        program: The executable.
        folder: For its files.
        rules: The groups of its rules.
        ports: The ports of metrics on loopback, by the name of their job.
    """

    def __init__(self, program: Path, folder: Path, rules: Json, ports: Mapping[str, int]) -> None:
        self._program = program
        self._folder = folder
        self._port = free_port()
        folder.mkdir()
        (folder / "rules.yml").write_text(yaml.safe_dump(rules), encoding="utf-8")
        targets = [
            {
                "job_name": job,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": NAMESPACE}}
                ],
            }
            for job, port in ports.items()
        ]
        config = {
            "global": {"scrape_interval": EACH, "evaluation_interval": EACH},
            "rule_files": ["rules.yml"],
            "scrape_configs": targets,
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        # One for all questions: a client that might use TLS reads the Internet's authorities.
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{self._port}",
            timeout=ANSWER_SECONDS,
            transport=httpx.HTTPTransport(verify=False),
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, READY_SECONDS)

    def stop(self) -> None:
        """End it."""
        self._client.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)

    def log(self) -> str:
        """Return its warnings and errors."""
        return (self._folder / "log").read_text(encoding="utf-8")

    def query(self, expression: str) -> list[Json]:
        """Return the series of an instant query.

        Raises:
            AssertionError: Prometheus refuses the query; the message has the reason.
        """
        answer = self._get("query", query=expression)
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        found: list[Json] = answer["data"]["result"]
        return found

    def firing(self, alert: str, **labels: str) -> Json:
        """Return the alert of that name with these labels that fires, {} if none does."""
        wanted = {"alertname": alert, **labels}
        for each in self._get("alerts")["data"]["alerts"]:
            if each["state"] == "firing" and wanted.items() <= each["labels"].items():
                return dict(each)
        return {}

    def rules(self) -> list[Json]:
        """Return its rules, each with the state of its last evaluation."""
        groups = self._get("rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, what: str, **query: str) -> Json:
        answer: Json = self._client.get(f"/api/v1/{what}", params=query).json()
        return answer

    def _is_ready(self) -> bool:
        assert self._process is not None, "not started"
        assert self._process.poll() is None, self.log()
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False
