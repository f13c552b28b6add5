"""Runs the command line with the packages beside this file: ``start.py TAG NAME [ARGUMENT ...]``.

TAG is the folder of compiled packages, such as "cp313", and NAME what was called.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Put the packages on the path, and call what the name says."""
    tag, *sys.argv = sys.argv[1:]
    packages = Path(__file__).resolve().parent / "lib"
    sys.path[:0] = [str(packages / tag), str(packages / "common")]
    if sys.argv[0].startswith("kubectl_complete-"):
        from koord_queue.cli.completion import complete_for_kubectl as run  # noqa: PLC0415 - as above
    else:
        from koord_queue.cli.app import main as run  # noqa: PLC0415 - the same
    run()


if __name__ == "__main__":
    main()
