"""The choice of cluster, namespace and credentials."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NAMESPACE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""The names that Kubernetes accepts for a namespace."""

SYSTEM_NAMESPACE: Final = "koord-queue"
"""Where Koord-Queue is installed, by default."""


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
    system_namespace: str = SYSTEM_NAMESPACE
