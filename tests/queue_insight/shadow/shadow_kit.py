"""Records of a shadow, written line by line, and their reports."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from koord_queue.cli.app import run
from queue_insight.shadow.folder import RecordFile
from queue_insight.shadow.lines import (
    FORMAT,
    Alive,
    Header,
    JobEnded,
    JobSeen,
    JobStarted,
    JobStopped,
    Line,
    ObjectSeen,
)
from queue_insight.shadow.quota_mapping import QuotaMapping
from shared_api.testing.object_builders import elastic_quota_body, queue_unit_body
from shared_api.testing.virtual_clock import EPOCH
from shared_api.well_known_labels import USER

Json = dict[str, Any]

BEGAN: Final = EPOCH.timestamp()
MOST: Final = 1 << 20


def quota(name: str, cpu: int) -> Json:
    """Return an ElasticQuota of this many cores."""
    limit = {"cpu": cpu}
    meta: Json = {"uid": f"uid-{name}"}
    return elastic_quota_body(name, namespace="kq", min=limit, max=limit, metadata=meta)


def policy(**spec: Any) -> Json:
    """Return a QuotaPolicy of quota `team`."""
    meta = {"name": "p", "namespace": "kq", "uid": "uid-p"}
    return {"kind": "QuotaPolicy", "metadata": meta, "spec": {"quotas": ["team"], **spec}}


class Desk:
    """A record of times that count from its beginning, and its report.

    Args:
        folder: Where it is.
        cpu: Cores of quota `team`, with a queue of the same name; 0: it is not there.
        places: Which quota jobs have that name none.
    """

    def __init__(self, folder: Path, cpu: int = 2, places: QuotaMapping | None = None) -> None:
        self.folder = folder
        self.out, self.err = io.StringIO(), io.StringIO()
        self.lines: list[Line] = [
            Header(at=BEGAN, format=FORMAT, version="1", places=places or QuotaMapping())
        ]
        if cpu:
            self.object(0, quota("team", cpu))

    def object(self, at: float, body: Json) -> None:
        """Note an object."""
        self.lines.append(ObjectSeen(at=BEGAN + at, body=body))

    def job(
        self,
        name: str,
        submitted: float,
        *,
        cpu: int = 2,
        quota: str = "team",
        seen: float | None = None,
        kueue_queue: str = "",
        uid: str = "",
        user: str = "",
        **spec: Any,
    ) -> None:
        """Note a job of one pod, which is submitted then."""
        unit = queue_unit_body(name, quota=quota, requests={"cpu": cpu}, **spec)
        if user:
            unit["metadata"]["labels"][USER] = user
        self.lines.append(
            JobSeen(
                at=BEGAN + (submitted if seen is None else seen),
                uid=uid or f"uid-{name}",
                job=f"default/{name}",
                kind="job",
                submitted=BEGAN + submitted,
                kueue_queue=kueue_queue,
                unit=unit,
            )
        )

    def started(self, name: str, at: float) -> None:
        """Note a start."""
        self.lines.append(JobStarted(at=BEGAN + at, uid=f"uid-{name}"))

    def stopped(self, name: str, at: float) -> None:
        """Note that a job was suspended."""
        self.lines.append(JobStopped(at=BEGAN + at, uid=f"uid-{name}"))

    def ended(self, name: str, at: float, outcome: str = "succeeded") -> None:
        """Note an end."""
        self.lines.append(JobEnded(at=BEGAN + at, uid=f"uid-{name}", outcome=outcome))

    def ran(self, name: str, start: float, end: float) -> None:
        """Note a start and an end."""
        self.started(name, start)
        self.ended(name, end)

    def until(self, at: float) -> None:
        """Note the end of the record."""
        self.lines.append(Alive(at=BEGAN + at))

    def write(self, name: str, text: str) -> str:
        """Write a file; return its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def type(self, *flags: str) -> int:
        """Write the record, and run `koord-queue shadow-report`; return the exit code."""
        record = self.folder / "record"
        (record / "shadow.jsonl").unlink(missing_ok=True)
        file = RecordFile(record, MOST)
        for line in self.lines:
            file.write(line)
        file.close()
        return self.read(str(record), *flags)

    def read(self, *line: str) -> int:
        """Run `koord-queue shadow-report`; return the exit code."""
        self.out, self.err = io.StringIO(), io.StringIO()
        with redirect_stdout(self.out), redirect_stderr(self.err):
            return run(["shadow-report", *line])

    def report(self, *flags: str) -> Json:
        """Return the report as JSON."""
        assert self.type("-o", "json", *flags) == 0, self.err.getvalue()
        found: Json = json.loads(self.out.getvalue())
        return found

    def starts(self, *flags: str) -> dict[str, float | None]:
        """Return when jobs would have started, in seconds from the beginning, by name."""
        return {
            job["job"].removeprefix("default/"): _seconds(job["submitted"], job["wouldWaitSeconds"])
            for job in self.report(*flags)["jobs"]
        }


def _seconds(submitted: str, wait: float | None) -> float | None:
    return None if wait is None else datetime.fromisoformat(submitted).timestamp() + wait - BEGAN
