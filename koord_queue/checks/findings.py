"""What a check says about one part of an installation."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """It could not be looked at, usually for a missing right."""


class Finding(msgspec.Struct, frozen=True):
    """One sentence about one part, and what to do about it.

    Attributes:
        check: Name of the check.
        level: How bad it is.
        text: What was found, without a period.
        fix: A command, or a page of docs/; "" if there is nothing to do.
    """

    check: str
    level: Level
    text: str
    fix: str = ""


def ok(check: str, text: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, fix: str) -> Finding:
    """Return a finding of what may be wanted, or hurts some jobs only."""
    return Finding(check, Level.WARNING, text, fix)


def problem(check: str, text: str, fix: str) -> Finding:
    """Return a finding of what does not work."""
    return Finding(check, Level.PROBLEM, text, fix)


def unknown(check: str, text: str, fix: str = "") -> Finding:
    """Return a finding that a part could not be looked at."""
    return Finding(check, Level.UNKNOWN, text, fix)


def has_problems(findings: list[Finding], *, strict: bool = False) -> bool:
    """Return whether something does not work; `strict`: or could not be looked at."""
    bad = {Level.PROBLEM, Level.UNKNOWN} if strict else {Level.PROBLEM}
    return any(each.level in bad for each in findings)
