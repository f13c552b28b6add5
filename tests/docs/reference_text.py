"""Markdown tables, and texts that may stand in their cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def plain(text: str) -> str:
    """Return a text of the sources as Markdown that shows it as it is."""
    return _escaped(" ".join(text.split()))


def code(text: str) -> str:
    """Return a text as code, which may contain backquotes; "" remains empty."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def prose(text: str) -> str:
    """Return a text whose parts in backquotes are code, and whose other parts are `plain`."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_<>\[\]{}$~])", r"\\\1", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
