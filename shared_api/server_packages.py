"""What the programs import of other packages: all that they need, and nothing for the terminal.

`pip install koord-queue` installs the command line alone, and makes the programs' scripts, too:
then a program says in one sentence which package it misses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final, cast

from shared_api.exit_codes import EXIT_USAGE

INSTALL: Final = "pip install 'koord-queue[server]'"
PACKAGES: Final = frozenset(
    {"cryptography", "fastapi", "prometheus_client", "starlette", "tzdata", "uvicorn"}
)
"""The extra `server` in pyproject.toml, as modules; `zoneinfo` reads files of tzdata."""

TERMINAL: Final = "rich"
"""The command line's package. structlog imports it wherever it is installed, for tracebacks that no
program writes: 80 modules, 4 MB of memory."""


@contextmanager
def needed() -> Iterator[None]:
    """Import what a program needs within this; end the process if a package is missing."""
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    # Only meanwhile, and not if it is there: a process of tests has the command line as well.
    is_kept_out = TERMINAL not in modules
    if is_kept_out:
        modules[TERMINAL] = None  # importing it is a ModuleNotFoundError
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in PACKAGES:
            raise
        sys.stderr.write(
            f"error: this program needs the packages of the server, and {error.name} is missing\n"
            f"Install them: {INSTALL}\n"
        )
        sys.exit(EXIT_USAGE)
    finally:
        if is_kept_out:
            del modules[TERMINAL]
