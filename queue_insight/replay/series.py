"""An amount over time, as averages of equal steps."""

from __future__ import annotations


class Series:
    """Averages an amount that changes at times which only grow.

    Args:
        step: Seconds of one step.
    """

    __slots__ = ("_at", "_level", "_step", "_sums")

    def __init__(self, step: float) -> None:
        self._step = step
        self._sums: list[float] = []
        self._at = 0.0
        self._level = 0

    @property
    def level(self) -> int:
        """The amount now."""
        return self._level

    def change(self, at: float, by: int) -> None:
        """Change the amount at a time, in seconds from the beginning."""
        if self._level:
            self._fill(at)
        self._at = at
        self._level += by

    def averages(self, until: float) -> list[float]:
        """Return the average of each step up to a time; the last step may be shorter."""
        self.change(until, 0)
        step, sums = self._step, self._sums
        count = max(1, -(-int(until) // int(step)))
        widths = [step] * (count - 1) + [max(until - step * (count - 1), 1.0)]
        padded = sums + [0.0] * (count - len(sums))
        return [total / width for total, width in zip(padded, widths, strict=False)]

    @property
    def total(self) -> float:
        """The amount times seconds, up to the last change."""
        return sum(self._sums)

    def _fill(self, until: float) -> None:
        step, sums, at = self._step, self._sums, self._at
        place = int(at // step)
        while at < until:
            end = min(until, (place + 1) * step)
            if len(sums) <= place:
                sums.extend([0.0] * (place + 1 - len(sums)))
            sums[place] += self._level * (end - at)
            at, place = end, place + 1
