"""How many arenas the C library creates for threads that use memory at the same time."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from shared_api.process.malloc_arenas import MAX_ARENAS, limit_arenas

THREADS = 12
COUNT_ARENAS = f"""
    import ctypes, os, sys, tempfile, threading
    from shared_api.process.malloc_arenas import limit_arenas

    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    if sys.argv[1] == "limited":
        limit_arenas()
    barrier = threading.Barrier({THREADS})

    def use_memory():
        barrier.wait()
        kept = [bytes(2000) for _ in range(100)]
        barrier.wait()

    threads = [threading.Thread(target=use_memory) for _ in range({THREADS})]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arenas.xml")
        out = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
        libc.malloc_info(0, out)
        libc.fclose(out)
        print(open(path).read().count("<heap nr="))
"""


def count_arenas(how: str) -> int:
    program = [sys.executable, "-c", textwrap.dedent(COUNT_ARENAS), how]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60)
    return int(done.stdout)


def test_threads_share_few_arenas() -> None:
    if not limit_arenas():
        pytest.skip("this C library has no arenas that could be limited")
    assert count_arenas("as it is") > MAX_ARENAS, "without a limit there are more"
    assert count_arenas("limited") <= MAX_ARENAS
