"""How a verdict changes a unit's status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared_api.admission_check_kit.verdicts import (
    CheckState,
    CheckVerdict,
    checks_patch,
    differs_in_words_only,
    find_state,
    has_passed_checks,
    is_asked_about,
    state_after,
    state_body,
)
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import AdmissionCheckState, PodSetUpdate, QueueUnit

EARLIER, NOW = Timestamp("2026-11-01T09:00:00Z"), Timestamp("2026-11-01T10:00:00Z")
EVICTED = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
UPDATE = PodSetUpdate(name="main", annotations={"a": "b"})


def unit_with(status: dict[str, Any], **metadata: Any) -> QueueUnit:
    body = {"metadata": {"name": "u", "resourceVersion": "7", **metadata}, "status": status}
    return msgspec.convert(body, QueueUnit)


@pytest.mark.parametrize(
    ("status", "metadata", "asked", "admitted"),
    [
        ({"phase": "Reserved"}, {}, True, False),
        ({"phase": "Enqueued"}, {}, False, False),
        ({"phase": "TimeoutBackoff"}, {}, False, False),
        ({"phase": "Dequeued"}, {}, False, True),
        ({"phase": "Running"}, {}, False, True),
        ({"phase": "SchedReady"}, {}, False, True),
        ({"phase": "SchedSucceed"}, {}, False, True),
        ({"phase": "Succeed"}, {}, False, False),
        ({"phase": "Reserved", "conditions": [EVICTED]}, {}, False, False),
        ({"phase": "Running", "conditions": [EVICTED]}, {}, False, False),
        ({"phase": "Reserved"}, {"deletionTimestamp": NOW}, False, False),
        ({"phase": "Running"}, {"deletionTimestamp": NOW}, False, False),
    ],
)
def test_when_a_unit_is_judged(
    status: dict[str, Any], metadata: dict[str, str], asked: bool, admitted: bool
) -> None:
    unit = unit_with(status, **metadata)
    assert (is_asked_about(unit), has_passed_checks(unit)) == (asked, admitted)


def state(name: str = "check", **fields: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name=name, last_transition_time=EARLIER, **fields)


def test_ready_includes_the_updates_of_pod_sets() -> None:
    got = state_after(state(), CheckVerdict(CheckState.READY, "go", (UPDATE,)), NOW)
    assert (got.state, got.message, got.pod_set_updates) == ("Ready", "go", (UPDATE,))
    assert got.last_transition_time == NOW
    lost = state_after(got, CheckVerdict(CheckState.PENDING, "wait", (UPDATE,)), NOW)
    assert lost.pod_set_updates == (), "no updates without capacity"


def test_the_transition_time_changes_only_with_the_state() -> None:
    got = state_after(state(), CheckVerdict(CheckState.PENDING, "soon"), NOW)
    assert got.last_transition_time == EARLIER
    assert differs_in_words_only(state(), got)
    assert not differs_in_words_only(state(), state())


def test_the_count_of_retries_is_kept_through_all_states() -> None:
    retry = CheckVerdict(CheckState.RETRY, "no", requeue_after_seconds=60)
    got = state_after(state(), retry, NOW)
    assert (got.retry_count, got.requeue_after_seconds) == (1, 60)
    assert state_after(got, retry, NOW).retry_count == 1, "the same retry, repeated"
    pending = msgspec.structs.replace(got, state="Pending")
    ready = state_after(pending, CheckVerdict(CheckState.READY), NOW)
    assert (ready.retry_count, ready.requeue_after_seconds) == (1, None)
    assert state_after(ready, retry, NOW).retry_count == 2


def test_what_exceeds_the_schema_is_truncated() -> None:
    verdict = CheckVerdict(CheckState.RETRY, "x" * 40_000, requeue_after_seconds=2**40)
    got = state_after(state(), verdict, NOW)
    assert len(got.message) == 32_768
    assert got.requeue_after_seconds == 2**31 - 1


def test_a_patch_includes_the_states_of_other_checks_and_is_guarded() -> None:
    foreign: dict[str, Any] = {
        "name": "other",
        "state": "Ready",
        "message": "",
        "lastTransitionTime": EARLIER,
    }
    foreign |= {"retryCount": 2, "requeueAfterSeconds": 5}
    foreign["podSetUpdates"] = [
        {
            "name": "main",
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
        }
    ]
    mine = {"name": "check", "state": "Pending", "message": "", "lastTransitionTime": EARLIER}
    unit = unit_with({"phase": "Reserved", "admissionChecks": [foreign, mine]})
    after = state_after(state(), CheckVerdict(CheckState.REJECTED, "never"), NOW)
    patch = checks_patch(unit, {"check": after})
    assert msgspec.json.decode(msgspec.json.encode(patch)) == {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "admissionChecks": [
                foreign,
                {
                    "name": "check",
                    "state": "Rejected",
                    "message": "never",
                    "lastTransitionTime": NOW,
                },
            ]
        },
    }


def test_of_two_states_with_one_name_the_first_counts() -> None:
    twice = [state_body(state(message=message)) for message in ("one", "two")]
    unit = unit_with({"phase": "Reserved", "admissionChecks": twice})
    found = find_state(unit, "check")
    assert found is not None
    assert found.message == "one"
    patch = checks_patch(unit, {})
    assert [each["message"] for each in patch["status"]["admissionChecks"]] == ["one"]
