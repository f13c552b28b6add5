"""Jobs in all states, of several users and namespaces."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import queue_unit_body, to_struct, with_status
from shared_api.testing.virtual_clock import EPOCH
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import QUOTA_NAME, SUBMITTED_BY, USER
from tests.queue_scheduler.shell_kit import ShellKit

NOW: Final = EPOCH.timestamp()
_versions = count(1000)


def tell_unit(
    kit: ShellKit,
    name: str,
    phase: str = "",
    *,
    namespace: str = "default",
    user: str = "",
    quota: str = "team",
    created: str = "2026-01-01T00:00:00Z",
    reason: str = "",
    **spec: Any,
) -> None:
    """Tell the engine of a unit in a phase; "": it has no status yet, but for a reason to wait."""
    # As the API server names users: no label can hold the name of a service account.
    names = {SUBMITTED_BY: user} if user else {}
    labels = {QUOTA_NAME: quota, **({USER: user} if user and ":" not in user else {})}
    meta = {
        "uid": f"uid-{namespace}-{name}",
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": created,
        "labels": labels,
        "annotations": names,
    }
    spec.setdefault("consumerRef", {"kind": "Job", "name": f"work-{name}"})
    body = queue_unit_body(
        name, namespace=namespace, quota=quota, requests={"cpu": 1}, metadata=meta, **spec
    )
    if reason:
        refused = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": ""}
        body = with_status(body, phase=phase or "Enqueued", conditions=[refused])
    elif phase:
        since = {"lastTransitionTime": rfc3339(EPOCH)}
        at = {"status": "True", "reason": "r", "message": "", **since}
        conditions = {"Running": "PodsReady", "Succeed": "Finished", "Failed": "Finished"}
        body = with_status(
            body,
            phase=phase,
            conditions=[{"type": conditions[phase], **at}] if phase in conditions else [],
            admissions=[{"name": "main", "replicas": 1, "resources": {"cpu": 1}}],
        )
    kit.shared.apply(Engine.on_queue_unit, to_struct(QueueUnit, body))


def run(name: str, *, namespace: str = "default", ended: float = NOW, **more: Any) -> FinishedRun:
    """Return the run of a unit that waited for 10 s and ran for 100."""
    fields: dict[str, Any] = {
        "uid": f"uid-{namespace}-{name}",
        "kind": "Job",
        "queue": "team",
        "quota": "team",
        "charge": {"cpu": 1000},
        "created": ended - 110.0,
        "started": ended - 100.0,
    }
    return FinishedRun(unit=f"{namespace}/{name}", ended=ended, **{**fields, **more})
