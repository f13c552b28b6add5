"""A process that ends a control plane if its tests die before they do so.

Run as a program, never imported. It leads the process group of all programs of one control
plane, and reads a pipe that the tests hold open: however they die, the pipe ends. (The alternative,
PR_SET_PDEATHSIG, ends a child when the *thread* that started it ends: an API server restarted by a
short-lived thread would end with it.)
"""

import os
import shutil
import signal
import sys
import time

# etcd and the others end within this time after SIGTERM; the API server would wait for its
# watchers, so it is killed.
GRACE_SECONDS = 1.0


def main() -> None:
    """Wait for the end of stdin, then end the whole group, including itself."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
