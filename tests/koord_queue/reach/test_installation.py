from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from koord_queue.checks.every_check import look
from koord_queue.checks.facts import Answer, Facts
from koord_queue.checks.findings import Level
from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.installation import Installation, NamedServer
from tests.koord_queue.checks.healthy import deployment, named

NOW: Final = datetime(2026, 11, 26, 10, tzinfo=UTC)
UNITS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/queueunits"
OWN_UNITS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
VISIBILITY: Final = "/apis/visibility.koord-queue/v1alpha1"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/koord-queue/deployments"
Said = dict[str, Any]


class PlayedServer:
    """Answers what it was told to, and nothing else."""

    answered_at = "Thu, 26 Nov 2026 10:00:01 GMT"

    def __init__(self, said: Said, *, allowed: bool = True) -> None:
        self._said = {"/version": {"gitVersion": "v1.36.0"}} | said
        self._allowed = allowed
        self.paths: list[str] = []
        self.reviews: list[dict[str, Any]] = []

    def get(self, path: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        token = dict(query).get("continue", "")
        self.paths.append(path)
        answer = self._said.get(path + token, Missing("not found"))
        if isinstance(answer, CommandError):
            raise answer
        return msgspec.json.encode(answer)

    def send(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        query: tuple[tuple[str, str], ...] = (),
    ) -> bytes:
        review = msgspec.json.decode(body)
        self.reviews.append({"path": path, **review["spec"]})
        return msgspec.json.encode({"status": {"allowed": self._allowed}})


def gather(said: Said, *skipped: str, server: PlayedServer | None = None) -> Facts:
    played = server or PlayedServer(said)
    installation = Installation(played, "koord-queue", "default")
    return installation.gather(version="0.1.0", now=lambda: NOW, skipped=skipped)


def page(*names: str, token: str = "") -> dict[str, Any]:
    return {"metadata": {"continue": token}, "items": [named(name) for name in names]}


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(page("a"), Answer(page("a")), id="an answer"),
        pytest.param(Missing("no"), Answer(), id="there is none"),
        pytest.param(NotServed("404"), Answer(), id="the group is not served"),
        pytest.param(
            Refused("no"),
            Answer(right="list deployments.apps in namespace koord-queue"),
            id="no right",
        ),
        pytest.param(CommandError("it is down"), Answer(failure="it is down"), id="no answer"),
    ],
)
def test_a_refusal_is_an_answer(answer: Any, want: Answer) -> None:
    assert gather({DEPLOYMENTS: answer}).deployments == want


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            NotServed("status 503"),
            "status 503",
            id="its server is down",
        ),
        pytest.param(NotServed("404 page not found"), "", id="it is not known"),
    ],
)
def test_an_aggregated_api_that_is_down_is_told_from_one_that_is_not_there(
    error: NotServed, want: str
) -> None:
    assert gather({VISIBILITY: error}).served[VISIBILITY.removeprefix("/apis/")].failure == want


def test_units_are_read_to_the_end() -> None:
    facts = gather({UNITS: page("a", token="next"), f"{UNITS}next": page("b")})
    assert [each["metadata"]["name"] for each in facts.units.items] == ["a", "b"]
    assert not facts.units.is_cut


def test_who_may_read_one_namespace_sees_its_units() -> None:
    facts = gather({UNITS: Refused("no"), OWN_UNITS: page("own")})
    assert [each["metadata"]["name"] for each in facts.units.items] == ["own"]
    nothing = gather({UNITS: Refused("no"), OWN_UNITS: Refused("no")})
    assert nothing.units.right == "list queueunits.scheduling.x-k8s.io in namespace default"


def test_nothing_is_asked_for_a_check_that_is_skipped() -> None:
    server = PlayedServer({})
    gather({}, "units", "rights", "accounts", server=server)
    assert UNITS not in server.paths
    assert server.reviews == []


def test_the_time_is_that_of_the_same_answer() -> None:
    server = PlayedServer({})
    facts = gather({}, server=server)
    assert (facts.now, facts.server_time) == (NOW, NOW.replace(second=1))
    server.answered_at = ""
    assert gather({}, server=server).server_time is None


def test_the_accounts_are_reviewed_as_their_pods_would_be() -> None:
    server = PlayedServer({DEPLOYMENTS: {"items": [deployment("scheduler")]}})
    facts = gather({}, server=server)
    review = server.reviews[-1]
    assert review["path"].endswith("/subjectaccessreviews")
    assert review["user"] == "system:serviceaccount:koord-queue:koord-queue"
    assert "system:serviceaccounts:koord-queue" in review["groups"]
    assert review["resourceAttributes"]["name"] == "koord-queue-lease"
    assert len(facts.accounts) > 1


def test_nobody_is_reviewed_without_the_right_to() -> None:
    server = PlayedServer({DEPLOYMENTS: {"items": [deployment("scheduler")]}}, allowed=False)
    assert gather({}, server=server).accounts == ()


def test_nothing_more_is_asked_of_a_server_that_does_not_answer() -> None:
    server = PlayedServer({"/version": CommandError("it is down")})
    [finding] = look(gather({}, server=server))
    assert (finding.level, finding.text) == (Level.PROBLEM, "it cannot be asked: it is down")
    assert server.paths == ["/version"]


def test_schedulers_of_all_namespaces_are_looked_for() -> None:
    said = page("a", "b")
    assert gather({"/apis/apps/v1/deployments": said}).schedulers.items == said["items"]
    server = PlayedServer({})
    gather({}, "alone", "koordinator", server=server)
    assert "/apis/apps/v1/deployments" not in server.paths


def refuse() -> bytes:
    raise CommandError("connection refused")


@pytest.mark.parametrize(
    ("ask", "deployments", "want"),
    [
        pytest.param(lambda: b"{}", [], Answer({}), id="it answers"),
        pytest.param(refuse, [], Answer(failure="connection refused"), id="it does not answer"),
        pytest.param(refuse, [deployment("scheduler")], Answer(), id="a scheduler is installed"),
    ],
)
def test_a_named_server_is_asked_where_no_scheduler_is_installed(
    ask: Callable[[], bytes], deployments: list[Any], want: Answer
) -> None:
    played = PlayedServer({DEPLOYMENTS: {"items": deployments}})
    server = NamedServer("http://127.0.0.1:19876", ask)
    installation = Installation(played, "koord-queue", "default", server)
    facts = installation.gather(version="0.1.0", now=lambda: NOW)
    assert (facts.server_url, facts.debug_api) == (server.url, want)


SCHEDULERS: Final = "/apis/apps/v1/deployments"
USUAL_PLACE: Final = "/api/v1/namespaces/koordinator-system/configmaps/koord-scheduler-config"
OTHER_PLACE: Final = "/api/v1/namespaces/elsewhere/configmaps/mine"


@pytest.mark.parametrize(
    ("schedulers", "path", "key"),
    [
        pytest.param([], USUAL_PLACE, "koordinator-system/koord-scheduler-config", id="none"),
        pytest.param(["mine"], OTHER_PLACE, "elsewhere/mine", id="one in another namespace"),
    ],
)
def test_the_configuration_of_koord_scheduler_is_read_where_it_is(
    schedulers: list[str], path: str, key: str
) -> None:
    items = []
    for name in schedulers:
        pod = {"spec": {"volumes": [{"configMap": {"name": name}}]}}
        items.append(named("koord-scheduler", "elsewhere", spec={"template": pod}))
    server = PlayedServer({SCHEDULERS: {"items": items}, path: {"data": {}}})
    facts = gather({}, "alone", server=server)
    assert facts.scheduler_configs == {key: Answer({"data": {}})}
    assert server.paths.count(path) == 1
    assert not any("configmaps/" in each for each in server.paths if each != path)


def test_what_is_skipped_is_not_asked_for() -> None:
    server = PlayedServer({})
    gather({}, "koordinator", server=server)
    assert USUAL_PLACE not in server.paths
