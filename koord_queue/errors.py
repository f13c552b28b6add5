"""What goes wrong, as one sentence for the user and a next step."""

from __future__ import annotations

from typing import Final

from shared_api.exit_codes import EXIT_USAGE

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_USAGE", "CommandError"]

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
"""128 and SIGINT, as shells report it."""


class CommandError(Exception):
    """A command cannot do what it was asked for.

    Attributes:
        message: A sentence without a period at its end.
        next_step: What the user can do about it, as a sentence; "" if nothing is known.
        exit_code: The exit code of the program.
    """

    def __init__(self, message: str, next_step: str = "", exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.exit_code = exit_code
