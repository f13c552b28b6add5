"""Exit codes that all programs have in common."""

from __future__ import annotations

from typing import Final

EXIT_USAGE: Final = 2
"""A flag, the configuration or an address is not valid, or a package is missing; one line on
standard error says which. click exits so as well."""
