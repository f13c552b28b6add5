"""Tests of shared_api.fake_api_server.table_printer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared_api.fake_api_server.table_printer import age, json_path_column

NOW = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)


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
