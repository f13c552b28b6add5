"""The version of Koord-Queue. It imports nothing, so the command line can show it at once."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
