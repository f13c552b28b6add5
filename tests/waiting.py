"""Waiting in real time for what other threads and programs do."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from shared_api.process.clock import SystemClock
from tests.controlplane.api_client import ApiError

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""For steps between processes: tenths of a second on an idle machine, 10 s at most on one with
three times its load."""
STILL_SECONDS: Final = 2.0
"""How long to watch for what must not happen: twenty times what a start takes."""
LONGEST_LOOK_SECONDS: Final = 1.0
"""The most that one poll counts for: while the machine stands still, nothing makes progress."""
FIRST_PAUSE_SECONDS: Final = 0.01
USUAL_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 0.2
PAUSE_SHARE: Final = 0.05
"""What a pause beyond the usual may add to a wait: looks take the processor from what is awaited.
"""


def until(what: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true answer; raise AssertionError with the last one when time is up.

    Waits while an object is missing (404), too: a unit is created some time after its job.
    """
    missing: list[ApiError] = []

    def look() -> T | None:
        missing.clear()
        try:
            return what()
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            missing.append(error)
            return None

    answer = within(seconds, look)
    if missing:
        raise missing[0]
    assert answer, f"not within {seconds} s; last: {answer!r}"
    return answer


def within(seconds: float, what: Callable[[], T]) -> T:
    """Return the first true answer, or the last one when time is up."""
    clock = SystemClock()
    waited, pause = 0.0, FIRST_PAUSE_SECONDS
    answer = what()
    while not answer and waited < seconds:
        begun = clock.monotonic()
        clock.sleep(pause)
        answer = what()
        waited += min(clock.monotonic() - begun, LONGEST_LOOK_SECONDS)
        longest = min(max(USUAL_PAUSE_SECONDS, PAUSE_SHARE * waited), LONGEST_PAUSE_SECONDS)
        pause = min(2 * pause, longest)
    return answer


def stays(what: Callable[[], bool], seconds: float = STILL_SECONDS) -> None:
    """Assert that something is and stays true for a while."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        assert what()
        clock.sleep(0.1)
