"""The scheduler, with the names of its threads where `/proc` shows them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from queue_scheduler.__main__ import main

COMM_BYTES: Final = 15
"""Longest name of a thread that the kernel keeps."""

_run = threading.Thread.run


def _run_named(thread: threading.Thread) -> None:
    shown = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    shown.write_text(thread.name[:COMM_BYTES], encoding="ascii")
    _run(thread)


if __name__ == "__main__":
    vars(threading)["Thread"].run = _run_named
    main()
