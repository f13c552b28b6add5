"""Limits how much freed memory the C library holds back for threads.

glibc opens an arena for each thread that allocates memory, up to eight per core, and memory that
was freed in one arena is not reused by another. A program with a thread for each watched kind lists
them all at startup; each page of a list takes some MB for a moment, and every arena keeps them: 57
MB of 245 in the controllers with 10,000 jobs of all kinds. Python runs one thread at a time, so two
arenas are enough.
"""

from __future__ import annotations

import ctypes
from typing import Final

M_ARENA_MAX: Final = -8
"""The number of the parameter. Source: malloc.h of glibc."""

MAX_ARENAS: Final = 2


def limit_arenas() -> bool:
    """Limit the number of arenas; return whether the C library supports that.

    Call it before any thread starts. Libraries other than glibc have no arenas, or no such limit.
    """
    set_parameter = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_parameter is not None and bool(set_parameter(M_ARENA_MAX, MAX_ARENAS))
