"""When units must not run.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Window(Answer, frozen=True):
    """One window: from `start` until before `end`."""

    start: str = ""
    end: str = ""


class RunningInto(Answer, frozen=True):
    """A unit that still runs when a window begins.

    `ends` is when it ends by what it declares, "" if it declares no time.
    """

    namespace: str = ""
    name: str = ""
    queue: str = ""
    quota: str = ""
    ends: str = ""


class Reservation(Answer, frozen=True):
    """One reservation.

    `ready`, `reason` and `message` are those of its condition Ready; the reason is "" until there
    is one. `all` and `quotas` say whose units it concerns, `at_start` what becomes of units that
    still run when a window begins (`Continue` or `Evict`). `windows` are the present one and the
    next ones, 16 at most; all of this by the last valid spec, if the present one cannot be read.

    `runs_into` is how many units run into the first of these windows, by what they declare: in a
    window, all that run. `units` are the first of them: those that declare no time, then those that
    end last. `others` counts the rest: there are too many, or the caller may not read their
    namespaces. `waiting` is how many pending units wait for a window of this reservation.
    """

    name: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    all: bool = False
    quotas: tuple[str, ...] = ()
    at_start: str = ""
    windows: tuple[Window, ...] = ()
    runs_into: int = 0
    units: tuple[RunningInto, ...] = ()
    others: int = 0
    waiting: int = 0


class ReservationPage(Answer, frozen=True):
    """Reservations by name; `leader` says whether this replica decides or only follows."""

    leader: bool = False
    total: int = 0
    offset: int = 0
    limit: int = 0
    items: tuple[Reservation, ...] = ()
