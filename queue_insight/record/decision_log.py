"""What was decided, as entries of the log that users read. Pure.

An entry is made when a unit starts, grows, has others evicted, or is refused for another reason
than before. Of equal units that wait in one queue only the one that is asked is refused, and so
has the entry.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue, Growth, Preempt, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.refusal_texts import NAMES_UNIT, full_message

MAX_KNOWN: Final = 200_000
"""Units whose last refusal is remembered, at some 200 bytes; above that, all are forgotten."""


class LogKind(StrEnum):
    """What was decided."""

    ADMITTED = "Admitted"
    GREW = "Grew"
    EVICTS = "Evicts"
    REFUSED = "Refused"


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision.

    Attributes:
        wall: When, in seconds since the epoch.
        number: The number of the call.
        kind: What was decided.
        unit: `namespace/name`.
        uid: The unit's uid.
        queue: Its queue.
        quota: Its quota; of a refusal, the one whose limit it is.
        reason: Why; "" for an admission.
        message: The same in words, with numbers.
        other: The unit that `message` names, such as the one ahead; "" if it names none.
        victims: The units to evict.
    """

    wall: float
    number: int
    kind: LogKind
    unit: str
    uid: str = ""
    queue: str = ""
    quota: str = ""
    reason: str = ""
    message: str = ""
    other: str = ""
    victims: tuple[str, ...] = ()


class DecisionLog:
    """Makes entries of what an engine answers; a repeated refusal makes none."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, str, str]] = {}

    def entry_of(self, call: EngineCall, answer: object, engine: Engine) -> LogEntry | None:
        """Return the entry of a call, or None; `engine`: after the call."""
        if call.name == Engine.on_queue_unit_gone.__name__:
            self._refused.pop(call.args[0].metadata.uid, None)
        if not isinstance(answer, Dequeue | Growth | Preempt | Refused):
            return None
        record = engine.record(answer.unit)
        uid = "" if record is None else record.uid
        info = None if record is None else record.info
        entry = LogEntry(
            wall=call.wall,
            number=call.number,
            kind=_KINDS[type(answer)],
            unit=answer.unit,
            uid=uid,
            queue="" if info is None else info.queue,
            quota="" if info is None else info.quota,
        )
        if isinstance(answer, Dequeue | Growth):
            self._refused.pop(uid, None)
            return entry
        refusal = answer.refusal
        if isinstance(answer, Refused) and not self._is_news(
            uid, (refusal.reason, refusal.quota, refusal.resource)
        ):
            return None
        return msgspec.structs.replace(
            entry,
            quota=refusal.quota or entry.quota,
            reason=answer.reason if isinstance(answer, Preempt) else refusal.reason.value,
            message=full_message(refusal),
            other=refusal.other if refusal.reason in NAMES_UNIT else "",
            victims=tuple(v.unit for v in answer.victims) if isinstance(answer, Preempt) else (),
        )

    def _is_news(self, uid: str, why: tuple[str, str, str]) -> bool:
        if self._refused.get(uid) == why:
            return False
        if len(self._refused) >= MAX_KNOWN:
            self._refused.clear()
        self._refused[uid] = why
        return True


_KINDS: Final[dict[type, LogKind]] = {
    Dequeue: LogKind.ADMITTED,
    Growth: LogKind.GREW,
    Preempt: LogKind.EVICTS,
    Refused: LogKind.REFUSED,
}
