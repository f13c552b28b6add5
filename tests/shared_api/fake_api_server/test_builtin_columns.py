"""Tests of shared_api.fake_api_server.builtin_columns: cells that depend on an object's state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from shared_api.fake_api_server.builtin_columns import (
    EVENT_COLUMNS,
    JOB_COLUMNS,
    NODE_COLUMNS,
    POD_COLUMNS,
)
from shared_api.fake_api_server.table_printer import TableColumn
from shared_api.testing.object_builders import job_body, node_body, pod_body, with_status

NOW = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)
DELETED = {"deletionTimestamp": "2026-11-01T09:00:00Z"}
Json = Any


def cell(columns: Sequence[TableColumn], name: str, body: Json) -> Json:
    (column,) = (column for column in columns if column.name == name)
    return column.cell(body, NOW)


def true(*types: str) -> list[Json]:
    return [{"type": kind, "status": "True"} for kind in types]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(job_body("a"), "Running", id="no condition"),
        pytest.param(with_status(job_body("a"), conditions=true("Suspended")), "Suspended", id="s"),
        pytest.param(
            with_status(job_body("a"), conditions=true("SuccessCriteriaMet", "Complete")),
            *("Complete",),
            id="complete",
        ),
        pytest.param(
            with_status(job_body("a"), conditions=true("FailureTarget")), "FailureTarget", id="f"
        ),
        pytest.param(job_body("a", metadata=DELETED), "Terminating", id="deleted"),
    ],
)
def test_job_status(body: Json, want: str) -> None:
    assert cell(JOB_COLUMNS, "Status", body) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"completions": 3}, "1/3"),
        ({"parallelism": 4}, "1/1 of 4"),
        ({"parallelism": 1}, "1/1"),
    ],
)
def test_job_completions(spec: Json, want: str) -> None:
    assert cell(JOB_COLUMNS, "Completions", with_status(job_body("a", **spec), succeeded=1)) == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, ""),
        ({"startTime": "2026-11-01T09:58:00Z"}, "2m"),
        ({"startTime": "2026-11-01T09:00:00Z", "completionTime": "2026-11-01T09:00:30Z"}, "30s"),
    ],
)
def test_job_duration(status: Json, want: str) -> None:
    assert cell(JOB_COLUMNS, "Duration", with_status(job_body("a"), **status)) == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(pod_body("a", phase="Running"), "Running", id="running"),
        pytest.param(pod_body("a", phase="Succeeded"), "Completed", id="succeeded"),
        pytest.param(
            with_status(pod_body("a"), phase="Failed", reason="Evicted"), "Evicted", id="e"
        ),
        pytest.param(
            pod_body("a", phase="Pending", schedulingGates=[{"name": "x"}]),
            *("SchedulingGated",),
            id="gated",
        ),
        pytest.param(pod_body("a", phase="Running", metadata=DELETED), "Terminating", id="deleted"),
        pytest.param(pod_body("a", phase="Failed", metadata=DELETED), "Failed", id="ended first"),
    ],
)
def test_pod_status(body: Json, want: str) -> None:
    assert cell(POD_COLUMNS, "Status", body) == want


def test_pod_counts() -> None:
    statuses = [{"ready": True, "restartCount": 2}]
    body = with_status(pod_body("a", nodeName="n"), containerStatuses=statuses)
    assert cell(POD_COLUMNS, "Ready", body) == "1/1"
    assert cell(POD_COLUMNS, "Restarts", body) == "2"
    assert cell(POD_COLUMNS, "Node", body) == "n"
    assert cell(POD_COLUMNS, "IP", body) == "<none>"


@pytest.mark.parametrize(
    ("ready", "unschedulable", "want"),
    [
        ("True", False, "Ready"),
        ("False", False, "NotReady"),
        ("Unknown", True, "NotReady,SchedulingDisabled"),
        (None, False, "Unknown"),
    ],
)
def test_node_status(ready: str | None, unschedulable: bool, want: str) -> None:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    body = with_status(node_body("a"), conditions=conditions)
    body["spec"] = {"unschedulable": unschedulable}
    assert cell(NODE_COLUMNS, "Status", body) == want


def test_node_roles() -> None:
    labels = {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}
    assert cell(NODE_COLUMNS, "Roles", node_body("a", metadata={"labels": labels})) == "a,b"
    assert cell(NODE_COLUMNS, "Roles", node_body("a")) == "<none>"


@pytest.mark.parametrize(
    ("fields", "seen", "count"),
    [
        pytest.param({"eventTime": "2026-11-01T09:59:00Z"}, "60s", 1, id="once"),
        pytest.param(
            {
                "eventTime": "2026-11-01T09:00:00Z",
                "series": {"count": 4, "lastObservedTime": "2026-11-01T09:59:50Z"},
            },
            *("10s", 4),
            id="a series",
        ),
        pytest.param({"lastTimestamp": "2026-11-01T09:59:30Z", "count": 3}, "30s", 3, id="old"),
    ],
)
def test_events(fields: Json, seen: str, count: int) -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "queue"}
    body = {"metadata": {"name": "e"}, **about, **fields}
    assert cell(EVENT_COLUMNS, "Last Seen", body) == seen
    assert cell(EVENT_COLUMNS, "Count", body) == count
    assert cell(EVENT_COLUMNS, "Object", body) == "pod/p"
    assert cell(EVENT_COLUMNS, "Source", body) == "queue"
