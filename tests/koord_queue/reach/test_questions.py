"""What each question sends to the two APIs, and that a source is asked by the question alone."""

from __future__ import annotations

from typing import Any, Final

import pytest

from koord_queue.reach import questions
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.dump import DumpSource
from koord_queue.reach.errors import NotServed
from koord_queue.reach.questions import BASE, Question
from koord_queue.reach.sources import AggregatedApi, DebugApi, Source
from shared_api.client.transport import Response
from tests.koord_queue.reach.test_cluster import Server

UNIT: Final = "/debug/queueunits/team/train"
PENDING_UNIT: Final = f"{BASE}/namespaces/team/pendingunits/train"


@pytest.mark.parametrize(
    ("question", "want"),
    [
        (questions.explain("team", "train"), f"GET {UNIT}/explain"),
        (questions.explain("team", "train", changes=True), f"GET {UNIT}/explain changes=true"),
        (questions.forecast("team", "train"), f"GET {UNIT}/forecast"),
        (questions.queue_forecast("night"), "GET /debug/queues/night/forecast"),
        (questions.try_(b"{}", "team", is_json=True),
            "POST /debug/try application/json {} namespace=team"),
        (questions.try_(b"a:", "team", is_json=False, changes=True, defaulted=True),
            "POST /debug/try application/yaml a: namespace=team changes=true defaulted=true"),
        (questions.what_if(b"{}"), "POST /debug/what-if application/json {}"),
        (questions.route("/debug/log", (("limit", "1"),)), "GET /debug/log limit=1"),
    ],
)  # fmt: skip
def test_what_is_sent_to_the_debug_api(question: Question[bytes], want: str) -> None:
    server = Server(Response(200, {}, b"answer"))
    assert DebugApi(Cluster(server, "", "server")).answer(question) == b"answer"
    assert sent_to(server) == want


@pytest.mark.parametrize(
    ("question", "want"),
    [
        (questions.explain("team", "train"), f"GET {PENDING_UNIT}/explain"),
        (questions.explain("team", "train", changes=True),
            f"GET {PENDING_UNIT}/explain changes=true"),
        (questions.forecast("team", "train"), f"GET {PENDING_UNIT}/forecast"),
        (questions.try_(b"a:", "team", is_json=False, defaulted=True),
            f"POST {BASE}/namespaces/team/tries application/yaml a: defaulted=true"),
    ],
)  # fmt: skip
def test_what_is_sent_to_the_aggregated_api(question: Question[bytes], want: str) -> None:
    server = Server(Response(200, {}, b'{"kind": "x", "status": {"a": 1}}'))
    assert AggregatedApi(Cluster(server, "", "server")).answer(question) == b'{"a": 1}'
    assert sent_to(server) == want


def sent_to(server: Server) -> str:
    """Return the one request as a line: what is sent, with its media type, and the query."""
    (request,) = server.asked
    body = [dict(request.headers)["Content-Type"], request.body.decode()] if request.body else []
    query = [f"{name}={value}" for name, value in request.query]
    return " ".join((request.method, request.path, *body, *query))


class NoDump:
    """Stands for the answers of a dump, none of which are asked for."""


def sources() -> list[Source]:
    cluster = Cluster(Server(Response(200, {}, b"{}")), "", "server")
    dump: Any = NoDump()
    return [DebugApi(cluster), AggregatedApi(cluster), DumpSource(dump)]


def test_a_new_question_is_answered_by_every_source() -> None:
    new = Question("news", lambda _: "debug", lambda _: "aggregated", lambda _: "dump")
    assert [source.answer(new) for source in sources()] == ["debug", "aggregated", "dump"]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        (questions.queue_forecast("night"), "the forecast of queue night"),
        (questions.what_if(b"{}"), "what-if"),
        (questions.route("/debug/log"), "/debug/log"),
    ],
)
def test_a_question_that_the_aggregated_api_never_answers_is_named(
    question: Question[bytes], name: str
) -> None:
    _, aggregated, _ = sources()
    with pytest.raises(NotServed) as got:
        aggregated.answer(question)
    assert got.value.message == f"the aggregated API does not have {name}"


def test_a_dump_has_no_routes() -> None:
    _, _, dump = sources()
    with pytest.raises(NotServed, match="a dump does not answer /debug/log"):
        dump.answer(questions.route("/debug/log"))
