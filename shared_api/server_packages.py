"""Says in one sentence that the packages of the programs are not installed.

`pip install koord-queue` installs the command line alone, and makes the programs' scripts, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shared_api.exit_codes import EXIT_USAGE

INSTALL: Final = "pip install 'koord-queue[server]'"
PACKAGES: Final = frozenset(
    {"cryptography", "fastapi", "prometheus_client", "starlette", "uvicorn"}
)
"""The extra `server` in pyproject.toml, as modules."""


@contextmanager
def needed() -> Iterator[None]:
    """Import what a program needs within this; end the process if a package is missing."""
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
