"""The flags of the shadow mode."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from queue_scheduler.configuration import LEASE, Flags
from shared_api.program_flags import FlagError, ProgramFlags, parse_bool
from shared_api.quantity import QuantityError, amount

SHADOW_LEASE: Final = "koord-queue-shadow"

SHADOW_RECORD_LIMIT: Final = "256Mi"
"""A job takes about 1 KiB of it, and some more of memory while the program runs."""


class ShadowFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the shadow mode.

    Attributes:
        folder: Where the record is.
        most_bytes: How large it may grow.
        objects: A file with quotas, queues and places; None if they are read from the cluster.
        kinds: Keys of the kinds of jobs that are followed.
    """

    folder: Path
    most_bytes: int
    objects: Path | None
    kinds: tuple[str, ...]


def add_shadow_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the shadow mode."""
    add = parser.add_argument_group("shadow mode").add_argument
    add(
        "--shadow",
        nargs="?",
        const="true",
        default="false",
        help="watch the jobs of a cluster and record them, decide nothing and write nothing",
    )
    add("--shadow-record-dir", default="", help="folder of the record")
    add(
        "--shadow-record-limit",
        default=SHADOW_RECORD_LIMIT,
        help="when the record is that large nothing more is recorded (default: %(default)s)",
    )
    add(
        "--shadow-objects",
        default="",
        help="file with quotas, queues and places (default: the quotas and queues of the cluster)",
    )
    add(
        "--shadow-kinds",
        default="job",
        help="kinds of jobs that are followed, such as job,pytorchjob,pod (default: %(default)s)",
    )


def read_shadow_flags(flags: Flags) -> ShadowFlags | None:
    """Return what is asked of the shadow mode; None: the scheduler decides.

    Raises:
        FlagError: A value is invalid or missing, or a flag does not go with this mode.
    """
    got = flags.parsed
    if not parse_bool("--shadow", got.shadow):
        return None
    if not got.shadow_record_dir:
        raise FlagError("--shadow needs --shadow-record-dir: what is seen is written there")
    if got.insight_socket_dir:
        raise FlagError("--shadow goes without --insight-socket-dir: it does not serve the page")
    if flags.program.metrics_secure:
        raise FlagError("--shadow goes without --metrics-secure: to review a token is a write")
    try:
        most = amount("memory", got.shadow_record_limit)
    except QuantityError as error:
        raise FlagError(f"--shadow-record-limit: {error}") from error
    return ShadowFlags(
        folder=Path(got.shadow_record_dir),
        most_bytes=most,
        objects=Path(got.shadow_objects) if got.shadow_objects else None,
        kinds=tuple(each.strip() for each in got.shadow_kinds.split(",") if each.strip()),
    )


def with_own_lease(flags: ProgramFlags) -> ProgramFlags:
    """Return the flags with the shadow's own Lease: it must not stand in for a scheduler."""
    if flags.lease_name != LEASE:
        return flags
    return msgspec.structs.replace(flags, lease_name=SHADOW_LEASE)
