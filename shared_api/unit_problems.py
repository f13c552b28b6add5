"""Units that need a user: one rule for `koord-queue check` and for the page. Pure.

A unit that waits for what will become free, or for its turn, is none of them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared_api.waiting_reasons import NEEDS_ACTION

LONG_WITHOUT_PODS: Final = timedelta(minutes=5)
"""Pulling an image or adding a node takes minutes; a job without pods for longer needs a look."""

WHERE_TO_LOOK: Final = "docs/debug-api.md, Why a unit waits"

_STUCK: Final = frozenset({"NoPods", "PodsUnschedulable"})
"""Reasons of the condition PodsReady with which it may be True: the pods were ready once."""


class Ready(NamedTuple):
    """What the condition PodsReady says.

    Attributes:
        status: `True`, `False` or `Unknown`.
        reason: Its reason.
        since: When its status changed last; None if it does not say.
    """

    status: str
    reason: str
    since: datetime | None


def reason_to_act(reason: str) -> str:
    """Return the reason of a unit that waits, if it lasts until a user acts; "" otherwise."""
    return reason if reason in NEEDS_ACTION else ""


def reason_without_pods(ready: Ready, now: datetime) -> str:
    """Return why the pods of an admitted unit do not run, if that has lasted; "" otherwise."""
    lasts = ready.since is not None and now - ready.since > LONG_WITHOUT_PODS
    is_stuck = ready.reason in _STUCK or ready.status == "False"
    return ready.reason if is_stuck and lasts else ""


def waiting_text(count: int, reason: str) -> str:
    """Return that units wait until a user acts, as a sentence without a period."""
    return f"1 unit waits with {reason}" if count == 1 else f"{count} units wait with {reason}"


def without_pods_text(reason: str) -> str:
    """Return that admitted units do not run, as a part of a sentence."""
    minutes = int(LONG_WITHOUT_PODS.total_seconds() // 60)
    return f"admitted for more than {minutes} minutes, {reason}"


def explain_command(key: str) -> str:
    """Return the command that explains a unit, `namespace/name`."""
    namespace, _, name = key.partition("/")
    return f"koord-queue explain unit/{name} -n {namespace}"
