"""Which changes need a reconcile, and which of them can wait."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.extension_server import (
    AT_ONCE,
    GATHER_SECONDS,
    pause_of_job,
    pause_of_unit,
)
from queue_controllers.extensions.batch_job import BatchJob, BatchJobAdapter
from shared_api.objects.queue_unit import QueueUnit

JOB: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team", "uid": "7", "generation": 1},
    "spec": {"suspend": True},
    "status": {"active": 1},
}
UNIT: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team", "uid": "8", "generation": 1},
    "spec": {"queue": "gold"},
    "status": {"phase": "Enqueued"},
}
COMPLETE = {"type": "Complete", "status": "True"}


def changed(body: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    """Return the next version, with changes in metadata, spec or status."""
    parts["metadata"] = {"resourceVersion": "2", **parts.get("metadata", {})}
    return {**body, **{part: {**body[part], **more} for part, more in parts.items()}}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, None, id="nothing but its version"),
        pytest.param(
            {"status": {"startTime": "2026-11-01T10:00:00Z"}}, GATHER_SECONDS, id="status"
        ),
        pytest.param({"status": {"notRead": 1}}, None, id="a field that is not read"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, GATHER_SECONDS, id="labels"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, AT_ONCE, id="a label of its user"),
        pytest.param({"status": {"conditions": [COMPLETE]}}, AT_ONCE, id="it ended"),
        pytest.param(
            {"metadata": {"generation": 2}, "spec": {"suspend": False}}, AT_ONCE, id="its spec"
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}}, AT_ONCE, id="deleted"
        ),
        pytest.param({"metadata": {"uid": "9"}}, AT_ONCE, id="another of its name"),
    ],
)
def test_changes_of_a_job(change: dict[str, Any], want: float | None) -> None:
    old = msgspec.convert(JOB, BatchJob)
    new = msgspec.convert(changed(JOB, **change), BatchJob)
    assert pause_of_job(BatchJobAdapter(), old, new) == want


def test_a_new_or_relisted_job_is_reconciled_at_once() -> None:
    job = msgspec.convert(JOB, BatchJob)
    assert pause_of_job(BatchJobAdapter(), None, job) == AT_ONCE
    assert pause_of_job(BatchJobAdapter(), job, job) == AT_ONCE


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, None, id="nothing but its version"),
        pytest.param({"status": {"message": "waits"}}, GATHER_SECONDS, id="why it waits"),
        pytest.param({"status": {"phase": "Dequeued"}}, AT_ONCE, id="admitted"),
        pytest.param(
            {"metadata": {"generation": 2}, "spec": {"active": False}}, AT_ONCE, id="spec"
        ),
    ],
)
def test_changes_of_a_unit(change: dict[str, Any], want: float | None) -> None:
    old = msgspec.convert(UNIT, QueueUnit)
    new = msgspec.convert(changed(UNIT, **change), QueueUnit)
    assert pause_of_unit(old, new) == want


def test_a_new_deleted_or_relisted_unit_is_reconciled_at_once() -> None:
    unit = msgspec.convert(UNIT, QueueUnit)
    for old, new in ((None, unit), (unit, None), (unit, unit)):
        assert pause_of_unit(old, new) == AT_ONCE
