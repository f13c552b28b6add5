"""An event when the insight program stops to record, and when it goes on.

That program cannot write one: it has no account at the API server. So the scheduler asks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from queue_insight.insight_feed.http_over_socket import exchange
from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from queue_scheduler.decision import Notice
from shared_api.objects.meta import Uid
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import AnswerTooLargeError, BrokenAnswerError, Request
from shared_api.process.local_socket import connect_to

POLL_SECONDS: Final = 10.0
"""Between two questions: shorter than the pause after which recording is tried again."""

ANSWER_SECONDS: Final = 5.0

REPEAT_SECONDS: Final = 1800.0
"""How often it is said again that nothing is recorded: an API server keeps events for an hour."""

_NUMBER: Final = re.compile(r"[0-9.]+")
"""What changes in a reason that stays: how much of a disk is free."""

STOPPED: Final = "RecordStopped"
RESUMED: Final = "RecordResumed"

log = structlog.get_logger("record_watch")


class OwnPod(NamedTuple):
    """The pod that the program runs in; `uid` is "" while it is not known."""

    key: str
    uid: Uid


class _Record(msgspec.Struct, rename="camel"):
    """What the answer says of the record."""

    state: str = ""
    reason: str = ""
    complete_from: datetime | None = None


class _Answer(msgspec.Struct):
    record: _Record


class RecordWatch:
    """Polls the insight program for the state of its record.

    Args:
        folder: Where the sockets of the insight program are.
        is_connected: Returns whether that program follows; otherwise it is not polled.
        report: Takes events.
        find_pod: Returns the pod to record events on.
        clock: The time, for time limits.
    """

    def __init__(
        self,
        folder: Path,
        is_connected: Callable[[], bool],
        report: Callable[[Notice], None],
        find_pod: Callable[[], OwnPod],
        clock: Clock,
    ) -> None:
        self._path = folder / ANSWERS_SOCKET
        self._is_connected = is_connected
        self._report = report
        self._find_pod = find_pod
        self._clock = clock
        self._reported = ""  # why nothing is recorded, as the last event has it, without numbers
        self._reported_at = 0.0

    def step(self) -> float:
        """Fetch the state of the record and report its changes; return the seconds to rest."""
        record = self._fetch_record() if self._is_connected() else None
        if record is None:
            return POLL_SECONDS
        if record.state == "stopped":
            reason = record.reason or "the insight program does not say why"
            now, kind = self._clock.monotonic(), _NUMBER.sub("", reason)
            if kind != self._reported or now - self._reported_at >= REPEAT_SECONDS:
                self._reported, self._reported_at = kind, now
                note = f"decisions are not recorded: {reason}; it is tried again"
                self._send(STOPPED, note, warning=True)
        elif self._reported and record.complete_from is not None:
            self._reported = ""
            since = record.complete_from.isoformat()
            self._send(RESUMED, f"decisions are recorded again, since {since}", warning=False)
        return POLL_SECONDS

    def _fetch_record(self) -> _Record | None:
        until = self._clock.monotonic() + ANSWER_SECONDS
        request = Request("GET", "/debug/insight", {})
        try:
            with connect_to(self._path, ANSWER_SECONDS) as connection:
                answer = exchange(connection, request, self._clock, until)
            return msgspec.json.decode(answer.body, type=_Answer).record
        except (OSError, BrokenAnswerError, AnswerTooLargeError, msgspec.DecodeError) as error:
            log.info("the insight program does not say whether it records", error=str(error))
            return None

    def _send(self, reason: str, note: str, *, warning: bool) -> None:
        pod = self._find_pod()
        self._report(
            Notice(kind="Pod", key=pod.key, uid=pod.uid, reason=reason, note=note, warning=warning)
        )
