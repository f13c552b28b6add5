"""The first quarters of an hour, and what to do on a cluster, typed on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.page_session import Session, session
from tests.cluster.queue_world import ELASTIC_QUOTA_CRD
from tests.controlplane.control_plane import ControlPlane
from tests.docs.page_steps import Command


@pytest.fixture
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster in which nothing is installed, of each reader's own."""
    with ControlPlane(
        controlplane_binaries, controller_manager=True, scheduler=True, kwok=True
    ) as running:
        running.create_nodes(2, cpu="4", memory="16Gi")
        yield running


@pytest.fixture
def reader(plane: ControlPlane, tmp_path: Path) -> Iterator[Session]:
    with session(plane, tmp_path) as opened:
        yield opened


def test_the_first_jobs(plane: ControlPlane, reader: Session) -> None:
    plane.apply(ELASTIC_QUOTA_CRD)
    plane.await_kinds("elasticquotas")
    plane.create_nodes(1, extra_resources={"nvidia.com/gpu": "8"}, name_prefix="gpu-node")
    installation = "helm install koord-queue charts/koord-queue -n koord-queue --create-namespace"
    reader.type(Command(installation, ("STATUS: deployed",)))
    reader.read("README.md")


def test_without_koordinator(reader: Session) -> None:
    reader.read("start/without-koordinator.md")


def test_with_koordinator(plane: ControlPlane, reader: Session) -> None:
    plane.apply(ELASTIC_QUOTA_CRD)
    plane.await_kinds("elasticquotas")
    reader.read("start/with-koordinator.md")


def test_who_runs_the_cluster(plane: ControlPlane, reader: Session) -> None:
    plane.apply(ELASTIC_QUOTA_CRD)
    plane.await_kinds("elasticquotas")
    installation = "helm install koord-queue charts/koord-queue -n koord-queue --create-namespace"
    reader.type(Command(installation, ("STATUS: deployed",)))
    reader.read("how-to/run-the-cluster.md")
