"""Which units have no forecast, and why: the one rule of all that shows forecasts. Pure.

A forecast of a unit that never starts would only say "later than the horizon", and one that is made
before runs of the kind have ended is the model's prior. The model itself has no such threshold: it
forecasts every unit, and what became of that corrects later forecasts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from queue_scheduler.decision import Refusal
from queue_scheduler.refusal_texts import stable_message
from shared_api.unit_problems import reason_to_act

LEAST_RUNS: Final = 5
"""Finished runs from which on times are told, by default. A group borrows 16 runs of the next
larger one (``run_times``). So after five, even if no other run has ended, a third or less of what
is believed of that kind is the prior: (16 / 21) to the power of the four or five groups."""


class Outlook(StrEnum):
    """What can be told of a unit's start."""

    TIMES = "times"
    """When it starts."""
    NOT_KNOWN_YET = "notKnownYet"
    """Too few runs of its kind have ended."""
    NEVER_AS_IS = "neverAsIs"
    """It does not start until a user changes the unit, its quota or its queue."""


class NoForecast(NamedTuple):
    """Why no times are told of a unit.

    Attributes:
        outlook: Which of the reasons it is.
        brief: In a few words, for a cell of a table.
        text: The same as the rest of a sentence about the unit.
    """

    outlook: Outlook
    brief: str
    text: str


def why_no_forecast(refusal: Refusal | None, runs: int, least: int) -> NoForecast | None:
    """Return why a unit that waits has no forecast, or None if it has one.

    Args:
        refusal: Why it waits now, or None if that is not known, or it is its turn.
        runs: How many runs of its kind have ended.
        least: How many runs a forecast needs.
    """
    if refusal is None:
        return not_known_yet(runs, least)
    blocked = never_as_is(refusal.reason.value, stable_message(refusal))
    return blocked or not_known_yet(runs, least)


def never_as_is(reason: str, message: str) -> NoForecast | None:
    """Return that a unit does not start as things are, or None if its reason may end by itself."""
    if not reason_to_act(reason):
        return None
    text = f"does not start as things are: {message} ({reason})"
    return NoForecast(Outlook.NEVER_AS_IS, "not as things are", text)


def not_known_yet(runs: int, least: int) -> NoForecast | None:
    """Return that too few runs have ended, or None if there are enough."""
    if runs >= least:
        return None
    text = f"not known yet: {runs} of {least} runs"
    return NoForecast(Outlook.NOT_KNOWN_YET, text, text)
