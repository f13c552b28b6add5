"""Writes a trouble into the log when it begins and when it ends, not each time it is met."""

from __future__ import annotations

import structlog


class TroubleLog:
    """What is wrong now, by subject. Callable from any thread: at most a line is repeated.

    Args:
        component: As which part of the program it logs.
    """

    def __init__(self, component: str) -> None:
        self._log = structlog.get_logger(component)
        self._told: dict[str, str] = {}

    def begin(self, subject: str, text: str) -> None:
        """Log a trouble, unless it is the one that was logged last about its subject."""
        if self._told.get(subject) != text:
            self._log.warning(text, subject=subject)
        self._told[subject] = text

    def end(self, subject: str) -> None:
        """Log that a subject is fine again, if it was not."""
        if self._told.pop(subject, ""):
            self._log.info("fine again", subject=subject)
