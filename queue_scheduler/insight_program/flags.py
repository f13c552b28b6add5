"""The command line of koord-queue-insight."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from shared_api.durations import DurationError, parse_seconds
from shared_api.program_flags import (
    FlagError,
    ProcessFlags,
    add_process_flags,
    read_process_flags,
    with_two_dashes,
)

PROGRAM: Final = "koord-queue-insight"

METRICS_ADDRESS: Final = ":8085"
HEALTH_ADDRESS: Final = ":8084"
"""Beside the scheduler and the admission checks, which have 8081 to 8083 and 10259 in the same
pod."""


FORECAST_INTERVAL: Final = "1m"
"""Shorter waits need no forecast."""


class InsightFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line.

    Attributes:
        process: What all programs have.
        socket_folder: Where the sockets are made.
        record_folder: Where the record is kept; None: nothing is recorded.
        forecast_seconds: The shortest time between two forecasts.
    """

    process: ProcessFlags
    socket_folder: Path
    record_folder: Path | None
    forecast_seconds: float


def parse_insight_flags(arguments: Sequence[str]) -> InsightFlags:
    """Return the parsed command line.

    Raises:
        FlagError: A value is not valid.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Answers what takes long, from a copy of the scheduler's engine.",
        allow_abbrev=False,
    )
    add_process_flags(parser, health_address=HEALTH_ADDRESS, metrics_address=METRICS_ADDRESS)
    parser.add_argument(
        "--socket-dir",
        required=True,
        help="folder of the sockets; the scheduler's --insight-socket-dir is the same",
    )
    parser.add_argument(
        "--record-dir",
        default="",
        help="folder of the record of what was decided (default: nothing is recorded)",
    )
    parser.add_argument(
        "--forecast-interval",
        default=FORECAST_INTERVAL,
        help="shortest time between two forecasts; they take a quarter of a core at most"
        " (default: %(default)s)",
    )
    got = parser.parse_args(with_two_dashes(arguments))
    return InsightFlags(
        process=read_process_flags(got),
        socket_folder=_folder("--socket-dir", got.socket_dir),
        record_folder=_folder("--record-dir", got.record_dir) if got.record_dir else None,
        forecast_seconds=_interval(got.forecast_interval),
    )


def _interval(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except DurationError as error:
        msg = f"--forecast-interval: {error}"
        raise FlagError(msg) from error
    if not seconds:
        msg = "--forecast-interval must be above 0"
        raise FlagError(msg)
    return seconds


def _folder(flag: str, text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        msg = f"{flag} {text!r} is no folder"
        raise FlagError(msg)
    return path
