"""How the server tells the application who asks, and the application asks what that may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared_api.authorization.caller import Caller
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import ResourceRight

CALLER: Final = "caller"
"""Key of the `Caller` in the state of a request: `scope["state"][CALLER]`."""

Judge = Callable[[Caller, ResourceRight], ReviewResult]
"""Returns whether a caller has a right; thread-safe, and may wait for the API server."""
