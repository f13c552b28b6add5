"""Logs: one event with fields, as a line of JSON or for a console.

Every module logs through ``structlog.get_logger("<its noun>")``. ``configure_logs`` is
called once, by a program's ``main``: it decides format, level and stream, and brings the standard
library's loggers (uvicorn, the ``kubernetes`` package) into the same stream and form.

Every line has ``time``, ``level``, ``event`` and ``logger``; an error has ``exception``, the
traceback as text. An event costs about 10 us, one below the level 3 us.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from shared_api.process.clock import Clock

LogFormat = Literal["json", "console"]

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""What ``--log-level`` takes."""

QUIET_LIBRARIES: Final[Sequence[str]] = ("urllib3", "kubernetes.client.rest", "uvicorn.access")
"""Their INFO and DEBUG are a line per request (and request bodies, with secrets in them)."""

FIRST_KEYS: Final[Sequence[str]] = ("time", "level", "logger", "event")
"""Written before the other fields, so that raw lines can be read by eye."""


class LogSettingError(ValueError):
    """A log format or level that does not exist; the message names the choices."""


def configure_logs(
    *, log_format: str, level: str, clock: Clock, stream: TextIO | None = None
) -> None:
    """Set up logging for this process; the last call counts.

    Args:
        log_format: "json" or "console".
        level: a key of `LEVELS`; what is below it is dropped.
        clock: says the time of every event.
        stream: where to; standard error when None.

    Raises:
        LogSettingError: No such format or level.
    """
    if log_format not in {"json", "console"}:
        raise LogSettingError(f"log format {log_format!r} is not one of: console, json")
    if level not in LEVELS:
        raise LogSettingError(f"log level {level!r} is not one of: {', '.join(LEVELS)}")
    target = sys.stderr if stream is None else stream
    structlog.configure(
        processors=_processors(log_format == "json", clock, _wants_colors(target)),
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *name: _NamedLogger(target, *name),
        # Loggers are made at import, before this call, and tests call it again with another
        # stream: a cached one would go on writing to the old. Costs 2 us an event.
        cache_logger_on_first_use=False,
    )
    _route_standard_library(LEVELS[level])


class _NamedLogger(structlog.WriteLogger):
    """Writes to a stream, and knows what it is called."""

    def __init__(self, stream: TextIO, name: str = "koord-queue") -> None:
        super().__init__(stream)
        self.name = name


class _ToStructlog(logging.Handler):
    """Hands records of the standard library's loggers to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one event, under its own logger's name."""
        # structlog knows the five levels only; a library may have its own between them.
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        try:
            structlog.get_logger(record.name).log(
                level, record.getMessage(), exc_info=record.exc_info
            )
        except (TypeError, ValueError, OSError):  # a record whose arguments do not fit its text
            self.handleError(record)


def _route_standard_library(level: int) -> None:
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(level)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        # uvicorn brings handlers of its own unless told otherwise; theirs would print twice.
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True


def _processors(as_json: bool, clock: Clock, colors: bool) -> list[Processor]:  # noqa: FBT001 - private, one caller
    def add_facts(logger: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["logger"] = logger.name
        moment = clock.now().astimezone(UTC)
        event["time"] = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
        return event

    shared: list[Processor] = [structlog.processors.add_log_level, add_facts]
    if as_json:
        return [*shared, structlog.processors.format_exc_info, _render_json]
    console = structlog.dev.ConsoleRenderer(
        colors=colors,
        timestamp_key="time",
        # The default prints local variables when "rich" is installed: tokens, among others.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [*shared, console]


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    ordered: MutableMapping[str, Any] = {key: event[key] for key in FIRST_KEYS if key in event}
    ordered.update(event)
    try:
        return msgspec.json.encode(ordered, enc_hook=str).decode()
    except (OverflowError, TypeError, ValueError):
        # A lone surrogate, or an integer beyond 64 bits, which an absurd quantity is: a log call
        # must not fail on the very input that it reports. The slower encoder takes them all.
        return json.dumps(ordered, default=str, skipkeys=True)


def _wants_colors(target: TextIO) -> bool:
    """Return whether the stream is a terminal, and the user has not asked for plain text."""
    try:
        return target.isatty() and "NO_COLOR" not in os.environ
    except (io.UnsupportedOperation, ValueError):
        return False
