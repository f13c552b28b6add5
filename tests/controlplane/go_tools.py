"""Programs of others that tests run, each built once from a Go module, beside the control plane.

``require_tool(ACTIONLINT)`` returns the linter of workflows, ``require_tool(KREW)`` kubectl's
manager of plugins, ``require_tool(KOORD_SCHEDULER)`` Koordinator's scheduler. The last one has a
`main` of its own in its module's folder, with only the plugins that the tests are about.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from tests.controlplane import binaries
from tests.controlplane.binaries import Binary, build, missing_in, pinned_version
from tests.controlplane.tool_cache import (
    BinariesUnavailable,
    Report,
    cache_folder,
    report_to_stderr,
)

ACTIONLINT: Final = Binary(
    name="actionlint",
    module=binaries.ACTIONLINT,
    package="github.com/rhysd/actionlint/cmd/actionlint",
    version_arguments=("-version",),
    build_seconds=20,
)
KREW: Final = Binary(
    name="krew",
    module=binaries.KREW,
    package="sigs.k8s.io/krew/cmd/krew",
    version_arguments=("version",),
    build_seconds=60,
)
KOORD_SCHEDULER: Final = Binary(
    name="koord-scheduler",
    module=binaries.KOORDINATOR,
    package=".",
    version_arguments=("--version",),
    build_seconds=300,
)


def find_or_build_tool(tool: Binary, report: Report = report_to_stderr) -> Path:
    """Return a program from the cache; build it if it is not there.

    Raises:
        BinariesUnavailable: It cannot be built; the message has the reason.
    """

    def folder_in(cache: Path) -> Path:
        return cache / f"{tool.name}-{pinned_version(tool.module)}"

    cached = folder_in(cache_folder())
    folder = build([tool], folder_in, report) if missing_in(cached, [tool]) else cached
    return folder / tool.name


@functools.cache
def _outcome(tool: Binary) -> Path | BinariesUnavailable:
    try:
        return find_or_build_tool(tool)
    except BinariesUnavailable as error:
        return error


def require_tool(tool: Binary) -> Path:
    """Return a program, with one search or build per process.

    Raises:
        BinariesUnavailable: See `find_or_build_tool`.
    """
    found = _outcome(tool)
    if isinstance(found, BinariesUnavailable):
        raise found
    return found
