"""`python -m koord_queue`, and the console scripts."""

from __future__ import annotations

from koord_queue.cli.app import main

if __name__ == "__main__":
    main()
