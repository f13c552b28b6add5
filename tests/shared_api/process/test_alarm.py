"""The flag that a thread waits for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shared_api.process.alarm import Alarm


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
    alarm = Alarm()
    rounds = 2000

    def ring() -> None:
        for _ in range(rounds):
            alarm.set()

    with ThreadPoolExecutor(4) as pool:
        ringing = [pool.submit(ring) for _ in range(4)]
        while not all(each.done() for each in ringing):
            alarm.wait(0.01)
            alarm.clear()
        for each in ringing:
            each.result(timeout=10)
        alarm.set()
        assert alarm.wait(10)


def test_a_waiting_thread_hears_of_it() -> None:
    alarm = Alarm()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(alarm.wait, 30)
        alarm.set()
        assert waiting.result(timeout=30)
