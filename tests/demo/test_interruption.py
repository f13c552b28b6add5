"""A signal ends the demo where that is safe."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.demo.interruption import ENDING_SIGNALS, Interrupted, Interruption


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_ends_a_start_at_once(number: signal.Signals) -> None:
    interruption = Interruption()
    interruption.listen()
    with pytest.raises(Interrupted):
        signal.raise_signal(number)
    signal.raise_signal(number)  # an impatient person does not end the removal
    with pytest.raises(Interrupted):
        interruption.check()


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_waits_until_it_is_asked_for(number: signal.Signals) -> None:
    interruption = Interruption()
    interruption.listen()
    interruption.note_only()
    interruption.check()
    signal.raise_signal(number)
    signal.raise_signal(number)
    with pytest.raises(Interrupted):
        interruption.check()
