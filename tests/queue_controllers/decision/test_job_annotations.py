"""Users' annotations on a job, and what is reported where they cannot be parsed."""

from __future__ import annotations

import pytest

from queue_controllers.decision.job_annotations import (
    read_active,
    read_max_execution_seconds,
    read_priority,
    settings_of_job,
    unreadable_annotations,
)
from queue_controllers.decision.job_settings import JobSettings, backoff_from
from tests.job_situations import facts

PRIORITY = "scheduling.x-k8s.io/priority"
ACTIVE = "scheduling.x-k8s.io/active"
NOTE = "koord-queue/pod-set-updates"
MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"


@pytest.mark.parametrize(
    ("text", "want"),
    [("true", True), ("1", True), ("false", False), ("F", False), ("", None), ("nope", None)],
)
def test_active(text: str, want: bool | None) -> None:
    """Conformance item ctl-31."""
    assert read_active(facts(annotations={"scheduling.x-k8s.io/active": text})) is want


@pytest.mark.parametrize(
    ("text", "want"), [("3600", 3600), ("0", None), ("-5", None), ("1h", None), ("", None)]
)
def test_max_execution_time(text: str, want: int | None) -> None:
    """Conformance item ctl-32."""
    of = facts(annotations={"scheduling.x-k8s.io/max-exec-time-seconds": text})
    assert read_max_execution_seconds(of) == want


RUNNING = "koord-queue/running-timeout"
BACKOFF = "koord-queue/backoff-timeout"
LIMIT = "koord-queue/backoff-limit"
OF_ALL = JobSettings(running_timeout_seconds=60.0, backoff=backoff_from(5.0))


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, (60.0, 5.0, 900.0), id="none"),
        pytest.param({RUNNING: "1h30m"}, (5400.0, 5.0, 900.0), id="a duration"),
        pytest.param({RUNNING: "90"}, (90.0, 5.0, 900.0), id="seconds"),
        pytest.param({RUNNING: "0"}, (0.0, 5.0, 900.0), id="never"),
        pytest.param({RUNNING: "soon"}, (60.0, 5.0, 900.0), id="unreadable"),
        pytest.param({"kube-queue/running-timeout": "9s"}, (9.0, 5.0, 900.0), id="older prefix"),
        pytest.param({BACKOFF: "20m"}, (60.0, 1200.0, 1200.0), id="a first wait above the cap"),
        pytest.param({BACKOFF: "0"}, (60.0, 10.0, 900.0), id="the usual first wait"),
        pytest.param({BACKOFF: "5 m"}, (60.0, 5.0, 900.0), id="an invalid first wait"),
    ],
)
def test_times_of_one_job(annotations: dict[str, str], want: tuple[float, float, float]) -> None:
    got = settings_of_job(facts(annotations=annotations), OF_ALL)
    assert (
        got.running_timeout_seconds,
        got.backoff.base_seconds,
        got.backoff.cap_seconds,
    ) == want


def test_the_reported_key_is_the_one_on_the_job() -> None:
    of = facts(annotations={"kube-queue/running-timeout": "soon"})
    assert "kube-queue/running-timeout" in unreadable_annotations(of)[RUNNING]


@pytest.mark.parametrize(
    ("text", "want"), [("-7", -7), ("+5", 5), ("high", 3), ("1.5", 3), (str(2**31), 3), ("", 3)]
)
def test_priority(text: str, want: int) -> None:
    assert read_priority(facts(annotations={PRIORITY: text}), 3) == want


@pytest.mark.parametrize(
    ("key", "text", "want"),
    [
        pytest.param(PRIORITY, "high", "'high' is not a whole number of 32 bits", id="a word"),
        pytest.param(PRIORITY, "2147483648", "32 bits", id="more than an int32"),
        pytest.param(PRIORITY, "9" * 250_000, "9...' is not", id="as long as one may be"),
        pytest.param(PRIORITY, "5", "", id="a priority"),
        pytest.param(PRIORITY, "", "", id="empty: as if it were missing"),
        pytest.param(ACTIVE, "yes", "'yes' is not true or false", id="not a boolean"),
        pytest.param(ACTIVE, "F", "", id="a boolean"),
        pytest.param(MAX_EXEC, "1h", "'1h' is not a whole number of seconds", id="hours"),
        pytest.param(MAX_EXEC, "0", "above 0", id="no time at all"),
        pytest.param(MAX_EXEC, "60", "", id="seconds"),
        pytest.param(RUNNING, "soon", "'soon' is not a duration such as 30s", id="no duration"),
        pytest.param(RUNNING, "-1", "the setting for all jobs holds", id="negative"),
        pytest.param(BACKOFF, "1m30s", "", id="a duration"),
        pytest.param(NOTE, "[" * 3000, "nested more than 64 levels", id="a note that is too deep"),
        pytest.param(NOTE, "\u202e{\0", "templates count as they are", id="bidi and NUL"),
        pytest.param(NOTE, '{"main": {"labels": {"a": "0"}}}', "", id="a note"),
        pytest.param(LIMIT, "-1", "'-1' is not a whole number from 0 on", id="no count"),
        pytest.param(LIMIT, "0", "", id="a count"),
    ],
)
def test_ignored_annotations_are_reported(key: str, text: str, want: str) -> None:
    troubles = unreadable_annotations(facts(annotations={key: text}))
    assert set(troubles) == ({key} if want else set())
    assert want in troubles.get(key, "")
    assert len(troubles.get(key, "")) < 250
