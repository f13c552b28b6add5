"""Where queues stand."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Queue(Answer, frozen=True):
    """One queue."""

    name: str = ""
    policy: str = ""
    quotas: tuple[str, ...] = ()
    pending: int = 0
    admitted: int = 0
