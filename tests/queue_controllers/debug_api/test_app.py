"""The routes of the controllers' debug API, over the controllers and a fake API server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from queue_controllers.configuration import Configuration, GeneralOptions
from queue_controllers.debug_api.app import JobDebugApi, build_app
from queue_controllers.debug_api.views import JobAnswer
from shared_api.authorization.authorizer import Authorizer
from shared_api.debug_api.access import ReviewedAccess
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.program import READERS
from shared_api.question_errors import Code, QuestionError
from tests.client_kit import client_to
from tests.follower import Follower
from tests.queue_controllers.controllers_world import QUOTA_LABEL, World
from tests.queue_controllers.owner_kit import make_owner, template
from tests.sample_jobs import crd, open_crd
from tests.served_app import served

Json = dict[str, Any]

MISSPELLED = {QUOTA_LABEL.replace("name", "nmae"): "gold"}
HEADERS = {"authorization": "Bearer ann-token"}


def api_of(world: World) -> JobDebugApi:
    assert world.controllers is not None
    return world.controllers.debug_api()


def ask(world: World, name: str = "main", kind: str = "Job", namespace: str = "team") -> JobAnswer:
    """Read the page of a job; the API server must not be asked for it."""
    before = len(world.server.journal)
    try:
        return api_of(world).job(namespace, kind, name)
    finally:
        assert len(world.server.journal) == before


def refusal(world: World, name: str, kind: str = "Job") -> tuple[Code, str]:
    with pytest.raises(QuestionError) as refused:
        ask(world, name, kind)
    return refused.value.code, refused.value.detail


def test_a_job_in_the_queue(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    answer = ask(world)
    assert (answer.managed, answer.reason, answer.suspended) == (True, "InQueue", True)
    assert (answer.queue, answer.quota, answer.leader) == ("gold", "gold", True)
    assert answer.unit is not None
    assert (answer.unit.name, answer.unit.phase) == ("main", "Enqueued")
    assert answer.problems == []


def test_a_misspelled_label_and_its_correction(world: World) -> None:
    world.start()
    world.job(labelled=False)
    world.patch_job({"metadata": {"labels": MISSPELLED}})
    world.settle()
    answer = ask(world)
    assert (answer.managed, answer.reason, answer.unit) == (False, "NamesNothing", None)
    assert "no queue will resume it" in answer.message
    (problem,) = answer.problems
    assert problem.reason == "KeyWithoutEffect"
    assert f"Did you mean {QUOTA_LABEL}?" in problem.message
    assert "KeyWithoutEffect" in world.events(), "it was reported as an event, and is shown as well"
    assert ask(world).problems == answer.problems


def test_what_a_follower_answers(world: World) -> None:
    world.start(leadership=Follower())
    world.job()
    world.settle()
    answer = ask(world)
    assert (answer.leader, answer.managed, answer.unit) == (False, True, None)
    assert answer.reason == "NamesQueueOrQuota"


def job_set(world: World) -> Json:
    """Create a JobSet of one Job; return the Job's owner reference."""
    jobs = {"name": "a", "replicas": 1, "template": {"spec": {"template": template()}}}
    spec = {"suspend": True, "replicatedJobs": [jobs]}
    return make_owner(world.direct, "jobset.x-k8s.io/v1alpha2/JobSet", "top", "jobsets", spec)


@pytest.mark.parametrize("kinds", ["job", "job,jobset"])
def test_a_job_that_another_job_has_created(world: World, kinds: str) -> None:
    owner = job_set(world)
    world.start(f"--enabled-extensions={kinds}")
    world.job("top-a-0", owners=[owner], parallelism=1, completions=1)
    world.settle()
    answer = ask(world, "top-a-0")
    assert (answer.managed, answer.reason, answer.unit) == (False, "Owned", None)
    assert "JobSet top owns it" in answer.message


def test_an_owner_that_does_not_count_is_a_problem(world: World) -> None:
    owner = job_set(world)
    world.start()
    world.job(owners=[owner])
    world.settle(30.0)
    answer = ask(world)
    assert (answer.managed, answer.reason) == (True, "InQueue")
    assert [each.reason for each in answer.problems] == ["OwnerIgnored"]


def test_an_owner_that_was_not_read_is_not_read_for_an_answer(world: World) -> None:
    owner = job_set(world)
    world.start(leadership=Follower())
    world.job("top-a-0", owners=[owner])
    world.settle()
    code, detail = refusal(world, "top-a-0")
    assert code is Code.UNAVAILABLE
    assert "JobSet top" in detail
    assert "does not lead" in detail


def test_a_job_under_a_cron_job_whose_owner_was_read(world: World) -> None:
    world.start()
    container = {"name": "c", "image": "i"}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": pods}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob"}
    made = world.direct.create(
        {**cron, "metadata": {"name": "n", "namespace": "team"}, "spec": spec}
    )
    owner = {**cron, "name": "n", "uid": made["metadata"]["uid"], "controller": True}
    world.job(owners=[owner])
    world.settle()
    assert ask(world).managed


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        pytest.param("pytorchjobs", "KindNotEnabled", "--enabled-extensions", id="not enabled"),
        pytest.param("TFJob.kubeflow.org", "KindNotServed", "waiting for its CRD", id="not served"),
    ],
)
def test_a_kind_that_is_not_followed(world: World, kind: str, reason: str, words: str) -> None:
    world.start("--enabled-extensions=job,tfjob")
    answer = ask(world, "any", kind)
    assert (answer.managed, answer.reason, answer.suspended) == (False, reason, None)
    assert words in answer.message


def test_of_two_versions_the_one_that_is_served_answers(world: World) -> None:
    world.direct.create(crd("mpijobs-v2beta1"))
    world.start("--enabled-extensions=mpijobv1,mpijob")
    assert "MPIJob" in refusal(world, "any", "mpijobs")[1]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        pytest.param("gone", "jobs", "there is no Job 'gone' in namespace 'team'", id="no job"),
        pytest.param("gone", "pods", "wait at the queue's gate", id="no pod that counts"),
        pytest.param("main", "widgets", "no kind of job is named 'widgets'.*jobs.batch", id="kind"),
    ],
)
def test_what_does_not_exist(world: World, name: str, kind: str, words: str) -> None:
    world.start("--enabled-extensions=job,pod")
    code, detail = refusal(world, name, kind)
    assert code is Code.NOT_FOUND
    assert re.search(words, detail), detail


def test_an_incomplete_cache_answers_503(world: World) -> None:
    world.direct.create(crd("tfjobs"))
    world.server.faults.fail(503, times=EVERY_TIME, match=Match(plural="tfjobs"))
    world.start("--enabled-extensions=job,tfjob")
    code, detail = refusal(world, "any", "tfjobs")
    assert code is Code.UNAVAILABLE
    assert "ask again in a moment" in detail
    assert refusal(world, "any", "jobs")[0] is Code.NOT_FOUND, "of a kind that is complete"


def test_a_job_that_cannot_be_read(world: World) -> None:
    world.direct.create(open_crd("TFJob", "tfjobs", "kubeflow.org"))
    world.start("--enabled-extensions=job,tfjob")
    meta = {"name": "main", "namespace": "team", "labels": {QUOTA_LABEL: "gold"}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta}
    world.direct.create({**job, "spec": {"tfReplicaSpecs": "none"}})
    world.settle()
    answer = ask(world, kind="tfjob")
    assert (answer.managed, answer.reason, answer.suspended) == (False, "Unreadable", None)
    assert "$.spec.tfReplicaSpecs" in answer.message


def test_a_pod_has_a_page_by_its_name_and_a_group_by_its_own(world: World) -> None:
    world.start("--enabled-extensions=pod,podgroup")
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "lone",
            "namespace": "team",
            "labels": {"koord-queue/queue-name": "gold"},
        },
        "spec": {
            "schedulingGates": [{"name": "koord-queue/admission"}],
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    world.direct.create(pod)
    world.settle()
    answer = ask(world, "lone", "pods")
    assert (answer.managed, answer.kind, answer.queue) == (True, "Pod", "gold")
    assert refusal(world, "lone", "podgroups")[0] is Code.NOT_FOUND


def train_job(world: World) -> None:
    """Create a TrainJob, whose JobSet, which defines its pods, does not exist yet."""
    for each in ("trainjobs", "jobsets"):
        world.direct.create(crd(each))
    world.direct.create(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "main", "namespace": "team", "labels": {QUOTA_LABEL: "gold"}},
            "spec": {"suspend": True, "runtimeRef": {"name": "torch"}},
        }
    )


def test_related_objects_are_not_read_for_an_answer(world: World) -> None:
    train_job(world)
    world.start("--enabled-extensions=trainjob", leadership=Follower())
    code, detail = refusal(world, "main", "trainjobs")
    assert code is Code.UNAVAILABLE
    assert "depends on JobSet main" in detail
    assert detail.endswith("ask the replica that leads")


def test_that_its_pods_are_not_known_is_a_problem(world: World) -> None:
    train_job(world)
    world.start("--enabled-extensions=trainjob")
    world.settle(6.0)
    answer = ask(world, kind="trainjobs")
    assert (answer.managed, answer.unit) == (True, None)
    assert [each.reason for each in answer.problems] == ["DemandUnknown"]


def test_no_preview_is_requested_for_an_answer(world: World) -> None:
    options = GeneralOptions(admission_preview=True)
    world.start(leadership=Follower(), configuration=Configuration(general=options))
    world.job()
    world.settle()
    assert ask(world).managed
    before = [entry.info.verb for entry in world.server.journal].count("create")
    world.settle(8.0)
    after = [entry.info.verb for entry in world.server.journal].count("create")
    assert after == before


def test_answers_of_the_previews_count_without_a_request(world: World) -> None:
    options = GeneralOptions(admission_preview=True)
    world.start(configuration=Configuration(general=options))
    world.job()
    world.settle(8.0)
    answer = ask(world)
    assert (answer.managed, answer.reason, answer.problems) == (True, "InQueue", [])


# --- access ---------------------------------------------------------------------------------------


class Rights:
    """The rights of ann, and the reviews of them."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self._allowed = allowed
        self.asked: list[Json] = []

    def __call__(self, spec: Json) -> bool:
        self.asked.append(spec)
        where = spec.get("resourceAttributes", {})
        wanted = (where.get("namespace"), where.get("resource"), where.get("name", ""))
        return wanted in self._allowed


@contextmanager
def guarded(world: World, rights: Rights) -> Iterator[httpx.Client]:
    """Serve the routes to ann as on an exposed address."""
    world.server.reviews.users["ann-token"] = {"username": "ann", "groups": []}
    world.server.reviews.allows = rights
    client = client_to(world.server, world.clock)
    api = api_of(world)
    access = ReviewedAccess(Authorizer(client, world.clock, READERS), api.right_of)
    with served(build_app(api, access, "0")) as served_client:
        yield served_client


def get(client: httpx.Client, path: str, *, token: bool = True) -> httpx.Response:
    return client.get(path, headers=HEADERS if token else {})


JOB = "/debug/jobs/team/Job/main"
HIDDEN = "/debug/jobs/other/Job/main"


@pytest.fixture
def two_jobs(world: World) -> World:
    """Two jobs of the same name in two namespaces."""
    world.start("--enabled-extensions=job,podgroup,tfjob")
    world.job()
    world.job(namespace="other")
    world.settle()
    return world


def test_users_that_may_get_a_job_may_read_its_page(two_jobs: World) -> None:
    rights = Rights(("team", "jobs", "main"))
    with guarded(two_jobs, rights) as client:
        assert get(client, JOB, token=False).status_code == 401
        assert get(client, JOB).json()["managed"] is True
        refused = get(client, HIDDEN)
    assert refused.status_code == 403
    assert refused.json() == {"detail": "ann may not get jobs main in namespace other"}
    assert [each["resourceAttributes"] for each in rights.asked] == [
        {"namespace": each, "verb": "get", "group": "batch", "resource": "jobs", "name": "main"}
        for each in ("team", "other")
    ]


def test_without_the_right_a_missing_job_is_not_revealed(two_jobs: World) -> None:
    with guarded(two_jobs, Rights()) as client:
        there, gone = get(client, HIDDEN), get(client, HIDDEN.replace("main", "gone"))
        assert (there.status_code, gone.status_code) == (403, 403)
        assert there.json()["detail"].replace("main", "gone") == gone.json()["detail"]
        for kind in ("podgroups", "tfjobs", "pytorchjobs"):
            path = f"/debug/jobs/other/{kind}/main"
            assert get(client, path).status_code == 403


def test_a_group_of_pods_needs_the_right_to_get_pods(two_jobs: World) -> None:
    rights = Rights(("team", "pods", ""))
    with guarded(two_jobs, rights) as client:
        assert get(client, "/debug/jobs/team/podgroups/none").status_code == 404
    (asked,) = rights.asked
    attributes = {"namespace": "team", "verb": "get", "group": "", "resource": "pods"}
    assert asked["resourceAttributes"] == attributes


def test_an_unknown_kind_is_reported_to_authenticated_users(two_jobs: World) -> None:
    rights = Rights()
    with guarded(two_jobs, rights) as client:
        path = "/debug/jobs/team/widgets/main"
        assert get(client, path, token=False).status_code == 401
        assert get(client, path).status_code == 404
        assert rights.asked == []
        assert get(client, "/").status_code == 403
        assert get(client, "/openapi.json").status_code == 403
