"""The options that a queue's annotations set."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.queueing.queue_options import (
    MAX_SHOWN,
    STATUS_INTERVAL_SECONDS,
    QueueOptions,
    StopPolicy,
    places_differently,
    read_options,
    recorded_options,
)
from shared_api.objects.queue import QueueStatus
from shared_api.well_known_labels import (
    ADMISSION_CHECK_TIMEOUT,
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    PRIORITY_THRESHOLD,
    STATUS_REFRESH_INTERVAL,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import build_queue

STOPPED = QueueOptions(stop=StopPolicy.HOLD)


@pytest.mark.parametrize(
    ("text", "want"), [("3", 3), ("0", 0), ("-1", None), ("nonsense", 7), (None, None)]
)
def test_an_unreadable_depth_changes_nothing(text: str | None, want: int | None) -> None:
    queue = build_queue("a", annotations={} if text is None else {MAX_DEPTH: text})
    assert read_options(queue, QueueOptions(max_depth=7)).max_depth == want


def test_only_true_has_a_queue_wait_for_pods() -> None:
    for text, want in (("true", True), ("True", False), ("1", False), ("", False)):
        queue = build_queue("a", annotations={WAIT_FOR_PODS_RUNNING: text})
        assert read_options(queue).waits_for_pods is want


def test_preemption_is_switched_on_in_two_steps() -> None:
    assert not read_options(build_queue("a", annotations={PREEMPT_RUNNING: "true"})).preempts
    preempts = read_options(build_queue("a", annotations={ENABLE_PREEMPTION: "true"}))
    assert (preempts.preempts, preempts.preempts_running) == (True, False)
    both = {"kube-queue/enable-queueunit-preemption": "true", PREEMPT_RUNNING: "true"}
    assert read_options(build_queue("a", annotations=both)).preempts_running


def test_the_options_that_units_are_placed_by() -> None:
    queue = build_queue("a", "Block")
    assert not places_differently(queue, build_queue("a", "Block", priority=4))
    assert places_differently(queue, build_queue("a", "FIFO"))
    assert places_differently(
        queue, build_queue("a", "Block", annotations={"koord-queue/available-quota": "b"})
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Hold", StopPolicy.HOLD),
        ("HoldAndDrain", StopPolicy.HOLD_AND_DRAIN),
        ("None", StopPolicy.NONE),
        pytest.param(None, StopPolicy.NONE, id="absent"),
        ("hold", StopPolicy.HOLD_AND_DRAIN),
        ("", StopPolicy.HOLD_AND_DRAIN),
    ],
)
def test_an_unreadable_stop_policy_changes_nothing(text: str | None, want: StopPolicy) -> None:
    queue = build_queue("a", annotations={} if text is None else {STOP_POLICY: text})
    before = QueueOptions(stop=StopPolicy.HOLD_AND_DRAIN)
    assert read_options(queue, before).stop is want


@pytest.mark.parametrize(
    ("text", "want"), [("30s", 30.0), ("1m", 60.0), (None, STATUS_INTERVAL_SECONDS), ("soon", 9.0)]
)
def test_an_unreadable_interval_changes_nothing(text: str | None, want: float) -> None:
    queue = build_queue("a", annotations={} if text is None else {STATUS_REFRESH_INTERVAL: text})
    before = QueueOptions(status_interval_seconds=9.0)
    assert read_options(queue, before).status_interval_seconds == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("5m", 300.0),
        ("30", 30.0),
        pytest.param("0", 0.0, id="forever"),
        pytest.param("", None, id="the setting"),
        pytest.param(None, None, id="absent"),
        pytest.param("soon", 9.0, id="what was in force"),
    ],
)
def test_the_queue_may_set_the_timeout_of_checks(text: str | None, want: float | None) -> None:
    queue = build_queue("a", annotations={} if text is None else {ADMISSION_CHECK_TIMEOUT: text})
    before = QueueOptions(check_timeout_seconds=9.0)
    assert read_options(queue, before).check_timeout_seconds == want


@pytest.mark.parametrize(("text", "want"), [("9", 9), ("-1", -1), (None, 4), ("high", 7)])
def test_an_unreadable_threshold_changes_nothing(text: str | None, want: int) -> None:
    queue = build_queue("a", annotations={} if text is None else {PRIORITY_THRESHOLD: text})
    assert read_options(queue, QueueOptions(priority_threshold=7)).priority_threshold == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("9", 9),
        ("-1", -1),
        ("2147483647", 2**31 - 1),
        pytest.param(None, None, id="absent"),
        pytest.param("high", 7, id="not a number"),
        pytest.param("2147483648", 7, id="above 32 bits"),
        pytest.param("", 7, id="empty"),
    ],
)
def test_an_unreadable_ceiling_changes_nothing(text: str | None, want: int | None) -> None:
    queue = build_queue("a", annotations={} if text is None else {MAX_PRIORITY: text})
    options = read_options(queue, QueueOptions(max_priority=7))
    assert options.max_priority == want
    assert bool(options.problems) == (text in ("high", "2147483648", ""))


@pytest.mark.parametrize("text", ["high", "2147483648", ""])
def test_an_unreadable_ceiling_without_a_previous_one_counts_as_zero(text: str) -> None:
    options = read_options(build_queue("a", annotations={MAX_PRIORITY: text}))
    assert options.max_priority == 0
    assert "no priority above 0 counts" in options.problems[0]


def test_an_unreadable_value_is_reported_with_the_one_in_force() -> None:
    annotations = {
        MAX_DEPTH: "many",
        BACKFILL: "True",
        STOP_POLICY: "Stop",
        STATUS_REFRESH_INTERVAL: "x" * 1000,
        ADMISSION_CHECK_TIMEOUT: "-1s",
    }
    options = read_options(build_queue("a", annotations=annotations), STOPPED)
    assert options.problems == (
        (
            "annotation koord-queue/max-depth: 'many' is not a whole number; "
            "what was in force stays: no limit"
        ),
        "annotation koord-queue/backfill: 'True' is not true or false; it counts as false",
        (
            "annotation koord-queue/stop-policy: 'Stop' is not None, Hold or HoldAndDrain; "
            "what was in force stays: Hold"
        ),
        (
            f"annotation koord-queue/queue-items-refresh-interval: '{'x' * MAX_SHOWN}...' is not a "
            "duration such as 30s, 5m or 1h30m; what was in force stays: 5s"
        ),
        (
            "annotation koord-queue/admission-check-timeout: '-1s' is not a duration such as 30s, "
            "5m or 1h30m; what was in force stays: the setting"
        ),
    )
    assert read_options(build_queue("a", annotations={MAX_DEPTH: "3"}), options).problems == ()


@pytest.mark.parametrize("text", ["true", "false", "", None])
def test_a_readable_switch_is_no_problem(text: str | None) -> None:
    assert not read_options(
        build_queue("a", annotations={} if text is None else {BACKFILL: text})
    ).problems


@pytest.mark.parametrize(
    ("reported", "want"), [("Hold", StopPolicy.HOLD), ("", StopPolicy.NONE), ("?", StopPolicy.NONE)]
)
def test_a_stop_is_remembered_in_the_status(reported: str, want: StopPolicy) -> None:
    queue = replace(build_queue("a"), status=QueueStatus(stop_policy_in_force=reported))
    assert recorded_options(queue).stop is want


@pytest.mark.parametrize("word", ["true", "True", "yes", ""])
def test_only_true_has_a_queue_backfill(word: str) -> None:
    assert read_options(build_queue("a", annotations={BACKFILL: word})).backfill is (word == "true")
