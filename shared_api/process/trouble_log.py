"""Logs a failure once when it begins and once when it ends, not at each repetition."""

from __future__ import annotations

import structlog


class TroubleLog:
    """Remembers the current failure of each subject.

    Callable from any thread; two threads at once may log one line twice.

    Args:
        component: The name of the logger.
    """

    def __init__(self, component: str) -> None:
        self._log = structlog.get_logger(component)
        self._logged: dict[str, str] = {}

    def begin(self, subject: str, text: str) -> None:
        """Log a failure, unless the last one logged about its subject has the same text."""
        if self._logged.get(subject) != text:
            self._log.warning(text, subject=subject)
        self._logged[subject] = text

    def end(self, subject: str) -> None:
        """Log that a subject is fine again, if it was not."""
        if self._logged.pop(subject, ""):
            self._log.info("fine again", subject=subject)
