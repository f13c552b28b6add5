"""The pods of a unit: where they are, why they do not run, and how long they have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.page.api_answers import MAX_OBJECTS
from queue_insight.page.unit_pods import MAX_NAMED, MAX_PODS, PODS_PAGE, PodView, read_pods
from shared_api.client.errors import AnswerTooLarge, ApiFailure, Timeout
from shared_api.client.transport import Request
from shared_api.objects.meta import Uid
from tests.queue_insight.page.visitor_kit import JOB, PlayedApi, unit

PODS = "/api/v1/namespaces/default/pods"
EARLY, LATE, LATER = (f"2026-01-01T10:00:0{n}Z" for n in (1, 2, 3))
OTHER = replace(JOB, api_version="example.org/v1", kind="Job")


def pod(name: str, node: str = "n1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": status}


def test_the_pods_of_a_job_are_listed_by_their_label() -> None:
    api = PlayedApi({PODS: {"items": [pod("ended", phase="Failed")], "metadata": {}}})
    got = read_pods(api.client(), unit(JOB, "new"))
    assert [(each.name, each.phase) for each in got.pods] == [("ended", "Failed")]
    assert (got.more, got.left_out, got.problem) == (False, 1, "")
    (asked,) = api.asked
    want = {"labelSelector": "batch.kubernetes.io/controller-uid=job-uid", "limit": str(PODS_PAGE)}
    assert dict(asked.query) == want


def pages(last: int | ApiFailure) -> PlayedApi:
    """Return an API server with that many pages of pods, or whose third one fails."""

    def page(request: Request) -> dict[str, Any] | ApiFailure:
        query = dict(request.query)
        number = int(query.get("continue", "0"))
        if isinstance(last, ApiFailure) and number == 2:
            return last
        items = [pod(f"p{number}-{n}") for n in range(int(query["limit"]))]
        more = "" if number + 1 == last else str(number + 1)
        return {"items": items, "metadata": {"continue": more}}

    return PlayedApi({PODS: page})


def test_many_pods_are_read_in_pages() -> None:
    """The answer to one request is bounded in bytes, whatever is in the pods."""
    api = pages(last=3)
    got = read_pods(api.client(), unit(JOB))
    assert (len(got.pods), got.more, len(api.asked)) == (3 * PODS_PAGE, False, 3)
    assert got.pods[-1].name == f"p2-{PODS_PAGE - 1}"
    api = pages(last=1000)
    got = read_pods(api.client(), unit(JOB))
    assert (len(got.pods), got.more) == (MAX_PODS, True)
    assert len(api.asked) == MAX_PODS // PODS_PAGE


def test_pages_before_one_that_fails_are_shown() -> None:
    got = read_pods(pages(AnswerTooLarge("t", sent=True)).client(), unit(JOB))
    assert len(got.pods) == 2 * PODS_PAGE
    assert "more than 4 MiB" in got.problem


def test_no_more_pods_are_shown_than_were_asked_for() -> None:
    api = PlayedApi({PODS: {"items": [pod(f"p{n}") for n in range(MAX_PODS + 1)]}})
    got = read_pods(api.client(), unit(JOB))
    assert (len(got.pods), got.more) == (MAX_PODS, True)


TRAIN = "training.kubeflow.org/job-name=train"


@pytest.mark.parametrize(
    ("api_version", "kind", "selector"),
    [
        ("kubeflow.org/v1", "PyTorchJob", TRAIN),
        ("kubeflow.org/v1", "XGBoostJob", TRAIN),
        ("kubeflow.org/v1", "PaddleJob", TRAIN),
        ("kubeflow.org/v1", "JAXJob", TRAIN),
        ("kubeflow.org/v2beta1", "MPIJob", TRAIN),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "jobset.sigs.k8s.io/jobset-name=train"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobset.sigs.k8s.io/jobset-name=train"),
        ("ray.io/v1", "RayCluster", "ray.io/cluster=train"),
    ],
)
def test_a_kind_has_its_label(api_version: str, kind: str, selector: str) -> None:
    api = PlayedApi({PODS: {"items": []}})
    read_pods(api.client(), unit(replace(JOB, api_version=api_version, kind=kind)))
    assert [dict(each.query)["labelSelector"] for each in api.asked] == [selector]


def test_pods_of_a_job_of_another_kind_and_the_same_name_are_left_out() -> None:
    def owned(kind: str, api_version: str = "kubeflow.org/v1") -> dict[str, Any]:
        found = pod(kind)
        owner = {"kind": kind, "apiVersion": api_version, "name": "train", "controller": True}
        found["metadata"]["ownerReferences"] = [owner]
        return found

    items = [owned("PyTorchJob"), owned("TFJob"), owned("Job", "batch/v1"), pod("bare")]
    api = PlayedApi({PODS: {"items": items}})
    job = replace(JOB, api_version="kubeflow.org/v1", kind="PyTorchJob")
    got = read_pods(api.client(), unit(job))
    assert [each.name for each in got.pods] == ["PyTorchJob", "Job", "bare"]


def test_a_pod_that_is_a_job_is_shown_after_its_end() -> None:
    api = PlayedApi({f"{PODS}/train": pod("train", phase="Succeeded")})
    got = read_pods(api.client(), unit(replace(JOB, api_version="v1", kind="Pod")))
    assert [(each.name, each.phase) for each in got.pods] == [("train", "Succeeded")]
    assert api.paths == [f"{PODS}/train"]


@pytest.mark.parametrize("uid", ["", "a,b=c", "a in (b)", "x" * 64])
def test_no_uid_makes_another_selector(uid: str) -> None:
    api = PlayedApi({f"{PODS}/a": pod("a", phase="Running")})
    got = read_pods(api.client(), unit(replace(JOB, uid=Uid(uid)), "a"))
    assert [each.phase for each in got.pods] == ["Running"]
    assert api.paths == [f"{PODS}/a"]


def test_pods_of_other_kinds_are_asked_for_by_name() -> None:
    names = [f"p{n}" for n in range(MAX_NAMED + 5)]
    api = PlayedApi({f"{PODS}/{name}": pod(name, phase="Running") for name in names[1:]})
    got = read_pods(api.client(), unit(OTHER, *names))
    assert len(api.asked) == MAX_NAMED
    assert [each.name for each in got.pods] == names[1:MAX_NAMED]
    assert got.left_out == 6


def test_what_is_not_answered_is_not_named() -> None:
    """The visitor may list the units of the namespace, and not its pods."""
    api = PlayedApi({PODS: Timeout("t", sent=True)})
    got = read_pods(api.client(), unit(JOB, "a"))
    assert (got.pods, got.left_out) == ([], 1)
    assert got.problem == "The API server has not answered in time. Try again."


RUNNING = {"state": {"running": {"startedAt": LATE}}, "restartCount": 2}
DONE = {"state": {"terminated": {"startedAt": EARLY, "finishedAt": LATER, "exitCode": 0}}}
KILLED = {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": LATE}}}
PULLS = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "disk"}
UNBOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(
            {"phase": "Running", "startTime": EARLY, "containerStatuses": [RUNNING]},
            {"phase": "Running", "restarts": 2, "started": EARLY, "ran": LATE},
            id="it runs",
        ),
        pytest.param(
            {"phase": "Succeeded", "containerStatuses": [DONE]},
            {"phase": "Succeeded", "ran": EARLY, "ended": LATER},
            id="it has ended",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [KILLED]},
            {"phase": "Failed", "reason": "OOMKilled", "message": "exit code 137", "ended": LATE},
            id="it was killed",
        ),
        pytest.param(
            EVICTED | {"containerStatuses": [DONE]},
            EVICTED | {"ran": EARLY, "ended": LATER},
            id="it was evicted",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [PULLS], "initContainerStatuses": None},
            {"phase": "Pending", "reason": "ImagePullBackOff", "message": "no image"},
            id="it waits for its image",
        ),
        pytest.param(
            {"phase": "Pending", "conditions": [UNBOUND]},
            {"phase": "Pending", "reason": "Unschedulable", "message": "0/3"},
            id="no node takes it",
        ),
        pytest.param({}, {"phase": "Unknown"}, id="nothing is said"),
    ],
)
def test_a_pod_says_what_it_does(status: dict[str, Any], want: dict[str, Any]) -> None:
    api = PlayedApi({PODS: {"items": [pod("a", **status)]}})
    (got,) = read_pods(api.client(), unit(JOB)).pods
    assert got == PodView(**({"name": "a", "node": "n1"} | want))


def test_a_long_text_is_cut() -> None:
    api = PlayedApi(
        {PODS: {"items": [pod("a", phase="Failed", reason="r", message="m" * 100_000)]}}
    )
    (got,) = read_pods(api.client(), unit(JOB)).pods
    assert len(got.message) < 1100


def test_an_answer_that_is_no_list_is_said() -> None:
    got = read_pods(PlayedApi({PODS: {"items": 3}}).client(), unit(JOB, "a"))
    assert (got.problem, got.pods) == ("The answer of the API server cannot be read.", [])


def test_an_answer_of_too_many_objects_is_not_decoded() -> None:
    api = PlayedApi({PODS: b'{"items": [' + b"{}," * MAX_OBJECTS + b"{}]}"})
    got = read_pods(api.client(), unit(JOB))
    assert (got.problem, got.pods) == ("The answer of the API server cannot be read.", [])
