"""`POST /debug/try` over the real server: what becomes of a manifest, and who may ask."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.forecast_routes import NewUnitsView
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.try_routes import NOT_IN_TIME
from queue_insight.debug_api.try_views import TryView
from queue_scheduler.debug_api.additions import OFF
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.debug_api.views import view_refusal
from queue_scheduler.decision import Reason, Refusal
from shared_api.authorization.authorizer import Authorizer
from shared_api.caller_shares import token_key
from shared_api.debug_api.access import MAX_NAMESPACES, ReviewedAccess, open_access
from shared_api.debug_api.json_body import JSON, YAML, PostedBody
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.server import MAX_BODY_BYTES
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.objects.queue_unit import QueueUnit
from shared_api.program import READERS
from shared_api.question_errors import Code, QuestionError
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to
from tests.queue_scheduler.shell_kit import ShellKit, busy_kit
from tests.served_app import served

Json = dict[str, Any]

MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: {namespace}
  labels: {{quota.scheduling.koordinator.sh/name: team}}
  annotations:
    scheduling.x-k8s.io/priority: "7"
    scheduling.x-k8s.io/max-exec-time-seconds: "60"
spec:
  suspend: true
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]
"""
ANN = {"authorization": "Bearer ann-token"}


def manifest(*, cpu: str = "500m", namespace: str = "default") -> str:
    return MANIFEST.format(cpu=cpu, namespace=namespace)


def build(kit: ShellKit, access: Guard = open_access) -> Any:
    return build_whole_app(Answers(StateAnswers(kit.shared, lambda: True)), access, (), "0.0.0")


@pytest.fixture
def busy() -> ShellKit:
    return busy_kit()


@pytest.fixture
def client(busy: ShellKit) -> Iterator[httpx.Client]:
    with served(build(busy)) as client:
        yield client


def ask(
    client: httpx.Client,
    text: str | bytes,
    query: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    content = text.encode() if isinstance(text, str) else text
    sent = {"Content-Type": YAML, **(headers or {})}
    return client.post("/debug/try", content=content, params=query or {}, headers=sent)


TIMES = {
    "startP10": None,
    "startP50": "2026-11-01T10:00:00Z",
    "startP90": None,
    "endP50": None,
}
FORECAST = {
    **TIMES,
    "withoutArrivals": TIMES,
    "outlook": "times",
    "noTimes": "",
    "similarRuns": 3,
    "neededRuns": 0,
    "sample": 20,
    "seed": 0,
    "computedAt": "2026-11-01T09:00:00Z",
}


IS_OFF = QuestionError(Code.UNAVAILABLE, "it is off")


class Insight:
    """Plays the insight program: foresees all units alike, or refuses."""

    def __init__(self, problem: QuestionError | None = None, *, has_time: bool = True) -> None:
        self.asked: list[list[QueueUnit]] = []
        self._problem, self._has_time = problem, has_time

    def __call__(self, body: PostedBody, caller: str) -> NewUnitsView:
        assert caller == "ann"
        units = msgspec.json.decode(body.content, type=list[QueueUnit])
        self.asked.append(units)
        if self._problem is not None:
            raise self._problem
        known = units if self._has_time else []
        return NewUnitsView.model_validate({"units": {u.metadata.uid: FORECAST for u in known}})

    def answer(self, kit: ShellKit, text: str) -> TryView:
        """Return what a manifest is answered with, beside this program."""
        tries = Answers(StateAnswers(kit.shared, lambda: True)).tries
        body = PostedBody(YAML, text.encode())
        return tries.answer(body, "default", lambda _: None, "ann", foresee=self)


def test_a_job_that_does_not_start_has_a_forecast(busy: ShellKit) -> None:
    """The program is told of all jobs: the first one starts, and takes its share."""
    insight = Insight()
    later = manifest(cpu="2").replace("name: train", "name: later")
    view = insight.answer(busy, f"{manifest()}---{later}")
    (asked,) = insight.asked
    assert [unit.metadata.name for unit in asked] == [job.unit for job in view.jobs]
    first, second = view.jobs
    assert (first.starts_now, first.forecast) == (True, None)
    assert second.forecast is not None
    assert second.forecast.model_dump(by_alias=True) == FORECAST
    assert view.no_forecast == ""


def test_a_job_that_never_starts_as_it_is_has_no_times(busy: ShellKit) -> None:
    (job,) = Insight().answer(busy, manifest(cpu="3")).jobs
    assert job.forecast is not None
    assert (job.forecast.outlook, job.forecast.start_p50) == ("neverAsIs", None)
    assert job.forecast.no_times.endswith("(ExceedsQuota)")


def test_nobody_is_asked_about_a_job_that_starts(busy: ShellKit) -> None:
    insight = Insight()
    assert insight.answer(busy, manifest()).jobs[0].forecast is None
    assert insight.asked == []


@pytest.mark.parametrize(
    ("insight", "want"),
    [
        pytest.param(
            Insight(QuestionError(Code.UNAVAILABLE, "it is off")), "it is off", id="it is off"
        ),
        pytest.param(Insight(has_time=False), NOT_IN_TIME, id="it has no time for a path"),
    ],
)
def test_why_there_is_no_forecast_is_said(busy: ShellKit, insight: Insight, want: str) -> None:
    view = insight.answer(busy, manifest(cpu="3"))
    assert (view.jobs[0].starts_now, view.jobs[0].forecast) == (False, None)
    assert view.no_forecast == want


def test_without_an_insight_program_that_is_why(client: httpx.Client) -> None:
    assert ask(client, manifest(cpu="3")).json()["noForecast"] == OFF
    assert ask(client, manifest()).json()["noForecast"] == ""


def the_job(answer: httpx.Response) -> Json:
    assert answer.status_code == 200, answer.text
    (job,) = answer.json()["jobs"]
    return dict(job)


def test_the_answer_says_what_the_job_would_be(client: httpx.Client) -> None:
    answer = ask(client, manifest())
    whole = answer.json()
    assert (whole["leader"], whole["defaulted"]) == (True, False)
    assert any("PriorityClasses" in each for each in whole["notLookedUp"])
    job = the_job(answer)
    one = {"cpu": "500m", "memory": "1Gi"}
    total = {"cpu": "1", "memory": "2Gi"}
    main = {"name": "train", "count": 2, "minCount": None, "requests": one, "total": total}
    want = {
        "documents": [1],
        "extension": "job",
        "enabled": "unknown",
        "managed": True,
        "reason": "NamesQueueOrQuota",
        "unit": "train",
        "queue": "team",
        "quota": "team",
        "priority": 7,
        "maximumExecutionTimeSeconds": 60,
        "podSets": [main],
        "request": total,
        "position": 1,
        "startsNow": True,
        "summary": "It would start now in queue team.",
        "explanation": None,
    }
    assert {key: job[key] for key in want} == want


def test_a_job_that_would_wait_is_explained(client: httpx.Client) -> None:
    job = the_job(ask(client, manifest(cpu="2"), {"changes": True}))
    assert job["startsNow"] is False
    assert job["summary"].startswith("It would not start now. It waits in queue team, at position")
    assert job["explanation"]["blockers"]
    assert any(each["sufficient"] for each in job["explanation"]["changes"])
    without = the_job(ask(client, manifest(cpu="2")))
    assert without["explanation"]["changes"] is None


def test_json_is_taken_too_and_the_namespace_is_that_of_the_question(client: httpx.Client) -> None:
    body = yaml.safe_load(manifest())
    del body["metadata"]["namespace"]
    job = the_job(client.post("/debug/try", json=body, params={"namespace": "labs"}))
    assert (job["namespace"], job["unit"]) == ("labs", "train")


def test_a_caller_may_say_that_the_api_server_was_asked(client: httpx.Client) -> None:
    said = ask(client, manifest(), {"defaulted": True}).json()
    assert said["defaulted"] is True
    assert not any("defaults" in each for each in said["notLookedUp"])


@pytest.mark.parametrize(
    ("text", "headers", "status", "says"),
    [
        pytest.param("a: [", {}, 422, "not YAML", id="not YAML"),
        pytest.param("a: &a [*a]", {}, 422, "alias", id="a cycle"),
        pytest.param("{", {"Content-Type": JSON}, 422, "cannot be read", id="not JSON"),
        pytest.param("", {}, 422, "no object", id="nothing"),
        pytest.param("a: b", {"Content-Type": "text/plain"}, 415, "application/yaml", id="a type"),
        pytest.param("a" * (MAX_BODY_BYTES + 1), {}, 413, "", id="too long"),
        pytest.param(
            "---".join(manifest(namespace=f"n{n}") for n in range(MAX_NAMESPACES + 1)),
            {},
            422,
            "at most 16 are checked",
            id="many namespaces",
        ),
    ],
)
def test_what_is_refused(
    client: httpx.Client, text: str, headers: dict[str, str], status: int, says: str
) -> None:
    answer = ask(client, text, headers=headers)
    assert answer.status_code == status, answer.text
    assert says in answer.text


def test_an_object_that_is_no_job_has_an_answer_too(client: httpx.Client) -> None:
    job = the_job(ask(client, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}"))
    assert (job["managed"], job["startsNow"], job["unit"]) == (False, None, "")
    assert "Job (batch/v1)" in job["knownKinds"]
    assert job["summary"] == "ConfigMap (v1) is no kind of job that is known."


def test_nothing_is_created(busy: ShellKit, client: httpx.Client) -> None:
    before = busy.shared.copy_records()
    writes = len(busy.server.journal)
    the_job(ask(client, manifest()))
    assert busy.shared.copy_records() == before
    assert len(busy.server.journal) == writes


# --- who may ask ----------------------------------------------------------------------------------


class Rights:
    """What Ann may do, and what was asked about her."""

    def __init__(self) -> None:
        self.allowed = {"create /debug/try", "create jobs default", "list queueunits default"}
        self.asked: list[str] = []

    def allows(self, spec: Json) -> bool:
        path, thing = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
        if path is not None:
            said = f"{path['verb']} {path['path']}"
        else:
            assert thing is not None
            assert thing["group"] in {"batch", "scheduling.x-k8s.io"}
            said = f"{thing['verb']} {thing['resource']} {thing['namespace']}"
        self.asked.append(said)
        return said in self.allowed


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
def guarded(busy: ShellKit, rights: Rights) -> Iterator[httpx.Client]:
    clock = VirtualClock()
    server = FakeApiServer(clock=clock, rng=random.Random(7))
    server.reviews.users["ann-token"] = {"username": "ann", "groups": []}
    server.reviews.allows = rights.allows
    api = client_to(server, clock)
    with served(build(busy, ReviewedAccess(Authorizer(api, clock, READERS)))) as client:
        yield client


def test_who_may_create_the_job_may_try_it(guarded: httpx.Client, rights: Rights) -> None:
    assert the_job(ask(guarded, manifest(), headers=ANN))["startsNow"]
    assert rights.asked[:2] == ["create /debug/try", "create jobs default"]


@pytest.mark.parametrize(
    ("lacks", "headers", "namespace", "status"),
    [
        pytest.param("", {}, "default", 401, id="no token"),
        pytest.param("create /debug/try", ANN, "default", 403, id="not the path"),
        pytest.param("create jobs default", ANN, "default", 403, id="not the job"),
        pytest.param("", ANN, "other", 403, id="not in another namespace"),
    ],
)
def test_who_may_not(
    guarded: httpx.Client,
    rights: Rights,
    lacks: str,
    headers: dict[str, str],
    namespace: str,
    status: int,
) -> None:
    rights.allowed.discard(lacks)
    answer = ask(guarded, manifest(namespace=namespace), headers=headers)
    assert answer.status_code == status, answer.text
    assert "startsNow" not in answer.text


def test_units_of_others_are_counted_and_not_named(client: httpx.Client) -> None:
    view = TryView.model_validate(ask(client, manifest()).json())
    keys = ["default/a", "labs/b", "labs/c"]
    named = view.jobs[0].model_copy(update={"also_starts": keys, "evicts": keys})
    shown = hide(view.model_copy(update={"jobs": [named]}), lambda _: False)
    (job,) = shown.jobs
    assert (job.also_starts, job.other_starts) == (["default/a"], 2)
    assert (job.evicts, job.other_units) == (["default/a"], 2)
    assert job.summary == (
        "It would start now in queue team, after 3 units that start before it and when 3 units"
        " are evicted."
    )


@pytest.mark.parametrize(
    ("may", "starts", "others"),
    [
        pytest.param({"list queueunits default"}, ["default/first"], 0, id="who may read them"),
        pytest.param(set(), [], 1, id="who may not"),
    ],
)
def test_who_reads_the_names_of_units_in_other_namespaces(
    guarded: httpx.Client,
    busy: ShellKit,
    rights: Rights,
    may: set[str],
    starts: list[str],
    others: int,
) -> None:
    rights.allowed = {"create /debug/try", "create jobs labs", *may}
    busy.add_unit("first", cpu=1)
    text = manifest(cpu="0", namespace="labs").replace('"7"', '"-1"')
    job = the_job(ask(guarded, text, headers=ANN))
    assert (job["alsoStarts"], job["otherStarts"]) == (starts, others)


def test_the_explanation_names_no_units_of_others(client: httpx.Client) -> None:
    view = TryView.model_validate(ask(client, manifest(cpu="2")).json())
    (job,) = view.jobs
    assert job.explanation is not None
    blocker = view_refusal(Refusal(reason=Reason.BEHIND_REFUSED_UNIT, other="labs/b"))
    got = {"blockers": [blocker], "summary": "It waits behind labs/b."}
    named = job.model_copy(update={"explanation": job.explanation.model_copy(update=got)})
    shown = hide(view.model_copy(update={"jobs": [named]}), lambda _: False)
    assert "labs/b" not in shown.model_dump_json()
    assert shown.jobs[0].summary.startswith("It would not start now. It waits in queue team")


def test_a_spent_budget_is_said(busy: ShellKit) -> None:
    answers = Answers(StateAnswers(busy.shared, lambda: True))
    clock = VirtualClock()
    answers.tries.budget = QuestionBudget(clock)
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        client.headers["authorization"] = "Bearer of-ann"
        with answers.tries.budget.spend(token_key("of-ann")):
            clock.advance(60.0)
        assert ask(client, manifest()).status_code == 429
        client.headers["authorization"] = "Bearer of-bob"
        assert ask(client, manifest()).status_code == 200, "others have budgets of their own"
