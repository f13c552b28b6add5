"""Files that exist on no disk, for libraries that read a secret from a path only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Give the path of a file in memory, which ends with the block.

    `ssl` reads a key from a path only. This one leads through /proc to this process's own
    descriptor: no other user can open it, and a crash leaves nothing behind.
    """
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
