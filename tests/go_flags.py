"""How upstream's programs, which are written in Go, let a flag be spelled."""

from __future__ import annotations


def spellings_in_go(name: str, value: str, *, is_switch: bool) -> list[list[str]]:
    """Return the arguments that mean this flag with this value; a switch may stand alone."""
    spellings = []
    for flag in (f"--{name}", f"-{name}"):
        spellings += [[f"{flag}={value}"], [flag] if is_switch else [flag, value]]
    return spellings
