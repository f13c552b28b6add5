"""What goes wrong with a dump, and with a question to it."""

from __future__ import annotations

from queue_insight.dump.codec import DumpError

__all__ = ["AnswerError", "DumpError"]


class AnswerError(Exception):
    """A question cannot be answered; the message is a sentence."""
