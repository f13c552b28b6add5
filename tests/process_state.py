"""What a program sets in its process, put back after a test."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def process_as_before() -> Iterator[None]:
    """Restore signals, logs, the switching of threads, and what garbage collection leaves out."""
    handlers = [(each, signal.getsignal(each)) for each in (signal.SIGTERM, signal.SIGINT)]
    interval, root = sys.getswitchinterval(), logging.getLogger()
    loggers = root.handlers[:], root.level
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
        sys.setswitchinterval(interval)
        gc.unfreeze()
        root.handlers[:], root.level = loggers
        structlog.reset_defaults()
