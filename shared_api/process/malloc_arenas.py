"""How much memory the C library keeps aside for threads.

For each thread that asks for memory glibc opens an arena, up to eight for each core, and what one
has used and freed serves no other. A program with a thread for each kind that it follows lists them
all at its start, each page of a list is some MB for a moment, and all of these moments stay in its
memory: 57 MB of 245 in the controllers with 10,000 jobs of all kinds. Python runs one thread at a
time, so two arenas do as well.
"""

from __future__ import annotations

import ctypes
from typing import Final

M_ARENA_MAX: Final = -8
"""The parameter's number. Source: malloc.h of glibc."""

MAX_ARENAS: Final = 2


def limit_arenas() -> bool:
    """Keep the arenas few, before there are threads; return whether the C library can do that.

    Others than glibc know no arenas, or no such limit.
    """
    set_parameter = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_parameter is not None and bool(set_parameter(M_ARENA_MAX, MAX_ARENAS))
