"""The list of adapters."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, Final

import msgspec
import pytest

from queue_controllers import extension_list
from queue_controllers.extension_list import ENTRY_POINT_GROUP, EXTENSIONS, find_extensions
from queue_controllers.extensions.batch_job import BatchJobAdapter
from queue_controllers.jobframework.generic_job import JobKind, ManagedElsewhere
from shared_api.program_flags import FlagError
from tests.cluster.kind_table import BY_KEY, ROWS, WIDGET, KindRow, set_at

ROWS_OF_EXTENSIONS: Final = [row for row in ROWS if row.key != WIDGET]


class ThingAdapter(BatchJobAdapter):
    """An adapter of another package."""

    kind = JobKind(key="thing", group="x.io", version="v1", kind="Thing", plural="things")


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint(name="one", value=f"{__name__}:{value}", group=ENTRY_POINT_GROUP)
    monkeypatch.setattr(extension_list, "entry_points", lambda **_: EntryPoints((entry,)))
    monkeypatch.setattr(EntryPoint, "load", lambda each: globals()[each.attr])


def test_built_in_extensions_have_their_own_keys_and_kinds() -> None:
    kinds = [each.kind for each in EXTENSIONS]
    assert len({each.key for each in kinds}) == len(kinds)
    # Two operators have an MPIJob, each in a version of its own.
    assert len({(each.api_version, each.kind) for each in kinds}) == len(kinds)
    assert find_extensions() == {each.kind.key: each for each in EXTENSIONS}


@pytest.mark.parametrize(
    ("key", "api_version", "plural", "suffix"),
    [
        ("job", "batch/v1", "jobs", ""),
        ("jobset", "jobset.x-k8s.io/v1alpha2", "jobsets", "jobset-qu"),
        ("trainjob", "trainer.kubeflow.org/v1alpha1", "trainjobs", "train-qu"),
        ("workflow", "argoproj.io/v1alpha1", "workflows", ""),
        ("appwrapper", "workload.codeflare.dev/v1beta2", "appwrappers", "aw-qu"),
    ],
)
def test_names_of_kinds(key: str, api_version: str, plural: str, suffix: str) -> None:
    kind = find_extensions()[key].kind
    assert (kind.api_version, kind.plural, kind.name_suffix) == (api_version, plural, suffix)


def test_an_installed_adapter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "ThingAdapter")
    assert isinstance(find_extensions()["thing"], ThingAdapter)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param("BatchJobAdapter", "'job' is there already", id="a key that is taken"),
        pytest.param("offer", "has no attribute 'kind'", id="no adapter"),
    ],
)
def test_an_installed_adapter_that_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    offer(monkeypatch, value)
    with pytest.raises(FlagError, match=f"extension one .*{why}"):
        find_extensions()


@pytest.mark.parametrize("row", ROWS_OF_EXTENSIONS, ids=lambda row: row.key)
def test_a_switch_is_on_when_it_is_true(row: KindRow) -> None:
    adapter = find_extensions()[row.key]
    for said, want in ((True, True), (False, False), (None, False)):
        assert adapter.is_suspended(of(row, "suspend", said)) is want


@pytest.mark.parametrize(
    ("key", "usual"),
    [
        ("job", "kubernetes.io/job-controller"),
        ("jobset", "jobset.sigs.k8s.io/jobset-controller"),
        ("trainjob", "trainer.kubeflow.org/trainjob-controller"),
        ("appwrapper", "workload.codeflare.dev/appwrapper-controller"),
        ("tfjob", "kubeflow.org/training-operator"),
        ("pytorchjob", "kubeflow.org/training-operator"),
        ("xgboostjob", "kubeflow.org/training-operator"),
        ("paddlejob", "kubeflow.org/training-operator"),
        ("jaxjob", "kubeflow.org/training-operator"),
        ("mpijobv1", "kubeflow.org/training-operator"),
        ("mpijob", "kubeflow.org/mpi-operator"),
        ("rayjob", "ray.io/kuberay-operator"),
        ("raycluster", "ray.io/kuberay-operator"),
        ("rayservice", "ray.io/kuberay-operator"),
    ],
)
def test_a_job_that_names_another_controller_is_that_ones(key: str, usual: str) -> None:
    adapter = find_extensions()[key]
    assert isinstance(adapter, ManagedElsewhere)
    for said, want in ((None, ""), (usual, ""), ("example.com/other", "example.com/other")):
        assert adapter.foreign_manager(of(BY_KEY[key], "managedBy", said)) == want


def of(row: KindRow, field: str, value: object) -> Any:
    """Return a job of a kind with this field alone, in its spec or next to its suspend field."""
    body: dict[str, Any] = {}
    set_at(body, (*row.switch[:-1], field), value)
    return msgspec.convert(body, find_extensions()[row.key].object_type)
