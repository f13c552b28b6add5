"""`koord-queue import kueue` on an API server in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from koord_queue.cli.import_ import import_
from koord_queue.cli.import_run import MOST_NAMED
from koord_queue.errors import CommandError
from shared_api.testing.object_builders import (
    job_body,
    namespace_body,
    queue_unit_body,
)
from tests.koord_queue.importing.kueue_bodies import (
    cluster_queue,
    flavor,
    group,
    local_queue,
    resource,
)
from tests.koord_queue.session.played_session import PlayedSession

Json = dict[str, Any]
DATA = Path(__file__).resolve().parents[2] / "data"
QUOTAS = DATA / "crds/elasticquotas.yaml"
LABEL = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def session() -> PlayedSession:
    """A session on a server with queues and quotas."""
    session = PlayedSession()
    session.server.direct.create_from(QUOTAS)
    session.server.direct.create(namespace_body("koord-queue"))
    return session


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with the objects of Kueue."""
    return write(tmp_path, "9")


def write(folder: Path, cpu: str, **spec: Any) -> str:
    path = folder / "kueue.yaml"
    bodies = [
        flavor("spot", nodeLabels={"type": "spot"}),
        cluster_queue("team", group(resource("cpu", cpu), flavor="spot"), **spec),
        local_queue("default", "user-queue", "team"),
    ]
    path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return str(path)


def run(session: PlayedSession, file: str, **given: Any) -> list[str]:
    """Run the command; return the lines that it has added."""
    before = len(session.out_text.getvalue())
    options = {"source": "kueue", "files": (file,), "jobs": False, "apply": False, "form": "table"}
    command: Any = import_
    command.callback.__wrapped__(session, **{**options, **given})
    return session.out_text.getvalue()[before:].splitlines()


def test_it_says_what_becomes_what_and_what_is_lost(session: PlayedSession, file: str) -> None:
    rows = [line.split(maxsplit=2) for line in run(session, file)]
    assert rows == [
        ["FROM", "BECOMES", "WITH"],
        ["ClusterQueue/team", "Queue/koord-queue/team", "policy Priority"],
        ["ClusterQueue/team", "ElasticQuota/koord-queue/team", "min cpu 9; max cpu 9"],
        [
            "LocalQueue/default/user-queue",
            "Namespace/default",
            "label quota.scheduling.koordinator.sh/name=team on jobs",
        ],
        ["ResourceFlavor/spot", "-", "nothing: see below"],
        [],
        ["NOT-CARRIED-OVER", "FIELD", "WHY"],
        [
            "ResourceFlavor/spot",
            "spec.nodeLabels",
            "Kueue adds them to the jobs: write nodeSelector {type: spot} into their templates",
        ],
    ]


def test_on_a_terminal_nothing_of_a_reason_is_cut(file: str) -> None:
    session = PlayedSession(is_terminal=True)
    text = " ".join(" ".join(run(session, file)).split())
    why = "Kueue adds them to the jobs: write nodeSelector {type: spot} into their templates"
    assert f"ResourceFlavor spot, spec.nodeLabels: {why}" in text


def test_the_page_shows_what_is_printed(session: PlayedSession) -> None:
    lines = run(session, str(DATA / "kueue/single-clusterqueue-setup.yaml"))
    page = (DATA.parents[1] / "docs/coming-from.md").read_text(encoding="utf-8")
    assert "".join(f"    {line}\n" for line in lines) in page


def test_without_apply_nothing_is_written(session: PlayedSession, file: str) -> None:
    run(session, file)
    assert session.server.direct.list("elasticquotas") == []


def test_objects_as_yaml_can_be_applied_by_other_tools(session: PlayedSession, file: str) -> None:
    items = yaml.safe_load("\n".join(run(session, file, form="yaml")))["items"]
    assert [each["kind"] for each in items] == ["Queue", "ElasticQuota"]
    assert "1 thing was not carried over" in session.err_text.getvalue()


def test_a_second_import_changes_only_what_kueue_has_changed(
    session: PlayedSession, file: str, tmp_path: Path
) -> None:
    quota, queue = "elasticquota.scheduling.sigs.k8s.io/team", "queue.scheduling.x-k8s.io/team"
    first = run(session, file, apply=True)
    assert first == [f"{queue} created", f"{quota} created", "namespace/default configured"]
    again = run(session, file, apply=True)
    assert again == [f"{queue} unchanged", f"{quota} unchanged", "namespace/default unchanged"]
    third = run(session, write(tmp_path, "12", stopPolicy="Hold"), apply=True)
    assert third == [
        f"{queue} configured",
        f"{quota} configured",
        "namespace/default unchanged",
    ]
    (found,) = session.server.direct.list("elasticquotas")
    assert found["spec"]["max"] == {"cpu": "12"}


def test_a_quota_that_others_have_made_stops_the_import(session: PlayedSession, file: str) -> None:
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "team", "namespace": "koord-queue"},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "1"}},
    }
    session.server.direct.create_all([quota])
    with pytest.raises(CommandError, match="were not made by an import: elasticquota") as caught:
        run(session, file, apply=True)
    assert "created-by=koord-queue-import" in caught.value.next_step
    assert session.server.direct.list("queues") == []


def test_jobs_that_run_are_adopted_before_others_wait(session: PlayedSession, file: str) -> None:
    labels = {"labels": {LABEL: "user-queue"}}
    session.server.direct.create_all(
        [
            job_body("held", metadata=labels, suspend=True),
            job_body("running", metadata=labels, suspend=False),
        ]
    )

    listed = run(session, file, jobs=True)
    assert [line.split() for line in listed[-2:]] == [
        ["Job/default/running", "runs", "team"],
        ["Job/default/held", "waits", "team"],
    ]

    def adopt() -> None:
        held = session.server.direct.get("jobs", "held", "default")
        assert LABEL in held["metadata"]["labels"], "it must not wait before"
        consumer = {"apiVersion": "batch/v1", "kind": "Job", "name": "running"}
        unit = queue_unit_body("running", consumerRef=consumer)
        if not session.server.direct.exists("queueunits", "running", "default"):
            session.server.direct.create(unit)
        status = {"status": {"phase": "Running"}}
        session.server.direct.patch(
            "queueunits", "running", status, namespace="default", subresource="status"
        )

    session.time.meanwhile = adopt
    lines = run(session, file, apply=True, jobs=True)
    assert lines[-2:] == [
        "Job/default/running goes on, charged to team",
        "Job/default/held waits, in quota team",
    ]
    again = run(session, file, apply=True, jobs=True)
    assert [line for line in again if line.startswith("Job")] == []


def test_a_job_of_a_lost_cluster_queue_is_left_alone_and_named(
    session: PlayedSession, file: str
) -> None:
    lost = local_queue("default", "main", "legacy")
    Path(file).write_text(f"{Path(file).read_text()}---\n{yaml.safe_dump(lost)}")
    of_others = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "legacy", "namespace": "koord-queue"},
        "spec": {"min": {"cpu": "9"}, "max": {"cpu": "9"}},
    }
    labels = {LABEL: "main"}
    held = job_body("lost", metadata={"labels": labels}, suspend=True)
    session.server.direct.create_all([of_others, held])
    why = "its LocalQueue main names ClusterQueue legacy, which does not exist"

    listed = run(session, file, jobs=True)
    assert listed[-1].split(maxsplit=2) == ["Job/default/lost", f"metadata.labels[{LABEL}]", why]
    run(session, file, jobs=True, apply=True)
    assert session.server.direct.get("jobs", "lost", "default")["metadata"]["labels"] == labels
    named = f"note: Job/default/lost is left alone, metadata.labels[{LABEL}]: {why}\n"
    assert named in session.err_text.getvalue()


@pytest.mark.parametrize("how", [{"apply": True}, {"form": "yaml"}], ids=["applied", "as YAML"])
def test_only_some_of_many_jobs_that_are_left_alone_are_named(
    session: PlayedSession, file: str, how: Json
) -> None:
    for number in range(MOST_NAMED + 2):
        gone = {"labels": {LABEL: "gone"}}
        session.server.direct.create(job_body(f"job-{number:02}", metadata=gone, suspend=True))
    run(session, file, jobs=True, **how)
    got = session.err_text.getvalue().splitlines()
    assert sum("is left alone" in line for line in got) == MOST_NAMED
    assert got[-1].startswith("note: 2 more are left alone")


def test_without_controllers_those_that_wait_are_left(session: PlayedSession, file: str) -> None:
    labels = {"labels": {LABEL: "user-queue"}}
    session.server.direct.create_all(
        [
            job_body("held", metadata=labels, suspend=True),
            job_body("running", metadata=labels, suspend=False),
        ]
    )
    with pytest.raises(CommandError, match="1 jobs that run were not adopted"):
        run(session, file, apply=True, jobs=True)
    held = session.server.direct.get("jobs", "held", "default")
    assert held["metadata"]["labels"] == {LABEL: "user-queue"}


def test_a_second_try_waits_for_the_jobs_of_the_first(session: PlayedSession, file: str) -> None:
    labels = {"labels": {LABEL: "user-queue"}}
    for name, suspend in (("held", True), ("running", False)):
        session.server.direct.create(job_body(name, metadata=labels, suspend=suspend))
    for _ in range(2):
        with pytest.raises(CommandError, match=r"1 jobs that run .* \(Job default/running\)"):
            run(session, file, apply=True, jobs=True)
        assert LABEL in session.server.direct.get("jobs", "held", "default")["metadata"]["labels"]

    consumer = {"apiVersion": "batch/v1", "kind": "Job", "name": "running"}
    session.server.direct.create(queue_unit_body("running", consumerRef=consumer))

    def charge() -> None:
        status, place = {"status": {"phase": "Running"}}, {"namespace": "default"}
        direct = session.server.direct
        direct.patch("queueunits", "running", status, subresource="status", **place)

    session.time.meanwhile = charge
    assert run(session, file, apply=True, jobs=True)[-2:] == [
        "Job/default/running goes on, charged to team",
        "Job/default/held waits, in quota team",
    ]


def test_what_nothing_becomes_any_more_is_kept_and_named(
    session: PlayedSession, tmp_path: Path
) -> None:
    path = tmp_path / "kueue.yaml"
    for names in (["team", "old"], ["team"]):
        bodies = [cluster_queue(name, group(resource("cpu", "1"))) for name in names]
        path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
        assert session.err_text.getvalue() == ""
        run(session, str(path), apply=True)
    objects = "queue.scheduling.x-k8s.io/old elasticquota.scheduling.sigs.k8s.io/old"
    assert session.err_text.getvalue() == (
        f"note: an earlier import has made {objects.replace(' ', ', ')}, and nothing that was read"
        " becomes that now. It is kept; when no job needs it any more, delete it:"
        f" kubectl -n koord-queue delete {objects}\n"
    )
    assert len(session.server.direct.list("queues")) == 2
