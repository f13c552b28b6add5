"""Tests of shared_api.fake_api_server.table_printer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared_api.fake_api_server.table_printer import age, human_duration, json_path_column

NOW = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"),
        (-1, "0s"),
        (-5, "<invalid>"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 53, "2m53s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + 3 * HOUR, "8d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (9 * YEAR + 3 * DAY, "9y"),
    ],
)
def test_durations_are_printed_as_by_kubectl(seconds: float, want: str) -> None:
    assert human_duration(seconds) == want


@pytest.mark.parametrize(
    ("timestamp", "want"),
    [
        ("2026-11-01T09:59:00Z", "60s"),
        ("2026-11-01T09:59:00.5Z", "59s"),
        (None, "<unknown>"),
        ("noon", "<invalid>"),
    ],
)
def test_ages(timestamp: str | None, want: str) -> None:
    assert age(timestamp, NOW) == want


BODY = {
    "metadata": {"name": "a", "labels": {"a.b/c": "label"}},
    "spec": {"queue": "q", "n": 3, "list": [1, 2], "object": {"x": 1}},
    "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "B", "status": "yes"}]},
}


@pytest.mark.parametrize(
    ("path", "kind", "want"),
    [
        pytest.param(".spec.queue", "string", "q", id="field"),
        pytest.param(".spec.n", "integer", 3, id="number"),
        pytest.param(".spec.n", "string", "3", id="number as text"),
        pytest.param(".spec.none", "string", None, id="absent"),
        pytest.param('.status.conditions[?(@.type=="B")].status', "string", "yes", id="filter"),
        pytest.param(".status.conditions[?(@.type=='C')].status", "string", None, id="no match"),
        pytest.param(".spec.list[1]", "integer", 2, id="index"),
        pytest.param(".spec.list[7]", "integer", None, id="index beyond"),
        pytest.param(".status.conditions[*].type", "string", "A B", id="all"),
        pytest.param(r".metadata.labels.a\.b/c", "string", "label", id="escaped dot"),
        pytest.param(".metadata.labels['a.b/c']", "string", "label", id="quoted"),
        pytest.param(".spec.object", "string", '{"x":1}', id="an object"),
    ],
)
def test_cells_of_custom_columns(path: str, kind: str, want: Any) -> None:
    column = json_path_column({"name": "X", "type": kind, "jsonPath": path})
    assert column.cell(BODY, NOW) == want
