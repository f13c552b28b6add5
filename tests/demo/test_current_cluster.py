"""The demo uses no cluster where it could do harm, and none without a confirmation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_api.process.clock import SystemClock
from tests.demo.clusters import OUR_CRDS, QUOTA_CRD, DemoFailed
from tests.demo.current_cluster import CurrentCluster
from tests.demo.embedded_cluster import EmbeddedCluster
from tests.demo.load_plan import (
    NO_GPUS,
    QUOTA_NAME,
    REAL_GPUS,
    build_node,
    build_plan,
    build_quotas,
)
from tests.demo.make_slice import TraceRow

PLAN = build_plan([TraceRow(submit_time_s=0, duration_s=600, tenant="a", gpu=1)], shape=REAL_GPUS)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    """An existing cluster, which KUBECONFIG points to."""
    cluster = EmbeddedCluster(tmp_path, SystemClock())
    cluster.start()
    monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig)
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield cluster
    cluster.stop()


def current(answer: str = "y") -> tuple[CurrentCluster, list[str]]:
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    return CurrentCluster(SystemClock(), ask), asked


def marked_job(**metadata: Any) -> dict[str, Any]:
    body = PLAN.jobs[0].body
    return {**body, "metadata": {"name": "theirs", "namespace": "default", **metadata}}


def held_lease() -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "koord-queue-scheduler", "namespace": "default"},
        "spec": {"holderIdentity": "somebody"},
    }


@pytest.mark.usefixtures("there")
def test_it_starts_after_a_yes() -> None:
    cluster, asked = current("yes")
    cluster.start()
    assert cluster.context == "demo"
    assert "Context demo" in asked[0]
    assert cluster.gpu_shape() == NO_GPUS


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("answer", ["", "n", "later"])
def test_anything_else_is_a_no(answer: str) -> None:
    cluster, _ = current(answer)
    with pytest.raises(DemoFailed, match="nothing was done"):
        cluster.start()


def test_gpus_are_used_if_there_are_enough(there: EmbeddedCluster) -> None:
    for number in range(6):
        there.server.direct.create(build_node(f"n{number}", REAL_GPUS))
    cluster, _ = current()
    cluster.start()
    assert cluster.gpu_shape() == REAL_GPUS


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(build_quotas(PLAN, "default")[0], "ElasticQuota default/philly", id="quota"),
        pytest.param(marked_job(labels={QUOTA_NAME: "x"}), "Job default/theirs", id="job"),
        pytest.param(held_lease(), "Lease default/koord-queue-scheduler", id="the queue itself"),
    ],
)
def test_a_cluster_in_use_is_refused(
    there: EmbeddedCluster, body: dict[str, Any], words: str
) -> None:
    for manifest in (OUR_CRDS, QUOTA_CRD):
        there.server.direct.create_from(manifest)
    there.server.direct.create(body)
    cluster, asked = current()
    with pytest.raises(DemoFailed, match=words):
        cluster.start()
    assert asked == []


def test_jobs_that_are_not_marked_do_not_matter(there: EmbeddedCluster) -> None:
    there.server.direct.create(marked_job())
    cluster, asked = current()
    cluster.start()
    assert len(asked) == 1


def test_a_missing_kubeconfig_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    cluster, _ = current()
    with pytest.raises(DemoFailed, match="nowhere"):
        cluster.start()
