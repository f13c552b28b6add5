"""A process that ends a control plane whose tests died before they could.

Run as a program, never imported. It leads the process group that all programs of one control plane
join, and reads a pipe that the tests hold open: whatever way they die, the pipe ends. (The
alternative, PR_SET_PDEATHSIG, ends a child when the *thread* that started it ends: an API server
restarted by a short-lived thread would die with it.)
"""

import os
import shutil
import signal
import sys
import time

# etcd and the others leave within this when asked; the API server, which would wait for its
# watchers, is not waited for.
GRACE_SECONDS = 1.0


def main() -> None:
    """Waits for the end of stdin, then ends the whole group, itself included."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
