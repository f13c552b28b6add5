"""The scheduler's flags, with those of the additions."""

from __future__ import annotations

from collections.abc import Sequence

from queue_scheduler.configuration import Flags, parse_flags
from queue_scheduler.setup.additions import load_additions


def parse_all_flags(arguments: Sequence[str]) -> Flags:
    """Parse the command line as the program does."""
    return parse_flags(arguments, groups=load_additions())
