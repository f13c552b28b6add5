"""Ctrl-C, and other signals that end the demo: as an exception, or noted until it is asked for."""

from __future__ import annotations

import signal
from typing import Final

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The user ends the demo. Not an Exception, so that no handler treats it as an error."""


class Interruption:
    """Handles the signals. For the main thread.

    At first it raises in whatever runs, since a start may take minutes. A handler that raises can
    leave a lock taken: `Popen.poll` between taking its lock and the `try` after it, and then each
    wait for that process lasts for ever. So it must only note the signal, once something looks at
    it often. Python also drops what a handler raises inside a finalizer.
    """

    def __init__(self) -> None:
        self._came = False
        self._raises = True

    def listen(self) -> None:
        """Handle the signals from now on."""
        for number in ENDING_SIGNALS:
            signal.signal(number, self._come)

    def note_only(self) -> None:
        """Raise nothing from now on but in `check`, which must be called often."""
        self._raises = False

    def check(self) -> None:
        """Raise the interruption if a signal has come."""
        if self._came:
            raise Interrupted

    def _come(self, _number: int, _frame: object) -> None:
        self._came = True
        # A second Ctrl-C must not interrupt the removal that the first one started.
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        if self._raises:
            raise Interrupted
