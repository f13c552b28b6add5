"""Finding the six binaries of a control plane, or building them once.

All come from one folder, never from several: with a kubectl of the machine and an API server of
ours, a failing test would be hard to explain. The search order:

1. `$KUBEBUILDER_ASSETS`, which users of controller-runtime set;
2. the cache, in a folder named after the pinned versions, so that a new pin is a new folder;
3. each folder of `$PATH`;
4. if none has all of them, they are built from Go modules. The pins are `modules/*/go.mod`.

Kubernetes has several pins: `$KUBERNETES`, such as 1.34.4, chooses another than the one that tests
run with by default. Each version has a folder in the cache; they share etcd and kwok.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.controlplane.go_toolchain import (
    GoToolchain,
    GoVersion,
    find_or_install_go,
    parse_go_version,
)
from tests.controlplane.tool_cache import (
    BinariesUnavailable,
    Report,
    cache_folder,
    maker_lock,
    remember_outcome,
    report_to_stderr,
    tail,
)

MODULES = Path(__file__).with_name("modules")
KUBERNETES = "k8s.io/kubernetes"
ETCD = "go.etcd.io/etcd/server/v3"
KWOK = "sigs.k8s.io/kwok"
PROMETHEUS = "github.com/prometheus/prometheus"
ACTIONLINT = "github.com/rhysd/actionlint"
KREW = "sigs.k8s.io/krew"
KOORDINATOR = "github.com/koordinator-sh/koordinator"
MODULE_FOLDERS = {
    KUBERNETES: "kubernetes",
    ETCD: "etcd",
    KWOK: "kwok",
    PROMETHEUS: "prometheus",
    ACTIONLINT: "actionlint",
    KREW: "krew",
    KOORDINATOR: "koordinator",
}

KUBERNETES_CHOICE = "KUBERNETES"
"""The variable of the environment, and of make, that chooses a version of Kubernetes."""

# Measured: 3.7 GB of Go build cache, 1.4 GB of modules, 0.3 GB of Go, 0.4 GB of binaries.
BUILD_DISK_BYTES = 6 * 1024**3
# The longest build, kube-apiserver, took 3 minutes on 2 cores; this allows a machine ten times
# slower.
BUILD_SECONDS = 1800.0
STILL_BUILDING_SECONDS = 30.0
VERSION_ANSWER_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Binary:
    """One program: its source, and how it prints its version."""

    name: str
    module: str
    package: str
    version_arguments: tuple[str, ...]
    build_seconds: int
    """On 2 cores with empty caches, after those before it in its list (shared packages)."""
    tags: str = ""
    """Build tags."""


class UnknownKubernetes(BinariesUnavailable):
    """No `go.mod` pins the chosen version; the message lists those that are known."""


def _kubernetes(name: str, build_seconds: int, *version_arguments: str) -> Binary:
    return Binary(
        name=name,
        module=KUBERNETES,
        package=f"{KUBERNETES}/cmd/{name}",
        version_arguments=version_arguments or ("--version",),
        build_seconds=build_seconds,
    )


BINARIES = (
    Binary(
        name="etcd", module=ETCD, package=ETCD, version_arguments=("--version",), build_seconds=36
    ),
    _kubernetes("kube-apiserver", 170),
    _kubernetes("kube-controller-manager", 53),
    _kubernetes("kube-scheduler", 5),
    _kubernetes("kubectl", 20, "version", "--client"),
    Binary(
        name="kwok",
        module=KWOK,
        package=f"{KWOK}/cmd/kwok",
        version_arguments=("--version",),
        build_seconds=57,
    ),
)


def find_or_build(report: Report = report_to_stderr) -> Path:
    """Return the folder of all six binaries; build them if no folder has them.

    Args:
        report: called with a line for each step of a build.

    Raises:
        BinariesUnavailable: They do not exist and cannot be built; the message has the reason.
    """
    found = find(report)
    if found is not None:
        return found
    return build(BINARIES, pinned_folder, report, others=_folders_of_other_versions)


require_binaries = remember_outcome(find_or_build)
"""`find_or_build`, once per process."""


def find(report: Report = report_to_stderr) -> Path | None:
    """Return the first folder with all six in suitable versions, without a build, or None."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets:
        problem = problem_with(Path(assets))
        if problem is None:
            return Path(assets).absolute()
        report(f"KUBEBUILDER_ASSETS is not used: {problem}")
    cached = pinned_folder(cache_folder())
    # Versions are not checked: its binaries were built from the pins in its name.
    if not missing_in(cached):
        return cached
    folders = (Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry)
    return next((folder.absolute() for folder in folders if problem_with(folder) is None), None)


def pinned_version(module: str) -> str:
    """Return the version, such as "v1.36.3", that our go.mod pins for a module.

    Raises:
        UnknownKubernetes: It is Kubernetes, and the chosen version is not known.
    """
    if module == KUBERNETES:
        return chosen_kubernetes()
    return _pin(MODULES / MODULE_FOLDERS[module], module)


def _pin(folder: Path, module: str) -> str:
    text = (folder / "go.mod").read_text()
    pin = re.search(rf"^require {re.escape(module)} (v\S+)$", text, re.MULTILINE)
    assert pin is not None, f"go.mod pins {module}"
    return pin[1]


def default_kubernetes() -> str:
    """Return the version, such as "v1.36.3", that is run if none is chosen."""
    return _pin(MODULES / MODULE_FOLDERS[KUBERNETES], KUBERNETES)


def known_kubernetes() -> list[str]:
    """Return all pinned versions, the oldest first."""
    found = [_pin(path.parent, KUBERNETES) for path in MODULES.glob("kubernetes*/go.mod")]
    return sorted(found, key=parse_go_version)


def chosen_kubernetes(environ: Mapping[str, str] = os.environ) -> str:
    """Return the version that `$KUBERNETES` names, with a "v"; the default one if it is not set.

    Raises:
        UnknownKubernetes: It is not pinned.
    """
    choice = environ.get(KUBERNETES_CHOICE, "")
    if not choice:
        return default_kubernetes()
    known, version = known_kubernetes(), f"v{choice.removeprefix('v')}"
    if version not in known:
        names = ", ".join(each.removeprefix("v") for each in known)
        raise UnknownKubernetes(f"{KUBERNETES_CHOICE}={choice} is not known; known are {names}")
    return version


def mutating_policy_version() -> Literal["v1", "v1beta1"]:
    """Return the version in which the chosen Kubernetes serves MutatingAdmissionPolicies.

    Those before 1.36 serve v1beta1, and only where its feature gate is on, as it is in a
    `ControlPlane`.
    """
    return "v1beta1" if is_before(1, 36) else "v1"


def is_before(major: int, minor: int) -> bool:
    """Return whether the chosen Kubernetes is older than a minor version, such as 1, 36."""
    return _minor(chosen_kubernetes()) < (major, minor)


def module_folder(module: str) -> Path:
    """Return the folder of the go.mod with the pin of a module.

    Raises:
        UnknownKubernetes: It is Kubernetes, and the chosen version is not known.
    """
    folder = MODULES / MODULE_FOLDERS[module]
    if module == KUBERNETES and chosen_kubernetes() != default_kubernetes():
        return folder.with_name(f"{folder.name}-{chosen_kubernetes().removeprefix('v')}")
    return folder


def pinned_folder(cache: Path, kubernetes: str = "") -> Path:
    """Return the folder for binaries of the pinned versions; it may not exist yet.

    Args:
        cache: The folder that has it.
        kubernetes: A version of Kubernetes, such as "v1.36.3", if not the chosen one.
    """
    kubernetes = kubernetes or chosen_kubernetes()
    shared = (f"-{MODULE_FOLDERS[module]}-{pinned_version(module)}" for module in (ETCD, KWOK))
    return cache / f"{MODULE_FOLDERS[KUBERNETES]}-{kubernetes}{''.join(shared)}"


def _folders_of_other_versions(cache: Path) -> Iterator[Path]:
    """Yield where the same etcd and kwok may have been built for another Kubernetes."""
    for version in known_kubernetes():
        if version != chosen_kubernetes():
            yield pinned_folder(cache, version)


def problem_with(folder: Path) -> str | None:
    """Return why a folder from outside is not suitable; None if it is.

    A version is suitable if its first two numbers are the pinned ones: API and flags are the same.
    """
    missing = missing_in(folder)
    if missing:
        return f"{folder} has no {', '.join(binary.name for binary in missing)}"
    for binary in BINARIES:
        answer = version_answer(folder, binary)
        wanted = pinned_version(binary.module)
        if _minor(answer) != _minor(wanted):
            return f"{folder / binary.name} is {answer!r}, {wanted} is wanted"
    return None


def missing_in(folder: Path, binaries: Sequence[Binary] = BINARIES) -> list[Binary]:
    """Return those of the binaries that a folder lacks."""
    return [binary for binary in binaries if not os.access(folder / binary.name, os.X_OK)]


def _minor(version: str) -> GoVersion:
    return parse_go_version(version)[:2]


def version_answer(folder: Path, binary: Binary) -> str:
    """Return the first line of what a binary says of its version, or why it says nothing."""
    try:
        done = subprocess.run(
            [folder / binary.name, *binary.version_arguments],
            capture_output=True,
            text=True,
            timeout=VERSION_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.partition("\n")[0]


def build(
    binaries: Sequence[Binary],
    folder_in: Callable[[Path], Path],
    report: Report,
    others: Callable[[Path], Iterable[Path]] = lambda _cache: (),
) -> Path:
    """Build those of the binaries that a folder lacks; return the folder.

    Args:
        binaries: What to build.
        folder_in: From the cache to the folder.
        report: Called with a line for each step.
        others: From the cache to folders that differ in Kubernetes alone; what they have of the
            rest is not built again.

    Raises:
        BinariesUnavailable: One cannot be built; the message has the reason.
    """
    with maker_lock(report) as cache:
        folder = folder_in(cache)
        _take_shared(missing_in(folder, binaries), others(cache), folder)
        missing = missing_in(folder, binaries)
        # The previous holder of the lock may have built them.
        if not missing:
            return folder
        seconds = sum(binary.build_seconds for binary in missing)
        names = ", ".join(binary.name for binary in missing)
        report(f"building {names} into {folder}: {_about(seconds)} on 2 cores, only this once")
        report("Ctrl-C stops it; the next run goes on with what is built by then")
        _check_disk(cache)
        go = find_or_install_go(_needed_go(missing), cache, report)
        folder.mkdir(exist_ok=True)
        for number, binary in enumerate(missing, start=1):
            _build_one(go, binary, folder, _numbered(report, f"{number}/{len(missing)}"))
        # Kept after a failure: a second attempt reuses what was downloaded and compiled.
        go.remove_private_caches()
        return folder


def _take_shared(missing: Iterable[Binary], others: Iterable[Path], folder: Path) -> None:
    for other in others:
        for binary in missing:
            source, target = other / binary.name, folder / binary.name
            if binary.module != KUBERNETES and source.is_file() and not target.exists():
                folder.mkdir(exist_ok=True)
                target.hardlink_to(source)


def _about(seconds: int) -> str:
    return f"about {seconds} s" if seconds < 100 else f"about {round(seconds / 60)} minutes"


def _numbered(report: Report, number: str) -> Report:
    return lambda line: report(f"[{number}] {line}")


def _check_disk(cache: Path) -> None:
    free_bytes = shutil.disk_usage(cache).free
    if free_bytes < BUILD_DISK_BYTES:
        raise BinariesUnavailable(
            f"building takes {BUILD_DISK_BYTES >> 20} MiB of disk, {cache} has {free_bytes >> 20}"
        )


def _needed_go(binaries: Sequence[Binary]) -> GoVersion:
    def needed_by(folder: Path) -> GoVersion:
        line = re.search(r"^go (\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)
        assert line is not None, f"{folder}/go.mod has a go line"
        return parse_go_version(line[1])

    return max(needed_by(module_folder(binary.module)) for binary in binaries)


def _build_one(go: GoToolchain, binary: Binary, folder: Path, report: Report) -> None:
    """Build next to the final path and rename, so that an existing binary is complete."""
    unfinished = folder / f".{binary.name}.unfinished"
    log_path = folder / f".{binary.name}.log"
    report(f"building {binary.name} {pinned_version(binary.module)}, ~{binary.build_seconds} s")
    command = [
        *(str(go.executable), "build", "-trimpath", "-ldflags", _linker_flags(binary)),
        *("-tags", binary.tags, "-o", str(unfinished), binary.package),
    ]
    started = time.monotonic()
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=module_folder(binary.module),
            env=go.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            for elapsed_seconds in _until_ended(process, started):
                report(f"still building {binary.name}, {elapsed_seconds:.0f} s")
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise BinariesUnavailable(_why_build_failed(binary, log_path.read_text()))
    unfinished.rename(folder / binary.name)
    log_path.unlink()
    report(f"built {binary.name} in {time.monotonic() - started:.0f} s")


def _until_ended(process: subprocess.Popen[bytes], started: float) -> Iterator[float]:
    """Yield the seconds since the start, periodically, while the process runs."""
    while True:
        try:
            process.wait(STILL_BUILDING_SECONDS)
        except subprocess.TimeoutExpired:
            elapsed_seconds = time.monotonic() - started
            if elapsed_seconds > BUILD_SECONDS:
                return
            yield elapsed_seconds
        else:
            return


def _linker_flags(binary: Binary) -> str:
    flags = "-s -w"
    if binary.module == KUBERNETES:
        # Without these, the API server reports v0.0.0, which misleads clients and the
        # emulation of older versions.
        version = pinned_version(KUBERNETES)
        major, minor = _minor(version)
        package = "k8s.io/component-base/version"
        flags += f" -X {package}.gitVersion={version}"
        flags += f" -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    return flags


def _why_build_failed(binary: Binary, log: str) -> str:
    # Without a network: "dial tcp: lookup <host>: no such host" and similar.
    if re.search(r"no space left on device", log):
        reason = "the disk is full"
    elif re.search(r"dial tcp|no such host|i/o timeout|connection refused|TLS handshake", log):
        reason = "Go modules cannot be downloaded; is there a network?"
    elif not log.strip():
        reason = f"it was ended from outside, or took over {BUILD_SECONDS:.0f} s"
    else:
        reason = "the compiler refused"
    return f"building {binary.name} failed: {reason}\n{tail(log)}"
