"""What was decided.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class LogEntry(Answer, frozen=True):
    """One decision: a unit was admitted, grew, has others evicted, or is refused for a new reason.

    `number` counts the calls of the scheduler's engine. `quota` is, of a refusal, the one whose
    limit it is. `other` is the unit that the message names, for example the one ahead. `unit` and
    `message` are "" if the caller may not read the unit's namespace; `others` counts the victims
    that are not named for that reason.
    """

    time: str = ""
    number: int = 0
    kind: str = ""
    unit: str = ""
    queue: str = ""
    quota: str = ""
    reason: str = ""
    message: str = ""
    other: str = ""
    victims: tuple[str, ...] = ()
    others: int = 0


class Log(Answer, frozen=True):
    """A page of what was decided, the newest first; `cursor` asks for the next page."""

    items: tuple[LogEntry, ...] = ()
    cursor: int | None = None
