"""Forwards questions to the insight program, over the local socket that it answers on.

The caller's rights are checked before, and what it may not read is taken out of the answer by the
routes here: the other program checks no caller.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import quote

import msgspec
import structlog
from fastapi import Request
from pydantic import ValidationError

from queue_insight.debug_api.question_caller import CALLER, caller_of
from queue_insight.insight_feed.http_over_socket import exchange
from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from queue_scheduler.debug_api.additions import OFF, ViewT
from shared_api.caller_shares import ShareLimits
from shared_api.debug_api.json_body import PostedBody
from shared_api.debug_api.question_statuses import code_of
from shared_api.process import http_exchange
from shared_api.process.caller_turns import CallerTurns
from shared_api.process.clock import Clock, SystemClock
from shared_api.process.http_exchange import AnswerTooLargeError, BrokenAnswerError
from shared_api.process.local_socket import PathTooLongError, connect_to
from shared_api.question_errors import Code, QuestionError

ANSWER_SECONDS: Final = 30.0
"""Time limit of an answer: half of what the caller is given."""

SLOW: Final = ShareLimits(
    # Half of the threads of the port, and two that wait: the others answer about now.
    places=4,
    waiting=2,
    patience_seconds=2.0,
    # Seconds are shared in the other program.
    rate=4.0,
    own_rate=1.0,
)
"""How many answers that may take seconds are waited for at once."""

GONE: Final = "the insight program does not answer: it is starting, or has ended; ask again"

log = structlog.get_logger("insight_link")


class _Problem(msgspec.Struct):
    detail: str = ""


class InsightLink:
    """Asks the insight program.

    Args:
        folder: Where its sockets are; None if it is off.
        clock: The time, for time limits.
    """

    def __init__(self, folder: Path | None, clock: Clock | None = None) -> None:
        self._path = None if folder is None else folder / ANSWERS_SOCKET
        self._clock = clock or SystemClock()
        self._turns = CallerTurns(SLOW, self._clock)

    @property
    def is_on(self) -> bool:
        """Whether there is to be an insight program."""
        return self._path is not None

    def ask(self, request: Request, kind: type[ViewT], body: PostedBody | None = None) -> ViewT:
        """Return the answer to a request of the same path and query.

        Args:
            request: The request that came.
            kind: The form of the answer.
            body: What is sent with it; None if it is a GET.

        Raises:
            QuestionError: UNAVAILABLE: it is off, starting, gone or late; or as it answers itself.
        """
        raw: bytes = request.scope["raw_path"]
        query: bytes = request.scope["query_string"]
        target = raw + (b"?" + query if query else b"")
        return self.ask_at(target.decode("latin-1"), kind, body, caller_of(request))

    def ask_slow(
        self, request: Request, kind: type[ViewT], body: PostedBody | None = None
    ) -> ViewT:
        """Return the answer to a request that may take seconds; see `ask`.

        Raises:
            QuestionError: As `ask`; and RESOURCE_EXHAUSTED: the caller has its share of the threads
                already.
        """
        with self._turns.take(caller_of(request)):
            return self.ask(request, kind, body)

    def ask_at(
        self, target: str, kind: type[ViewT], body: PostedBody | None = None, caller: str = ""
    ) -> ViewT:
        """Return the answer to a question of this program's own; see `ask`.

        Args:
            target: Path and query.
            kind: The form of the answer.
            body: What is sent with it; None if it is a GET.
            caller: The caller whose budget is charged.
        """
        # Quoted: names of users have any characters. As a key it need not be read.
        method, headers, content = "GET", {CALLER: quote(caller, safe="/:@")}, b""
        if body is not None:
            method, content = "POST", body.content
            headers["content-type"] = body.media_type
        forwarded = http_exchange.Request(method, target, headers, body=content)
        answer = self._answer(forwarded)
        if answer.status != HTTPStatus.OK:
            _pass_on(answer)
        try:
            return kind.model_validate_json(answer.body)
        except ValidationError as error:
            log.warning("the insight program answers in another form", error=str(error))
            raise _unavailable("the insight program is of another version") from error

    def ask_slow_at(self, target: str, kind: type[ViewT], body: PostedBody, caller: str) -> ViewT:
        """Return the answer to a question of this program's own that may take seconds.

        Raises:
            QuestionError: As `ask_slow`.
        """
        with self._turns.take(caller):
            return self.ask_at(target, kind, body, caller)

    def _answer(self, request: http_exchange.Request) -> http_exchange.Answer:
        if self._path is None:
            raise _unavailable(OFF)
        until = self._clock.monotonic() + ANSWER_SECONDS
        try:
            with connect_to(self._path, ANSWER_SECONDS) as connection:
                return exchange(connection, request, self._clock, until)
        except AnswerTooLargeError as error:
            raise QuestionError(Code.INTERNAL, str(error)) from error
        except TimeoutError as error:
            detail = f"the insight program took longer than {ANSWER_SECONDS:g} s: ask again"
            raise _unavailable(detail) from error
        except (OSError, BrokenAnswerError, PathTooLongError) as error:
            log.info("the insight program does not answer", error=str(error))
            raise _unavailable(GONE) from error


def _pass_on(answer: http_exchange.Answer) -> NoReturn:
    """Raise what the other program refuses with."""
    try:
        detail = msgspec.json.decode(answer.body, type=_Problem).detail
    except msgspec.DecodeError:
        detail = answer.body.decode(errors="replace")
    again = [int(value) for name, value in answer.headers if name.lower() == "retry-after"]
    raise QuestionError(code_of(answer.status), detail, again[0] if again else None)


def _unavailable(detail: str) -> QuestionError:
    return QuestionError(Code.UNAVAILABLE, detail)
