"""Which kind of job a name stands for."""

from __future__ import annotations

import pytest

from queue_controllers.debug_api.kind_names import find_kinds, resource_name
from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import JobKind

JOB = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs")
POD = JobKind(key="pod", group="", version="v1", kind="Pod", plural="pods")
OLD = JobKind(key="mpi", group="kubeflow.org", version="v1", kind="MPIJob", plural="mpijobs")
NEW = JobKind(
    key="mpijob", group="kubeflow.org", version="v2beta1", kind="MPIJob", plural="mpijobs"
)
OTHER = JobKind(key="volcano", group="batch.x.io", version="v1", kind="Job", plural="jobs")


@pytest.mark.parametrize(
    ("word", "want"),
    [
        pytest.param("Job", ["job"], id="the kind, and it is a key as well"),
        pytest.param("jobs", ["job", "volcano"], id="a plural of two groups"),
        pytest.param("jobs.batch", ["job"], id="the resource and its group"),
        pytest.param("Job.batch.x.io", ["volcano"], id="the kind and its group"),
        pytest.param("jobs.v1.batch.x.io", ["volcano"], id="with the version"),
        pytest.param("MPIJobs.kubeflow.org", ["mpi", "mpijob"], id="two versions, in their order"),
        pytest.param("mpijobs.v2beta1.kubeflow.org", ["mpijob"], id="one of them"),
        pytest.param("volcano", ["volcano"], id="the key of an extension"),
        pytest.param("pods", ["pod"], id="of the core group"),
        pytest.param("pods.", [], id="a dot without a group"),
        pytest.param("widgets", [], id="no kind"),
        pytest.param("", [], id="no word"),
    ],
)
def test_the_kinds_that_a_word_names(word: str, want: list[str]) -> None:
    found = find_kinds(word, (JOB, POD, OLD, NEW, OTHER))
    assert [each.key for each in found] == want


def test_every_built_in_kind_has_a_name_of_its_own() -> None:
    kinds = [each.kind for each in EXTENSIONS]
    for kind in kinds:
        for word in (kind.key, kind.kind, kind.plural, resource_name(kind)):
            assert {resource_name(each) for each in find_kinds(word, kinds)} == {
                resource_name(kind)
            }
