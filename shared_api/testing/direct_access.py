"""Access past the fake API server's requests, by the path that tests of plugins import."""

from __future__ import annotations

from shared_api.fake_api_server.direct_access import (
    DirectAccess,
)

__all__ = [
    "DirectAccess",
]
