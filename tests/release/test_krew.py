"""What goes into an archive for krew, and how the script in it finds a Python."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from tests.release.krew import (
    FILES,
    PLATFORMS,
    PROGRAM,
    archive,
    base_lock,
    layout,
    manifest,
    name_of,
)
from tests.release.licenses import LOCK
from tests.tidy.dependency_locks import locked, supported_pythons

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


def test_the_command_line_needs_part_of_the_lock() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    base = locked(base_lock(lock, supported_pythons()))
    assert base.items() <= locked(lock).items()
    assert {"click", "msgspec", "kubernetes", "urllib3"} <= base.keys()
    assert {"fastapi", "uvicorn", "cryptography"} & base.keys() == set()


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(folder / name, "w") as packed:
        for path, text in files.items():
            packed.writestr(path, text)
    return folder / name


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Path]:
    """One package for all Pythons, and one for each of two."""
    same = wheel(tmp_path, "a-1-py3-none-any.whl", {"a.py": "", "a-1.data/scripts/a": ""})
    own = [wheel(tmp_path, f"b-1-{tag}.whl", {"b.so": tag}) for tag in ("cp311", "cp314")]
    return layout({"3.11": [same, own[0]], "3.14": [same, own[1]]})


def test_what_is_the_same_for_all_pythons_is_there_once(wheels: dict[str, Path]) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(wheels))) as tar:
        names = tar.getnames()
        modes = {each.name: each.mode for each in tar.getmembers()}
    packages = [name for name in names if name.startswith("lib/")]
    assert packages == ["lib/common/a.py", "lib/cp311/b.so", "lib/cp314/b.so"]
    assert {"LICENSE", "NOTICE", "THIRD_PARTY.md", "start.py"} <= {*names}
    assert modes[PROGRAM] == 0o755


def test_one_python_has_what_is_compiled_for_it(tmp_path: Path) -> None:
    names = ["a-1-py3-none-any.whl", "b-1-cp311-cp311-linux.whl", "c-1-cp39-abi3-linux.whl"]
    placed = layout({"3.11": [wheel(tmp_path, name, {}) for name in names]})
    assert [place.partition("/")[0] for place in placed] == ["common", "cp311", "common"]


def test_the_same_wheels_give_the_same_bytes(wheels: dict[str, Path]) -> None:
    first = archive(wheels)
    assert first[4:8] == bytes(4), "gzip's time"
    os.utime(wheels["common/a-1-py3-none-any.whl"], (0, 0))
    assert archive(dict(reversed(wheels.items()))) == first


def test_the_manifest_has_what_krew_wants() -> None:
    """The rules of krew's developer guide; the real krew reads it in a cluster test."""
    document = yaml.safe_load(manifest("0.1.0", "https://example.com/x", {PLATFORMS[0]: b"data"}))
    spec = document["spec"]
    (platform,) = spec["platforms"]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", document["metadata"]["name"])
    assert f"kubectl-{document['metadata']['name'].replace('-', '_')}" == PROGRAM
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50
    assert "kubectl_complete-koord_queue" in spec["caveats"]
    assert platform["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert platform["uri"] == (
        "https://example.com/x/releases/download/v0.1.0/"
        "kubectl-koord_queue-0.1.0-linux-amd64.tar.gz"
    )
    assert re.fullmatch("[0-9a-f]{64}", platform["sha256"])
    assert platform["bin"] == PROGRAM


def test_each_platform_has_an_archive_of_its_own() -> None:
    assert len({name_of("0.1.0", platform) for platform in PLATFORMS}) == len(PLATFORMS) == 4


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The script, linked as krew links it, and a program that prints what it was called with."""
    store = tmp_path / "store" / "v0.1.0"
    (store / "lib" / TAG).mkdir(parents=True)
    shutil.copy(FILES / PROGRAM, store)
    (store / "start.py").write_text("import sys\nprint(*sys.argv[1:], sys.path)\n")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / PROGRAM).symlink_to(Path("..", "store", "v0.1.0", PROGRAM))
    return folder


def fake_python(folder: Path, name: str, line: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def call(folder: Path, name: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / name, "explain", "a b"],
        env={"PATH": f"{folder}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_takes_a_python_that_runs_and_has_packages(installed: Path) -> None:
    fake_python(installed, "python3.14", "exit 127")  # as pyenv has for what is not installed
    fake_python(installed, "python3.13", "echo cp27")
    fake_python(installed, "python3.12", f'exec {sys.executable} "$@"')
    done = call(installed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{TAG} {PROGRAM} explain a b ")
    assert "site-packages" not in done.stdout


def test_a_link_of_another_name_is_passed_on(installed: Path) -> None:
    (installed / "kubectl_complete-koord_queue").symlink_to(PROGRAM)
    done = call(installed, "kubectl_complete-koord_queue", KOORD_QUEUE_PYTHON=sys.executable)
    assert done.stdout.startswith(f"{TAG} kubectl_complete-koord_queue explain a b ")


def test_without_a_suitable_python_the_script_says_what_it_needs(installed: Path) -> None:
    for minor in ("", ".11", ".12", ".13", ".14", ".15"):
        fake_python(installed, f"python3{minor}", "echo cp27")
    done = call(installed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "koord-queue: needs Python 3.11, 3.12, 3.13, 3.14 or 3.15 on the PATH,"
        " or in KOORD_QUEUE_PYTHON\n"
    )
    assert all(each in done.stderr for each in supported_pythons())


def test_the_script_tries_every_supported_python() -> None:
    text = (FILES / PROGRAM).read_text(encoding="utf-8")
    assert [each for each in supported_pythons() if f"python{each} " not in text] == []
