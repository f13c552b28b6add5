"""Gives freed memory back to the kernel.

A copy of an engine has cycles, which the garbage collector visits late in a process with many old
objects; and what is freed stays with the C library as long as anything above it is in use. After a
question that needed much for a moment, both are told to go on.
"""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect garbage, and give what is free back; all threads wait some hundredths of a second.

    Libraries other than glibc give back by themselves, or cannot be asked.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
