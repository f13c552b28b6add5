"""Use in cores, GiB and pieces, times hours."""

from __future__ import annotations

import pytest

from queue_scheduler.tenants.hours import in_hours

HOUR = 3600


@pytest.mark.parametrize(
    ("resource", "used", "want"),
    [
        pytest.param("cpu", 1500 * HOUR, "1.5", id="cores"),
        pytest.param("cpu", 1800, "0.001", id="rounded up"),
        pytest.param("cpu", 1799, "0", id="rounded down"),
        pytest.param("memory", 2**31 * HOUR, "2", id="GiB"),
        pytest.param("hugepages-2Mi", 2**29 * HOUR, "0.5", id="pages"),
        pytest.param("kubernetes.io/batch-memory", 2**30 * HOUR, "1", id="of Koordinator"),
        pytest.param("nvidia.com/gpu", 1000, "0.278", id="a thousand short jobs"),
        pytest.param("nvidia.com/gpu", 8 * 168 * HOUR, "1344", id="a week"),
        pytest.param("memory", 10**40, "2587007151709662543402777777.778", id="exact"),
    ],
)
def test_hours(resource: str, used: int, want: str) -> None:
    assert in_hours({resource: used}) == {resource: want}


def test_zeros_are_left_out() -> None:
    assert in_hours({"cpu": 0}) == {}
