"""The write requests that an API server received, by user agent, read from its audit log.

Caches, watches and resourceVersions show the state of an object, not how many requests led to it.
The audit log has each request with the user agent that sent it, accepted or refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

CONTROLLERS_AGENT: Final = "koord-queue-controllers/"
SCHEDULER_AGENT: Final = "koord-queue-scheduler/"

WRITES_OF_JOBS_AND_UNITS: Final[Json] = {
    "level": "Request",
    "verbs": ["create", "update", "patch", "delete"],
    "resources": [{"group": "batch", "resources": ["jobs"]}, {"group": "scheduling.x-k8s.io"}],
}
"""Rule of an audit policy: what is written of Jobs and our kinds, with the content."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One write request, as the server recorded it."""

    agent: str
    verb: str
    resource: str
    """Plural, with the subresource after a slash."""
    name: str
    status: int
    body: Json

    @property
    def is_release(self) -> bool:
        """Return whether it turns off a job's suspend field."""
        return self.resource == "jobs" and self.body.get("spec", {}).get("suspend") is False


class ApiAudit:
    """The audit log of one API server.

    Args:
        folder: where policy and log are.
        rule: what is noted; all else is not.
    """

    def __init__(self, folder: Path, rule: Json = WRITES_OF_JOBS_AND_UNITS) -> None:
        self._rule = rule
        self._log = folder / "audit.log"
        self._policy = folder / "audit-policy.json"

    def prepare(self) -> tuple[str, ...]:
        """Write the policy; return the flags of the API server."""
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "omitManagedFields": True,
            "rules": [self._rule, {"level": "None"}],
        }
        self._policy.write_text(json.dumps(policy))
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def requests(self, agent: str, name: str = "") -> list[Request]:
        """Return the writes of programs of this agent; with `name`, to objects of that name."""
        return [
            each
            for each in self._read()
            if each.agent.startswith(agent) and name in {"", each.name}
        ]

    def accepted(self, agent: str, name: str) -> list[Request]:
        """Return the writes to objects of that name that were not refused for a conflict.

        A write appears in the log some time after its result is visible.
        """
        sent = self.requests(agent, name)
        return [each for each in sent if each.status != HTTPStatus.CONFLICT]

    def lines(self) -> list[str]:
        """Return the log, a JSON document per line; the last one may be half written."""
        return self._log.read_text("utf-8").splitlines() if self._log.exists() else []

    def _read(self) -> Iterator[Request]:
        for line in self.lines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # an incomplete line, still being written
            # What is asked about no resource, such as which kinds there are, has no reference.
            about, body = event.get("objectRef") or {}, event.get("requestObject") or {}
            subresource = about.get("subresource", "")
            yield Request(
                agent=event.get("userAgent", ""),
                verb=event["verb"],
                resource=about.get("resource", "") + (f"/{subresource}" if subresource else ""),
                name=about.get("name") or body.get("metadata", {}).get("name", ""),
                status=event.get("responseStatus", {}).get("code", 0),
                body=body,
            )
