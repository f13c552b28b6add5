"""Which units need a user: one rule for `koord-queue check` and the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_api.unit_problems import (
    Ready,
    explain_command,
    reason_to_act,
    reason_without_pods,
    waiting_text,
    without_pods_text,
)
from shared_api.waiting_reasons import NEEDS_ACTION

NOW = datetime(2026, 11, 1, 9, tzinfo=UTC)
LONG_AGO = NOW - timedelta(minutes=6)


def test_a_reason_to_act_is_one_that_a_user_ends() -> None:
    assert {reason_to_act(each) for each in NEEDS_ACTION} == NEEDS_ACTION
    assert [reason_to_act(each) for each in ("OverQuotaMax", "Pending", "")] == [""] * 3


@pytest.mark.parametrize(
    ("ready", "want"),
    [
        pytest.param(Ready("False", "PodsPending", LONG_AGO), "PodsPending", id="for long"),
        pytest.param(
            Ready("False", "PodsPending", NOW - timedelta(minutes=5)), "", id="not for long"
        ),
        pytest.param(Ready("False", "PodsPending", None), "", id="nobody says since when"),
        pytest.param(Ready("True", "PodsRunning", LONG_AGO), "", id="they run"),
        pytest.param(Ready("True", "NoPods", LONG_AGO), "NoPods", id="they ran once"),
    ],
)
def test_pods_that_do_not_run(ready: Ready, want: str) -> None:
    assert reason_without_pods(ready, NOW) == want


def test_it_is_told_in_the_same_words() -> None:
    assert waiting_text(1, "NoQuota") == "1 unit waits with NoQuota"
    assert waiting_text(2, "NoQuota") == "2 units wait with NoQuota"
    assert without_pods_text("NoPods") == "admitted for more than 5 minutes, NoPods"
    assert explain_command("ns/a") == "koord-queue explain unit/a -n ns"
