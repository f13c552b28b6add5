"""Numbers that are drawn: each belongs to a seed, a path and a name. Pure.

No generator is advanced, so a number does not depend on what was drawn before it: the same job has
the same luck in two forecasts that differ in a setting (common random numbers), and noise is not
taken for an effect.
"""

from __future__ import annotations

from hashlib import blake2b
from statistics import NormalDist
from typing import Final

_STANDARD: Final = NormalDist()


def uniform(seed: int, path: int, name: str) -> float:
    """Return a number between 0 and 1, neither included."""
    text = f"{seed}/{path}/{name}".encode()
    number = int.from_bytes(blake2b(text, digest_size=6).digest(), "big")
    return (number + 0.5) / 2**48


def normal(seed: int, path: int, name: str) -> float:
    """Return a number of the standard normal distribution."""
    return _STANDARD.inv_cdf(uniform(seed, path, name))
