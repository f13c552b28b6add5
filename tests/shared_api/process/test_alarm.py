"""The event that a single thread waits for."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from shared_api.process.alarm import Alarm

RINGERS: Final = 4
RINGS: Final = 500
PATIENCE_SECONDS: Final = 60.0


def test_it_is_an_event_for_one_thread() -> None:
    alarm = Alarm()
    assert not alarm.is_set()
    assert not alarm.wait(0)
    alarm.set()
    alarm.set()
    assert alarm.is_set()
    assert alarm.wait(0)
    assert alarm.wait(), "it stays set until it is cleared"
    alarm.clear()
    alarm.clear()
    assert not alarm.is_set()
    assert not alarm.wait(0)


def test_no_alarm_is_lost_however_many_threads_set_it() -> None:
    """Each thread sets it only after its last set was seen, so a lost one stops the test."""
    alarm = Alarm()
    unanswered: deque[Alarm] = deque()

    def ring() -> None:
        answer = Alarm()
        for _ in range(RINGS):
            unanswered.append(answer)
            alarm.set()
            assert answer.wait(PATIENCE_SECONDS)
            answer.clear()

    left = RINGERS * RINGS
    with ThreadPoolExecutor(RINGERS) as pool:
        ringing = [pool.submit(ring) for _ in range(RINGERS)]
        while left:
            assert alarm.wait(PATIENCE_SECONDS)
            alarm.clear()
            while unanswered:
                unanswered.popleft().set()
                left -= 1
        for each in ringing:
            each.result(timeout=PATIENCE_SECONDS)


class Overtaken:
    """A lock that another thread releases right after each check of it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def locked(self) -> bool:
        was_locked = self._lock.locked()
        if was_locked:
            self._lock.release()
        return was_locked


def test_a_set_that_races_with_another_leaves_it_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("threading.Lock", Overtaken)
        alarm = Alarm()
    alarm.set()
    assert alarm.wait(0)


def test_a_waiting_thread_is_woken() -> None:
    alarm = Alarm()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(alarm.wait, PATIENCE_SECONDS)
        alarm.set()
        assert waiting.result(timeout=PATIENCE_SECONDS)
