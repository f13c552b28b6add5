"""Text that others have written, made harmless for a terminal."""

from __future__ import annotations

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text without control characters: a name or a message must not move the cursor."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else REPLACEMENT for each in text)
