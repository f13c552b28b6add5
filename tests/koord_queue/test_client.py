"""The client submits and follows jobs on an API server in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from koord_queue import client
from koord_queue.acts.manifest import Wishes, read_drafts
from koord_queue.cli.submit_run import _Submission
from koord_queue.client import Client, CommandError, FollowTimeout, State
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.dry_run import DryRuns
from koord_queue.reach.questions import BASE
from koord_queue.reach.sources import AggregatedApi, DebugApi
from shared_api.client.transport import Response
from shared_api.testing.object_builders import job_body, queue_unit_body
from tests.koord_queue.reach.test_cluster import Server
from tests.koord_queue.session.played_session import PlayedSession

Json = dict[str, Any]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PlayedSession:
    """The session that a client has."""
    played = PlayedSession()
    monkeypatch.setattr(client, "Session", lambda _choice: played)
    return played


def names(session: PlayedSession) -> list[str]:
    return [each["metadata"]["name"] for each in session.server.direct.list("jobs")]


AS_YAML = yaml.safe_dump(job_body("a"))


def as_file(folder: Path) -> Path:
    path = folder / "job.yaml"
    path.write_text(AS_YAML, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda _: job_body("a"), id="an object"),
        pytest.param(lambda _: [job_body("a")], id="objects"),
        pytest.param(lambda _: AS_YAML, id="a text"),
        pytest.param(as_file, id="a path"),
        pytest.param(lambda folder: str(as_file(folder)), id="a path as text"),
    ],
)
def test_a_manifest_has_any_form(
    session: PlayedSession, tmp_path: Path, form: Callable[[Path], Any]
) -> None:
    (job,) = Client().submit(form(tmp_path), quota="team", priority=5)
    assert (job.named, job.namespace, names(session)) == ("job/a", "default", ["a"])
    metadata = session.server.direct.get("jobs", "a", "default")["metadata"]
    assert metadata["labels"] == {"quota.scheduling.koordinator.sh/name": "team"}
    assert metadata["annotations"] == {"scheduling.x-k8s.io/priority": "5"}


def test_nothing_is_created_if_one_object_is_refused(session: PlayedSession) -> None:
    wrong = job_body("b", parallelism=-1)
    with pytest.raises(CommandError) as caught:
        Client().submit([job_body("a"), wrong])
    assert "Nothing was" in caught.value.next_step
    assert names(session) == []


def test_what_a_webhook_would_keep_is_created_untried(
    session: PlayedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DryRuns, "why_not", lambda _self, _resource: "it would be kept")
    Client().submit(job_body("a"))
    drafts = read_drafts([job_body("b")], Wishes())
    _Submission(session, drafts).send(dry_run=True)
    sent = [each.info for each in session.server.journal if each.info.is_write]
    assert [(each.verb, each.plural) for each in sent] == [("create", "jobs")]
    assert names(session) == ["a"]
    assert session.err_text.getvalue() == "note: Job b: it would be kept\n"


def test_a_job_is_followed_until_it_ends(session: PlayedSession) -> None:
    direct = session.server.direct
    (job,) = Client().submit(job_body("a"))
    consumer = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": job.uid}
    phases = iter(["Enqueued", "Enqueued", "Running", "Succeed"])
    direct.create(queue_unit_body("a", queue="night", consumerRef=consumer))

    def go_on() -> None:
        direct.patch(
            "queueunits",
            "a",
            {"status": {"phase": next(phases)}},
            namespace="default",
            subresource="status",
        )

    session.time.meanwhile = go_on
    seen = [each.state for each in job.follow()]
    assert seen == [State.WAITS, State.RUNS, State.SUCCEEDED]


def test_a_job_that_does_not_end_in_time_goes_on(session: PlayedSession) -> None:
    (job,) = Client().submit(job_body("a"))
    with pytest.raises(FollowTimeout, match="has not ended within 5 s: it has no queue unit"):
        job.wait(timeout=5)
    assert names(session) == ["a"]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda direct: direct.delete("jobs", "a", "default"), "deleted", id="deleted"),
        pytest.param(lambda _: None, "left alone", id="it never gets a unit"),
    ],
)
def test_a_job_without_a_unit(
    session: PlayedSession, change: Callable[[Any], None], want: str
) -> None:
    (job,) = Client().submit(job_body("a"))
    change(session.server.direct)
    assert job.wait().value == want


def test_answers_are_values(session: PlayedSession) -> None:
    body = b'{"started": [{"unit": "default/train"}], "startedCount": 1}'
    server = Server(Response(200, {}, body))
    session.source = DebugApi(Cluster(server, "", "server"))
    with Client() as queue:
        got = queue.what_if(queues=["night.policy=FIFO"], horizon="6h", seed=3)
    assert [each.unit for each in got.started] == ["default/train"]
    edit = {"kind": "Queue", "name": "night", "patch": {"spec": {"queuePolicy": "FIFO"}}}
    want = {"edits": [edit], "horizonSeconds": 21600.0, "seed": 3}
    assert msgspec.json.decode(server.asked[0].body) == want


def test_forecasts_are_values(session: PlayedSession) -> None:
    session.server.direct.create(queue_unit_body("train"))
    server = Server(
        Response(200, {}, b'{"name": "train", "startP50": "2026-11-26T10:00:00Z"}'),
        Response(200, {}, b'{"queue": "night", "units": [{"name": "train"}]}'),
    )
    session.source = DebugApi(Cluster(server, "", "server"))
    queue = Client()
    assert queue.forecast("unit/train").start_p50 == "2026-11-26T10:00:00Z"
    assert [each.name for each in queue.queue_forecast("queue/night").units] == ["train"]
    assert [request.path for request in server.asked] == [
        "/debug/queueunits/default/train/forecast",
        "/debug/queues/night/forecast",
    ]


@pytest.mark.parametrize(
    ("given", "path", "selector"),
    [
        pytest.param({}, "/namespaces/default", None, id="the namespace"),
        pytest.param({"queue": "night"}, "/namespaces/default", "spec.queue=night", id="a queue"),
        pytest.param({"everywhere": True}, "", None, id="all namespaces"),
    ],
)
def test_what_waits(session: PlayedSession, given: Json, path: str, selector: str | None) -> None:
    server = Server(Response(200, {}, b"{}"))
    session.source = AggregatedApi(Cluster(server, "", "server"))
    assert Client().pending(**given) == []
    (request,) = server.asked
    assert request.path == f"{BASE}{path}/pendingunits"
    assert dict(request.query).get("fieldSelector") == selector


def test_a_manifest_is_tried_as_the_server_would_have_it(session: PlayedSession) -> None:
    answer = b'{"status": {"jobs": [{"name": "a", "startsNow": true}]}}'
    server = Server(Response(200, {}, answer))
    session.source = AggregatedApi(Cluster(server, "", "server"))
    (job,) = Client().try_(job_body("a")).jobs
    assert (job.name, job.starts_now) == ("a", True)
    (request,) = server.asked
    assert request.path == f"{BASE}/namespaces/default/tries"
    assert request.query == (("defaulted", "true"),)
    assert ("Content-Type", "application/json") in request.headers
    assert msgspec.json.decode(request.body)["items"][0]["metadata"]["uid"]
    assert names(session) == []


def test_what_has_no_answer_says_what_to_do(session: PlayedSession) -> None:
    session.server.direct.create(queue_unit_body("train"))
    with pytest.raises(CommandError, match="nobody answers the explanation"):
        Client().explain("unit/train")
