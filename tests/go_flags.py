"""The spellings of flags in upstream's programs, which are written in Go."""

from __future__ import annotations


def spellings_in_go(name: str, value: str, *, is_switch: bool) -> list[list[str]]:
    """Return the arguments for this flag with this value; a switch may have no value."""
    spellings = []
    for flag in (f"--{name}", f"-{name}"):
        spellings += [[f"{flag}={value}"], [flag] if is_switch else [flag, value]]
    return spellings
