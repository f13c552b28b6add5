from __future__ import annotations

import pytest

from tests.contracts.terminating_pods import TerminatingPods, does_terminating_pod_count


@pytest.mark.parametrize(
    ("rule", "seconds", "want"),
    [
        (TerminatingPods.COUNT, 10**6, True),
        (TerminatingPods.GRACE, -5, True),
        (TerminatingPods.GRACE, 30, True),
        (TerminatingPods.GRACE, 31, False),
        (TerminatingPods.IMMEDIATE, -5, False),
    ],
)
def test_when_it_stops_counting(rule: TerminatingPods, seconds: int, want: bool) -> None:
    got = does_terminating_pod_count(rule, seconds_since_deletion=seconds, grace_seconds=30)
    assert got is want
