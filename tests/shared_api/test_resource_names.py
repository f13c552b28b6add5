"""Deprecated names are those of Koordinator, and are replaced as by koord-scheduler."""

from __future__ import annotations

import pytest

from shared_api.resource_list import Amounts
from shared_api.resource_names import (
    RENAMED,
    RENAMED_BATCH,
    RENAMED_DEVICES,
    current_name,
    rename_deprecated,
)


def test_two_batch_names_map_to_kubernetes_and_six_device_names_from_it() -> None:
    assert RENAMED_BATCH == {
        "koordinator.sh/batch-cpu": "kubernetes.io/batch-cpu",
        "koordinator.sh/batch-memory": "kubernetes.io/batch-memory",
    }
    assert RENAMED_DEVICES == {
        "kubernetes.io/rdma": "koordinator.sh/rdma",
        "kubernetes.io/fpga": "koordinator.sh/fpga",
        "kubernetes.io/gpu": "koordinator.sh/gpu",
        "kubernetes.io/gpu-core": "koordinator.sh/gpu-core",
        "kubernetes.io/gpu-memory": "koordinator.sh/gpu-memory",
        "kubernetes.io/gpu-memory-ratio": "koordinator.sh/gpu-memory-ratio",
    }
    assert RENAMED == {**RENAMED_BATCH, **RENAMED_DEVICES}


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"cpu": 1, "koordinator.sh/gpu": 2}, None, id="no deprecated name"),
        pytest.param(
            {"koordinator.sh/batch-cpu": 1, "cpu": 2},
            {"kubernetes.io/batch-cpu": 1, "cpu": 2},
            id="a batch name",
        ),
        pytest.param(
            {"kubernetes.io/gpu-core": 60, "kubernetes.io/gpu-memory-ratio": 50},
            {"koordinator.sh/gpu-core": 60, "koordinator.sh/gpu-memory-ratio": 50},
            id="two names of devices",
        ),
        pytest.param(
            {"kubernetes.io/gpu-core": 60, "koordinator.sh/gpu-core": 40},
            None,
            id="a name stays if the new one is present too",
        ),
    ],
)
def test_a_list_is_renamed(amounts: Amounts, want: Amounts | None) -> None:
    assert rename_deprecated(amounts) == (amounts if want is None else want)


def test_only_the_names_of_a_group_are_renamed() -> None:
    amounts = {"koordinator.sh/batch-cpu": 1, "kubernetes.io/gpu": 2}
    want = {"kubernetes.io/batch-cpu": 1, "kubernetes.io/gpu": 2}
    assert rename_deprecated(amounts, RENAMED_BATCH) == want


def test_a_list_without_deprecated_names_is_not_copied() -> None:
    amounts = {"cpu": 1}
    assert rename_deprecated(amounts) is amounts


def test_a_name_is_mapped_to_the_current_one() -> None:
    assert current_name("kubernetes.io/gpu") == "koordinator.sh/gpu"
    assert current_name("cpu") == "cpu"
