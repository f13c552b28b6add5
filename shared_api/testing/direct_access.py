"""Access to the fake API server without requests, at the import path for tests of plugins."""

from __future__ import annotations

from shared_api.fake_api_server.direct_access import DirectAccess

__all__ = [
    "DirectAccess",
]
