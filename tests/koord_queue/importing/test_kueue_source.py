"""Kueue's objects are read from whichever version is served, or from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord_queue.errors import CommandError
from koord_queue.importing.kueue_objects import read_objects
from koord_queue.importing.kueue_plan import plan_import
from koord_queue.importing.kueue_source import read_cluster, read_files, read_jobs
from koord_queue.reach.cluster import Cluster
from shared_api.client.transport import Request, Response
from shared_api.testing.object_builders import job_body
from tests.koord_queue.importing.kueue_bodies import cluster_queue, group, local_queue, resource
from tests.koord_queue.session.played_session import PlayedSession
from tests.sample_jobs import crd

Json = dict[str, Any]
KINDS = (
    *("admissionchecks", "clusterqueues", "cohorts"),
    *("localqueues", "resourceflavors", "workloadpriorityclasses"),
)
LABELS = {"labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}


@pytest.mark.parametrize("versions", [["v1beta1", "v1beta2"], ["v1beta1"], ["v1beta2"]])
def test_the_served_version_is_read(versions: list[str]) -> None:
    session = PlayedSession()
    for kind in KINDS:
        body = crd(kind)
        for each in body["spec"]["versions"]:
            each["served"] = each["name"] in versions
        session.server.direct.create(body)
    session.server.direct.create(cluster_queue("team", version=versions[-1], cohortName="both"))
    found = read_cluster(session.cluster())
    assert [each.metadata.name for each in found.cluster_queues] == ["team"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"version": "v1beta1", "cohort": "both"}, id="v1beta1"),
        pytest.param({"cohortName": "both"}, id="v1beta2"),
    ],
)
def test_a_cohort_is_named_in_both_versions(spec: Json) -> None:
    (queue,) = read_objects([cluster_queue("team", **spec)]).cluster_queues
    assert queue.cohort == "both"


def test_without_kueue_files_are_the_next_step() -> None:
    with pytest.raises(CommandError, match="Kueue is not installed") as caught:
        read_cluster(PlayedSession().cluster())
    assert "--file FILE" in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kind: [", "not valid YAML", id="no YAML"),
        pytest.param("- a", "an object has no kind", id="a list"),
        pytest.param("kind: Job", "no object of kueue.x-k8s.io is in", id="other objects"),
        pytest.param("", "no object of kueue.x-k8s.io is in", id="nothing"),
    ],
)
def test_a_file_without_objects_is_named(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "kueue.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=want):
        read_files([str(path)])


def test_a_file_may_be_a_list_as_kubectl_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "kueue.json"
    items = [cluster_queue("team"), local_queue("a", "one", "team")]
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    found = read_files([str(path)])
    assert (len(found.cluster_queues), len(found.local_queues)) == (1, 1)


class NoCronJobs(PlayedSession):
    """A session that may not list CronJobs."""

    def send(self, request: Request, timeout_seconds: float) -> Response:
        if request.path.endswith("/cronjobs"):
            body = json.dumps({"reason": "Forbidden", "message": "you may not", "code": 403})
            return Response(403, {}, body.encode())
        return super().send(request, timeout_seconds)


def test_kinds_that_may_not_be_listed_are_told() -> None:
    session = NoCronJobs()
    session.server.direct.create(job_body("train", metadata=LABELS))
    session.server.direct.create(job_body("other"))
    team = cluster_queue("team", group(resource("cpu", "9")))
    objects = read_objects([team, local_queue("default", "user-queue", "team")])
    cluster: Cluster = session.cluster()
    found = read_jobs(cluster, objects, plan_import(objects, "koord-queue"))
    assert [each.name for each in found.moved] == ["train"]
    assert found.unread == ["CronJob: you may not"]
