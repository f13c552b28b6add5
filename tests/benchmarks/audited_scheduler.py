"""The scheduler with `--audit-every=SECONDS` behind its own flags; 0: it does not audit."""

from __future__ import annotations

import sys
from typing import Final

from queue_scheduler.__main__ import main
from queue_scheduler.unit_controllers import self_audit

FLAG: Final = "--audit-every="
NEVER_SECONDS: Final = 1e6

if __name__ == "__main__":
    seconds = float(sys.argv.pop().removeprefix(FLAG))
    vars(self_audit)["ROUND_SECONDS"] = seconds or NEVER_SECONDS
    main()
