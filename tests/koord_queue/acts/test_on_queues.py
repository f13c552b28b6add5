"""A queue is stopped where that stays: on itself, or on the quota that it follows."""

from __future__ import annotations

import pytest

from koord_queue.acts.change import Already, Change, On
from koord_queue.acts.on_queues import DRAIN, HOLD, NONE, set_stop_policy, takes_quota
from shared_api.objects.queue import Queue
from shared_api.testing.object_builders import queue_body, to_struct, with_status

STOP = "koord-queue/stop-policy"
OLDER = "kube-queue/stop-policy"
AVAILABLE = "koord-queue/available-quota-in-queue"
COPIED = "koord-queue/copied-annotations"


def queue(annotations: dict[str, str], admitted: int = 0, managed: str = "true") -> Queue:
    labels = {"create-by-koordqueue": managed}
    body = queue_body("night", metadata={"annotations": dict(annotations), "labels": labels})
    return to_struct(Queue, with_status(body, admitted=admitted))


CASES = [
    pytest.param({}, HOLD, On.QUEUE, {STOP: HOLD}, "stopped", "resume", id="it is stopped"),
    pytest.param({STOP: HOLD}, DRAIN, On.QUEUE, {STOP: DRAIN}, "draining", "stop", id="drained"),
    pytest.param(
        {STOP: DRAIN}, NONE, On.QUEUE, {STOP: None, OLDER: None}, "resumed", "drain",
        id="and resumed, by any spelling",
    ),
    pytest.param(
        {STOP: HOLD, COPIED: f"koord-queue/backfill,{STOP}"}, NONE, On.QUOTA,
        {STOP: None, OLDER: None}, "resumed", "stop", id="the quota says it: that is changed",
    ),
    pytest.param(
        {COPIED: "koord-queue/backfill"}, HOLD, On.QUEUE, {STOP: HOLD}, "stopped", "resume",
        id="the quota says something else",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "policy", "on", "changed", "said", "undo"), CASES)
def test_a_queue_gets_a_stop_policy(
    annotations: dict[str, str],
    policy: str,
    on: On,
    changed: dict[str, str | None],
    said: str,
    undo: str,
) -> None:
    got = set_stop_policy(queue(annotations), policy)
    assert isinstance(got, Change)
    assert (got.on, got.patch["metadata"]["annotations"]) == (on, changed)
    assert (got.outcome, got.undo) == (said, (undo, "queue/night"))


def test_a_queue_that_is_not_managed_any_more_is_changed_itself() -> None:
    got = set_stop_policy(queue({STOP: HOLD, COPIED: STOP}, managed=""), NONE)
    assert isinstance(got, Change)
    assert got.on is On.QUEUE


@pytest.mark.parametrize(
    ("annotations", "policy", "said"),
    [
        ({STOP: HOLD}, HOLD, "already stopped"),
        ({OLDER: DRAIN}, DRAIN, "already draining"),
        ({}, NONE, "already running"),
        ({STOP: "None"}, NONE, "already running"),
    ],
)
def test_a_queue_that_is_so_already(annotations: dict[str, str], policy: str, said: str) -> None:
    assert set_stop_policy(queue(annotations), policy) == Already(outcome=said)


@pytest.mark.parametrize(
    ("admitted", "want"),
    [
        (0, "0 admitted units of queue night are evicted"),
        (1, "1 admitted unit of queue night is evicted"),
        (3, "3 admitted units of queue night are evicted"),
    ],
)
def test_a_drain_says_how_many_units_it_evicts(admitted: int, want: str) -> None:
    got = set_stop_policy(queue({}, admitted), DRAIN)
    assert isinstance(got, Change)
    assert got.note == want


@pytest.mark.parametrize(
    ("annotations", "quota", "want"),
    [
        pytest.param({}, "night", True, id="the quota of its name"),
        pytest.param({}, "team", False, id="another one"),
        pytest.param({}, "", True, id="a quota that is not known"),
        pytest.param({AVAILABLE: "a, team"}, "team", True, id="one that it lists"),
        pytest.param({AVAILABLE: "*"}, "team", True, id="it lists all"),
        pytest.param({"koord-queue/quota-fullname": "root/x"}, "team", True, id="a node's queue"),
    ],
)
def test_which_quotas_a_queue_takes(annotations: dict[str, str], quota: str, want: bool) -> None:
    assert takes_quota(queue(annotations), quota) is want
