"""Which cluster is asked, and as whom."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """The options that all commands have."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    server: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    system_namespace: str = "koord-queue"
