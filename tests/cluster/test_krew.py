"""The archive for krew: the real krew installs it, and the real kubectl runs what it installed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.go_tools import KREW, require_tool
from tests.controlplane.tool_cache import BinariesUnavailable
from tests.release.krew import MANIFEST, PLATFORMS, build, name_of
from tests.release.versions import version

MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
SECONDS: Final = 120.0


@pytest.fixture(scope="module")
def environment(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Of a user with an empty home, who has kubectl, a Python, and the plugin by krew."""
    home = tmp_path_factory.mktemp("home")
    root = home / ".krew"
    here = [
        each
        for each in PLATFORMS
        if (each.os, each.arch) == ("linux", MACHINES[platform.machine()])
    ]
    try:
        krew = require_tool(KREW)
        build(home / "built", platforms=here, pythons=[PYTHON])
    except BinariesUnavailable as error:
        pytest.skip(f"needs krew, and the wheels of the lock: {error}")
    found = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(root / "bin"), str(controlplane_binaries), "/usr/bin:/bin"]),
        "KOORD_QUEUE_PYTHON": sys.executable,
    }
    archive = home / "built" / name_of(version(), here[0])
    files = [f"--manifest={home / 'built' / MANIFEST}", f"--archive={archive}"]
    run(found, str(krew), "install", *files)
    return found


def run(environment: dict[str, str], *command: str) -> str:
    """Run a command in the empty home, and return what it prints."""
    done = subprocess.run(
        command,
        env=environment,
        cwd=environment["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kubectl_runs_what_krew_installed(environment: dict[str, str]) -> None:
    printed = run(environment, "kubectl", "koord-queue", "version", "--client")
    assert printed.splitlines()[1].split() == ["command-line", version(), "-"]
    assert "Usage: kubectl koord-queue" in run(environment, "kubectl", "koord-queue", "--help")


def test_the_packages_are_those_of_the_archive(environment: dict[str, str]) -> None:
    """With -S, the packages of the tests' own environment are out of reach."""
    start = (
        "import sys; sys.argv[1:] = [sys.argv[1], 'x', 'version', '--client']\n"
        "import runpy, atexit\n"
        "atexit.register(lambda: print([m.__file__ for n, m in sys.modules.items()\n"
        "    if n in ('click', 'msgspec', 'koord_queue')]))\n"
    )
    store = Path(environment["HOME"], ".krew", "store", "koord-queue", f"v{version()}")
    code = f"{start}runpy.run_path({str(store / 'start.py')!r}, run_name='__main__')"
    tag = f"cp{PYTHON.replace('.', '')}"
    printed = run(environment, sys.executable, "-I", "-S", "-c", code, tag)
    files = printed.splitlines()[-1]
    assert files.count(str(store)) == 3


def test_kubectl_completes_after_the_link_of_the_caveats(environment: dict[str, str]) -> None:
    link = Path(environment["HOME"], ".krew", "bin", "kubectl_complete-koord_queue")
    link.symlink_to("kubectl-koord_queue")
    printed = run(environment, "kubectl", "__complete", "koord-queue", "vers")
    assert printed.splitlines()[0].split("\t")[0] == "version"
