"""Structured logs: each event with its fields is one line of JSON, or of text for a console.

Every module logs through ``structlog.get_logger("<its noun>")``. ``configure_logs`` is
called once, by a program's ``main``: it sets format, level and stream, and routes the standard
library's loggers (uvicorn, the ``kubernetes`` package) to the same stream in the same format.

Every line has ``time``, ``level``, ``event`` and ``logger``; an error also has ``exception``, the
traceback as text. An event costs about 10 us; one below the level costs 3 us.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC
from typing import Any, Final, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from shared_api.process.clock import Clock

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""The values of ``--log-level``."""

QUIET_LIBRARIES: Final[Sequence[str]] = ("urllib3", "kubernetes.client.rest", "uvicorn.access")
"""At INFO and DEBUG they log a line per request, and request bodies with secrets in them."""

FIRST_KEYS: Final[Sequence[str]] = ("time", "level", "logger", "event")
"""Written before the other fields, so that raw lines are easy to read."""


class LogSettingError(ValueError):
    """The log format or level does not exist; the message names the choices."""


def configure_logs(
    *, log_format: str, level: str, clock: Clock, stream: TextIO | None = None
) -> None:
    """Set up logging for this process; a later call replaces an earlier one.

    Args:
        log_format: "json" or "console".
        level: A key of `LEVELS`; events below it are dropped.
        clock: Gives the time of each event.
        stream: Where to write; None is standard error.

    Raises:
        LogSettingError: The format or level does not exist.
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
        # stream: a cached logger would still write to the old one. Costs 2 us per event.
        cache_logger_on_first_use=False,
    )
    _route_standard_library(LEVELS[level])


class _NamedLogger(structlog.WriteLogger):
    """Writes to a stream, and has a name."""

    def __init__(self, stream: TextIO, name: str = "koord-queue") -> None:
        super().__init__(stream)
        self.name = name


class _ToStructlog(logging.Handler):
    """Passes records of the standard library's loggers to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one event, under the name of its logger."""
        # structlog knows only the five levels; a library may have its own between them.
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        try:
            structlog.get_logger(record.name).log(
                level, record.getMessage(), exc_info=record.exc_info
            )
        except (TypeError, ValueError, OSError):  # for one, arguments that do not fit the format
            self.handleError(record)


def _route_standard_library(level: int) -> None:
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(level)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        # Libraries such as uvicorn install their own handlers, which would print each line twice.
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
        # The default prints local variables, tokens among them, when "rich" is installed.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [*shared, console]


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    ordered: MutableMapping[str, Any] = {key: event[key] for key in FIRST_KEYS if key in event}
    ordered.update(event)
    try:
        return msgspec.json.encode(ordered, enc_hook=str).decode()
    except (OverflowError, TypeError, ValueError):
        # A lone surrogate, or an integer beyond 64 bits, as an absurd quantity is: a log call must
        # not fail on the input that it reports. The slower encoder accepts them all.
        return json.dumps(ordered, default=str, skipkeys=True)


def _wants_colors(target: TextIO) -> bool:
    """Return whether the stream is a terminal and the user has not asked for plain text."""
    try:
        return target.isatty() and "NO_COLOR" not in os.environ
    except (io.UnsupportedOperation, ValueError):
        return False
