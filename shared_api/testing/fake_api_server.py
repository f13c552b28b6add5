"""The fake API server, at the import path for tests of plugins."""

from __future__ import annotations

from shared_api.fake_api_server.server import (
    BOOKMARK_SECONDS,
    JOURNAL_LENGTH,
    FakeApiServer,
    JournalEntry,
)

__all__ = [
    "BOOKMARK_SECONDS",
    "JOURNAL_LENGTH",
    "FakeApiServer",
    "JournalEntry",
]
