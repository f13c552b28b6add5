"""The commands that the demo prints can be copied, each as one line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from shared_api.process.clock import SystemClock
from tests.demo.clusters import Cluster, commands
from tests.demo.current_cluster import CurrentCluster
from tests.demo.embedded_cluster import EmbeddedCluster
from tests.demo.local_cluster import LocalCluster
from tests.demo.terminal import WIDTH, wrap

CONTEXT: Final = "arn:aws:eks:ap-southeast-2:123456789012:cluster/machine-learning-in-production"
URL: Final = "http://127.0.0.1:65535"
INDENT: Final = "  "


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    cluster = EmbeddedCluster(folder, SystemClock())
    cluster.start()
    yield cluster
    cluster.stop()


@contextmanager
def local(folder: Path) -> Iterator[Cluster]:
    cluster = LocalCluster()
    cluster.preparation = (f"export KUBECONFIG={folder}/kubeconfig",)
    yield cluster


@contextmanager
def current(folder: Path) -> Iterator[Cluster]:
    with embedded(folder) as there:
        path = Path(there.kubeconfig)
        config = yaml.safe_load(path.read_text())
        config["contexts"][0]["name"] = config["current-context"] = CONTEXT
        path.write_text(yaml.safe_dump(config))
        cluster = CurrentCluster(SystemClock(), lambda _: "y")
        cluster.start()
        yield cluster


@pytest.mark.parametrize("make", [embedded, local, current])
def test_a_command_fits_one_line_of_a_terminal(
    make: Callable[[Path], AbstractContextManager[Cluster]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with make(tmp_path) as cluster:
        lines = [f"{INDENT}{each}" for each in commands(cluster, URL, URL)]
    assert [wrap(line) for line in lines] == [[line] for line in lines]
    # A path or a name may be long; what is typed after it is not.
    assert [line for line in lines if len(line) > WIDTH and "export" not in line] == []
    assert sum("kubectl" in line for line in lines) == 1
    assert sum(line.startswith(f"{INDENT}koord-queue ") for line in lines) == 7


def test_a_long_context_is_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with current(tmp_path) as cluster:
        shell = "\n".join((*cluster.preparation, f"echo {cluster.kubectl}"))
    got = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert got.stdout == f"kubectl --context {CONTEXT}\n"
