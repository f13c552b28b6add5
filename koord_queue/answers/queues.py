"""Where queues stand.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.current_unit import CurrentUnit
from koord_queue.answers.decoding import Answer
from koord_queue.answers.refusal import Refusal


class Queue(Answer, frozen=True):
    """One queue.

    `quotas` are the one of the queue's name, those that its annotation lists ("*" for all), and
    those of its pending and admitted units. `pending` includes units on hold. `head` is the first
    pending unit, without those that ask for more than their quota may ever have and hold back no
    others; null also if the caller may not read its namespace. `last_refusal` is the refusal of the
    first refused unit; if there is none, of a unit on hold; of a stopped queue, that it is stopped.
    `stop_policy` is the one in force, `backfill` whether the queue asks for it, `max_priority` the
    ceiling for its units, `problems` what cannot be parsed in its annotations. `share_used` is set
    where queues take turns by use (the setting `fairTurns`): how many times its share its quota has
    used; of several quotas, the one that has used the least.
    """

    name: str = ""
    policy: str = ""
    stop_policy: str = ""
    backfill: bool = False
    max_priority: int | None = None
    problems: tuple[str, ...] = ()
    priority: int = 0
    quotas: tuple[str, ...] = ()
    pending: int = 0
    admitted: int = 0
    head: CurrentUnit | None = None
    last_refusal: Refusal | None = None
    share_used: float | None = None


class FairAccount(Answer, frozen=True):
    """What one account has used of its share, and which units it has in the queue.

    `level` is between what it is compared: user, group or namespace. Where groups are compared
    first, a user has a `group`, and is compared with the other users of that. `times_share`: what
    it has used, divided by what those beside it have used on average by their weights; null if its
    weight is 0, which comes after all others. `namespaces` are those of its units, also of former
    ones; "" among them stands for some that are not known any more.
    """

    level: str = ""
    name: str = ""
    group: str = ""
    namespaces: tuple[str, ...] = ()
    weight: int = 0
    times_share: float | None = None
    pending: int = 0
    running: int = 0


class FairAccounts(Answer, frozen=True):
    """The accounts of a queue that have used the most of their shares, and the least.

    The most comes first; `total` counts all. `others` counts those that are left out: there are too
    many, or the caller may not read the units of all their namespaces.
    """

    total: int = 0
    items: tuple[FairAccount, ...] = ()
    others: int = 0
