"""Whether a job is managed, and why, by the controllers' debug API, with the chart's rights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import as_manifest, of_kind, render, rights
from tests.cluster.program_process import CONTROLLERS, EXPOSED, ProgramProcess
from tests.cluster.queue_world import QUOTA_LABEL, QueueWorld
from tests.cluster.rbac_objects import binding, role
from tests.cluster.served_kinds import install_crds
from tests.sample_jobs import crd
from tests.waiting import until

VALUES: Final = {
    "metrics": {"secure": False},
    "extension": {"jobset": {"enable": True}},
    "controllers": {"debugApi": {"expose": True, "tls": {"secretName": "debug-tls"}}},
}
ACCOUNT, READER, OWNER, NOBODY = "controllers-account", "reader", "owner", "nobody"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """One API server: OWNER may get jobs of namespace default, READER has the chart's role."""
    users: dict[str, Sequence[str]] = dict.fromkeys((ACCOUNT, READER, OWNER, NOBODY), ())
    with QueueWorld(controlplane_binaries, users=users) as world:
        world.plane.kubectl("create", "namespace", "labs")
        install_crds(world.plane, crd("jobsets"))
        reader = of_kind(render(VALUES), "ClusterRole")["koord-queue-debug-reader"]
        jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}
        objects = [
            *rights("controllers", user=ACCOUNT, values=VALUES),
            reader,
            binding(reader["metadata"]["name"], READER),
            role("owner", jobs, "default"),
            binding("owner", OWNER, "default", kind="Role"),
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(objects))
        world.create_quota("team", cpu_max=4)
        yield world


@pytest.fixture(scope="module")
def exposed(world: QueueWorld) -> ProgramProcess:
    """Controllers whose debug API listens everywhere, with TLS, and the chart's rights."""
    return world.start(
        CONTROLLERS,
        "--enabled-extensions=job,jobset",
        *EXPOSED,
        user=ACCOUNT,
    )


def explained(world: QueueWorld, exposed: ProgramProcess, name: str) -> Json:
    """Return the page of a job as OWNER may read it, {} while there is no answer."""
    token = world.plane.token_for(OWNER)
    answer = exposed.ask(f"/debug/jobs/default/Job/{name}", token=token, tls=True)
    if answer.status_code in {404, 503}:
        return {}
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_a_managed_job_and_its_unit(world: QueueWorld, exposed: ProgramProcess) -> None:
    world.create_job("queued", "team", cpu="1")
    until(lambda: explained(world, exposed, "queued").get("unit"))
    got = explained(world, exposed, "queued")
    assert (got["managed"], got["reason"]) == (True, "InQueue")
    assert (got["queue"], got["quota"], got["suspended"]) == ("team", "team", True)
    assert got["unit"]["name"] == "queued"
    assert got["problems"] == []


def test_a_misspelled_quota_label(world: QueueWorld, exposed: ProgramProcess) -> None:
    misspelled = QUOTA_LABEL.replace("name", "nmae")
    world.create_job("misspelled", "", labels={misspelled: "team"})
    got = until(lambda: explained(world, exposed, "misspelled"))
    assert (got["managed"], got["reason"], got["unit"]) == (False, "NamesNothing", None)
    assert "no queue will resume it" in got["message"]
    (problem,) = got["problems"]
    assert problem["reason"] == "KeyWithoutEffect"
    assert f"Did you mean {QUOTA_LABEL}?" in problem["message"]


def test_a_job_that_names_no_queue(world: QueueWorld, exposed: ProgramProcess) -> None:
    world.create_job("unqueued", "", suspend=False)
    got = until(lambda: explained(world, exposed, "unqueued"))
    assert (got["managed"], got["reason"]) == (False, "NamesNothing")
    assert "It runs at once" in got["message"]
    assert QUOTA_LABEL in got["message"]


def test_a_job_that_another_job_owns(world: QueueWorld, exposed: ProgramProcess) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = {"name": "a", "replicas": 1, "template": {"spec": {"template": pods}}}
    api = "jobset.x-k8s.io/v1alpha2"
    made = world.api.request(
        "POST",
        f"/apis/{api}/namespaces/default/jobsets",
        {
            "apiVersion": api,
            "kind": "JobSet",
            "metadata": {"name": "top", "labels": {QUOTA_LABEL: "team"}},
            "spec": {"suspend": True, "replicatedJobs": [jobs]},
        },
    )
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": api, "kind": "JobSet", "name": "top", "uid": uid, "controller": True}
    world.api.request(
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "top-a-0",
                "labels": {QUOTA_LABEL: "team"},
                "ownerReferences": [owner],
            },
            "spec": {"suspend": True, "template": pods},
        },
    )
    got = until(lambda: explained(world, exposed, "top-a-0"))
    assert (got["managed"], got["reason"], got["unit"]) == (False, "Owned", None)
    assert "JobSet top owns it" in got["message"]


JOB: Final = "/debug/jobs/default/Job/gone"
ELSEWHERE: Final = "/debug/jobs/labs/Job/"


@pytest.mark.parametrize(
    ("user", "path", "want"),
    [
        pytest.param("", JOB, 401, id="without a token"),
        pytest.param("", "/debug/jobs/default/widgets/a", 401, id="an unknown kind, without one"),
        pytest.param(NOBODY, JOB, 403, id="a user without rights"),
        pytest.param(NOBODY, "/debug/jobs/default/widgets/a", 404, id="an unknown kind"),
        pytest.param(OWNER, JOB, 404, id="a user that may get jobs there"),
        pytest.param(OWNER, "/debug/jobs/default/jobs.batch/gone", 404, id="by another name"),
        pytest.param(OWNER, "/debug/jobs/default/jobsets/gone", 403, id="but not JobSets"),
        pytest.param(OWNER, f"{ELSEWHERE}there", 403, id="nor a job elsewhere"),
        pytest.param(OWNER, f"{ELSEWHERE}gone", 403, id="nor whether it exists"),
        pytest.param(OWNER, "/", 403, id="nor the list of paths"),
        pytest.param(READER, "/", 200, id="which needs the chart's role"),
        pytest.param(READER, "/openapi.json", 200, id="as does the contract"),
        pytest.param(READER, JOB, 403, id="which does not allow a job"),
    ],
)
def test_users_that_may_get_a_job_may_read_its_page(
    world: QueueWorld, exposed: ProgramProcess, user: str, path: str, want: int
) -> None:
    if path.endswith("there"):
        world.create_job("there", "team", namespace="labs")
    token = world.plane.token_for(user) if user else ""
    answer = exposed.ask(path, token=token, tls=True)
    assert answer.status_code == want, answer.text
    if want != 200:
        assert answer.json()["detail"]


def test_on_loopback_browser_pages_of_other_hosts_are_refused(world: QueueWorld) -> None:
    controllers = world.start_controllers(user=ACCOUNT)
    assert controllers.ask(JOB).status_code == 404, "a request under this machine's name"
    assert controllers.ask(JOB, headers={"Host": "evil.example.com"}).status_code == 421
    assert controllers.stop() == 0
