"""Which unit a question is about, and why a job has none."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from koord_queue.answers.jobs import Job, JobProblem, JobUnit
from koord_queue.errors import CommandError
from koord_queue.reach.choice import Choice
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.errors import Missing, NotServed
from koord_queue.reach.port_forward import SCHEDULER
from koord_queue.session.session import Session
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.object_builders import consumer_ref, job_body, owned_by, pod_body
from shared_api.testing.object_builders import queue_unit_body as unit_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.koord_queue.reach.test_port_forward import LISTENS, cluster, is_running, stand_in
from tests.koord_queue.session.played_session import PlayedSession

Json = dict[str, Any]
UNIT = "koord-queue/related-queueunit"
GROUP = "pod-group.scheduling.sigs.k8s.io/name"


class Controllers:
    """Answers about all jobs alike, and notes which are asked about."""

    def __init__(self, answer: Job | CommandError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, str]] = []

    def job(self, namespace: str, kind: str, name: str) -> Job:
        """Answer, or refuse to."""
        self.asked.append((namespace, kind, name))
        if isinstance(self.answer, CommandError):
            raise self.answer
        return self.answer


@pytest.fixture
def session() -> PlayedSession:
    """A session in whose namespace job near has a unit."""
    session = PlayedSession()
    direct = session.server.direct
    near = direct.create(job_body("near", quota="team"))
    unit = unit_body("near-job", quota="team")
    unit["spec"]["consumerRef"] = consumer_ref(near)
    direct.create(unit)
    return session


def why(session: PlayedSession, named: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        session.unit_or_why(named)
    return caught.value


UNMANAGED = Job(
    kind="Job",
    name="neat",
    reason="NamesNothing",
    message="It is not managed: it names no queue or quota. It runs at once",
    problems=(JobProblem(reason="KeyWithoutEffect", message="Did you mean that?"),),
)


def test_a_job_that_is_not_managed_is_told_with_the_reason_and_the_fix(
    session: PlayedSession,
) -> None:
    session.job_source = Controllers(UNMANAGED)
    got = why(session, "jobs.batch/neat")
    assert got.message == (
        "job/neat has no queue unit. It is not managed: it names no queue or quota. It runs at once"
    )
    assert (got.next_step, got.exit_code) == ("Did you mean that?", 1)
    assert session.job_source.asked == [("default", "jobs.batch", "neat")]


def test_where_the_controllers_cannot_be_asked_the_old_hint_stays(session: PlayedSession) -> None:
    got = why(session, "job/neat")
    assert got.message == (
        "no unit of namespace default belongs to job/neat; whether it is managed is not known:"
        " you may not forward ports in namespace koord-queue"
    )
    assert got.next_step == "Did you mean job/near?"


def test_of_a_job_that_does_not_exist_the_nearest_is_offered(session: PlayedSession) -> None:
    session.job_source = Controllers(Missing("there is no Job 'neat' in namespace 'default'"))
    got = why(session, "job/neat")
    assert got.message == (
        "no unit of namespace default belongs to job/neat,"
        " and there is no Job 'neat' in namespace 'default'"
    )
    assert got.next_step == "Did you mean job/near?"


def test_the_unit_that_the_controllers_name_is_meant(session: PlayedSession) -> None:
    session.job_source = Controllers(Job(kind="Job", name="x", unit=JobUnit(name="near-job")))
    assert session.unit_or_why("Jobs.v1.batch/x") == ("default", "near-job")


@pytest.mark.parametrize("named", ["neat", "jbo/near", "unit/neat", "default/neat"])
def test_where_no_kind_is_named_nobody_is_asked(session: PlayedSession, named: str) -> None:
    session.job_source = Controllers(UNMANAGED)
    assert "neat" in why(session, named).message or "near" in why(session, named).message
    assert session.job_source.asked == []


def test_an_act_on_a_pod_is_none_on_its_job(session: PlayedSession) -> None:
    session.server.direct.create(pod("p", annotations={UNIT: "default/near-job"}))
    with pytest.raises(CommandError, match="no unit of namespace default belongs to pod/p"):
        session.unit("pod/p")


# --- pods -----------------------------------------------------------------------------------------


def pod(name: str, owner: Json | None = None, **metadata: Any) -> Json:
    body = pod_body(name)
    body["metadata"] |= metadata
    if owner is not None:
        body["metadata"] |= owned_by(owner)
    return body


def test_a_pod_is_a_part_of_the_unit_that_it_names(session: PlayedSession) -> None:
    session.server.direct.create(pod("p", annotations={UNIT: "default/near-job"}))
    assert session.unit_or_why("pod/p") == ("default", "near-job")
    assert "pod/p is a part of job/near" in session.err_text.getvalue()


def test_a_pod_is_a_part_of_its_owners_unit(session: PlayedSession) -> None:
    near = session.server.direct.get("jobs", "near", "default")
    session.server.direct.create(pod("p", near))
    assert session.unit_or_why("po/p") == ("default", "near-job")


def test_a_pod_is_a_part_of_the_job_above_its_owner(session: PlayedSession) -> None:
    direct = session.server.direct
    inner = job_body("inner")
    inner["metadata"] |= owned_by(direct.get("jobs", "near", "default"))
    direct.create(pod("p", direct.create(inner)))
    assert session.unit_or_why("pods/p") == ("default", "near-job")


def test_a_pod_is_a_part_of_its_group(session: PlayedSession) -> None:
    unit = unit_body("ring", quota="team")
    group = {"apiVersion": "v1", "kind": "PodGroup", "name": "ring", "namespace": "default"}
    unit["spec"]["consumerRef"] = group
    session.server.direct.create(unit)
    session.server.direct.create(pod("p", labels={GROUP: "ring"}))
    assert session.unit_or_why("pod/p") == ("default", "ring")


def test_of_a_pod_whose_job_has_no_unit_the_job_is_asked_about(session: PlayedSession) -> None:
    direct = session.server.direct
    direct.create(pod("p", direct.create(job_body("neat"))))
    session.job_source = Controllers(UNMANAGED)
    assert why(session, "pod/p").message.startswith("job/neat has no queue unit. It is not managed")
    assert session.job_source.asked == [("default", "job.batch", "neat")]
    assert "pod/p is a part of job/neat" in session.err_text.getvalue()


@pytest.mark.parametrize("is_owned", [False, True], ids=["no owner", "of a Deployment"])
def test_of_a_pod_of_its_own_the_pod_is_asked_about(
    session: PlayedSession, *, is_owned: bool
) -> None:
    web = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1"}}
    owner = session.server.direct.create(web | {"spec": {}}) if is_owned else None
    session.server.direct.create(pod("p", owner))
    session.job_source = Controllers(Job(kind="Pod", name="p", message="It is not managed"))
    assert why(session, "pod/p").message == "pod/p has no queue unit. It is not managed"
    assert session.job_source.asked == [("default", "pod", "p")]


def test_a_pod_that_is_not_there(session: PlayedSession) -> None:
    session.job_source = Controllers(UNMANAGED)
    got = why(session, "pod/none")
    assert got.message.startswith("no unit of namespace default belongs to pod/none: ")
    assert session.job_source.asked == []


class InCluster(Session):
    """A session whose API server lets the user forward ports."""

    def cluster(self) -> Cluster:
        return cluster()


def test_connections_to_a_debug_api_end_with_the_session() -> None:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    with server.serve_http() as face:
        with Session(Choice(server=face.url)) as session:
            with pytest.raises(NotServed):
                session.debug("/debug/queues")
            with pytest.raises(NotServed):
                session.controllers().job("team", "job", "x")
        face.wait_for_clients()


def test_port_forwards_end_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    stand_in(tmp_path, LISTENS)
    with InCluster(Choice()) as session:
        assert session.forwarded(SCHEDULER) == "http://127.0.0.1:41234"
        assert is_running(tmp_path)
    assert not is_running(tmp_path)
