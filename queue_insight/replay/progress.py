"""How far a command is: a bar with the time left on a terminal, one line per minute elsewhere."""

from __future__ import annotations

from typing import Final, TextIO

from shared_api.durations import seconds_in_words
from shared_api.process.clock import Clock

BAR: Final = 30
BAR_SECONDS: Final = 0.2
LINE_SECONDS: Final = 60.0
SOON: Final = 0.01
"""The share of the work below which the remaining time is too uncertain to be printed."""


class Progress:
    """Prints the progress of several runs, one after the other.

    Args:
        out: Where it is told.
        clock: The time.
        runs: How many runs there are.
    """

    def __init__(self, out: TextIO, clock: Clock, runs: int) -> None:
        self._out = out
        self._clock = clock
        self._runs = runs
        self._is_terminal = out.isatty()
        self._began = clock.monotonic()
        self._shown_at = self._began
        self._number = 0
        self._name = ""

    def start(self, name: str) -> None:
        """Begin the next run."""
        self._number += 1
        self._name = name

    def show(self, share: float) -> None:
        """Take which share of this run is done, from 0 to 1."""
        now = self._clock.monotonic()
        pause = BAR_SECONDS if self._is_terminal else LINE_SECONDS
        if now - self._shown_at < pause:
            return
        self._shown_at = now
        done = (self._number - 1 + share) / self._runs
        text = f"{self._number} of {self._runs} ({self._name})"
        if done >= SOON:
            left = (now - self._began) * (1 - done) / done
            text += f", {seconds_in_words(left)} left"
        if self._is_terminal:
            bar = "#" * int(BAR * done)
            self._out.write(f"\r[{bar:<{BAR}}] {done:4.0%} {text}\x1b[K")
        else:
            self._out.write(f"{done:.0%}: {text}\n")
        self._out.flush()

    def end(self) -> None:
        """Remove the bar."""
        if self._is_terminal:
            self._out.write("\r\x1b[K")
            self._out.flush()
