"""Finding a real prometheus and promtool, or building them once from Go modules.

Those of a package manager are taken if both are in one folder of `$PATH` and new enough (Debian:
`apt install prometheus`). Otherwise they are built from the pin in `modules/prometheus/go.mod`, as
the control plane is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import (
    MODULE_FOLDERS,
    PROMETHEUS,
    Binary,
    build,
    missing_in,
    pinned_version,
    version_answer,
)
from tests.controlplane.go_toolchain import parse_go_version
from tests.controlplane.tool_cache import (
    Report,
    cache_folder,
    remember_outcome,
    report_to_stderr,
)

HOW_TO_GET: Final = "Debian and Ubuntu: apt install prometheus"
NO_DISCOVERY: Final = "remove_all_sd"
"""Leaves out the clients of clouds, a third of what is to be compiled: tests name their targets."""

OLDEST: Final = (2, 42)
"""Debian 12 has this one."""


def _tool(name: str, build_seconds: int) -> Binary:
    return Binary(
        name=name,
        module=PROMETHEUS,
        package=f"{PROMETHEUS}/cmd/{name}",
        version_arguments=("--version",),
        build_seconds=build_seconds,
        tags=NO_DISCOVERY,
    )


TOOLS: Final = (_tool("prometheus", 150), _tool("promtool", 30))


def find_or_build_prometheus(report: Report = report_to_stderr) -> Path:
    """Return a folder with prometheus and promtool: in the cache, on PATH, or built now.

    Raises:
        BinariesUnavailable: There are none and they cannot be built; the message has the reason.
    """
    cached = folder_in(cache_folder())
    if not missing_in(cached, TOOLS):
        return cached
    for entry in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        folder = Path(entry)
        if not missing_in(folder, TOOLS) and _are_new_enough(folder):
            return folder.absolute()
    return build(TOOLS, folder_in, report)


require_prometheus = remember_outcome(find_or_build_prometheus)
"""`find_or_build_prometheus`, once per process."""


def folder_in(cache: Path) -> Path:
    """Return the folder for the pinned version; it may not exist yet."""
    return cache / f"{MODULE_FOLDERS[PROMETHEUS]}-{pinned_version(PROMETHEUS)}"


def _are_new_enough(folder: Path) -> bool:
    return all(parse_go_version(version_answer(folder, tool)) >= OLDEST for tool in TOOLS)
