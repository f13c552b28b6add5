"""The routes of the aggregated API: what each answers, and whom."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from itertools import chain

import httpx
import msgspec
import pytest

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.visibility.openapi import BASE
from queue_insight.visibility.statuses import RETRY_SECONDS
from queue_scheduler.debug_api.hiding import OF_OTHERS
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import job_body
from shared_api.well_known_labels import QUOTA_NAME
from tests.queue_insight.forecast.forecast_kit import renew
from tests.queue_insight.visibility.visibility_kit import (
    EVERYWHERE,
    TABLE,
    Desk,
    asking,
    names_of,
    pages_of,
    refusal_of,
    units_path,
)

LINE = f"{BASE}/queues/team/pendingunits"
TRIES = f"{BASE}/namespaces/default/tries"


@pytest.fixture
def desk() -> Desk:
    """Of queue team one unit runs, and three wait; the first of these is of another namespace."""
    desk = Desk()
    desk.add_queue("team")
    desk.add_unit("run", cpu=3)
    desk.decide()
    desk.add_unit("secret", cpu=2, namespace="zebra")
    desk.add_unit("big", cpu=2)
    desk.add_unit("next", cpu=2)
    desk.decide()
    return desk


@pytest.fixture
def client(desk: Desk) -> Iterator[httpx.Client]:
    with asking(desk) as client:
        yield client


def test_a_unit_is_an_object(client: httpx.Client) -> None:
    got = client.get(units_path(name="big")).raise_for_status().json()
    refusal = got["status"].pop("refusal")
    assert got == {
        "kind": "PendingUnit",
        "apiVersion": "visibility.koord-queue/v1alpha1",
        "metadata": {
            "name": "big",
            "namespace": "default",
            "uid": "uid-default-big",
            "creationTimestamp": "2026-11-01T09:00:03Z",
        },
        "spec": {
            "queue": "team",
            "quota": "team",
            "priority": 0,
            "job": {"apiVersion": "", "kind": "", "name": ""},
            "demand": {"cpu": "2"},
        },
        "status": {"position": 2, "schedulerState": "waiting", "startP50": None, "noStart": ""},
    }
    assert refusal["reason"] == "OverQuotaMax"
    assert "missing 1 (limit 4, used 3, requested 2)" in refusal["message"]


def test_a_list_has_the_units_in_the_order_of_their_queues(
    desk: Desk, client: httpx.Client
) -> None:
    desk.add_queue("lab", policy="Priority")
    desk.add_unit("low", "lab", cpu=9)
    desk.add_unit("high", "lab", cpu=9, priority=5)
    desk.add_unit("lost", "nowhere")
    want = ["default/lost", "default/high", "default/low"]
    want += ["zebra/secret", "default/big", "default/next"]
    assert names_of(client.get(EVERYWHERE)) == want
    answer = client.get(units_path())
    assert names_of(answer) == [each for each in want if each != "zebra/secret"]
    positions = [each["status"]["position"] for each in answer.json()["items"]]
    assert positions == [0, 1, 2, 2, 3], "those of other namespaces count"


def test_units_of_one_name_in_two_namespaces_have_positions_of_their_own(
    desk: Desk, client: httpx.Client
) -> None:
    desk.add_queue("lab")
    desk.add_unit("first", "lab", cpu=9, namespace="zebra")
    for namespace, name in (("zebra", "team"), ("default", "lab")):
        desk.add_unit("same", name, cpu=9, namespace=namespace)
    got = [
        client.get(units_path(namespace, "same")).json()["status"]["position"]
        for namespace in ("zebra", "default")
    ]
    assert got == [4, 2]


def test_a_unit_that_does_not_wait_is_not_found(client: httpx.Client) -> None:
    answers = [client.get(units_path(name=name)) for name in ("run", "none")]
    assert [refusal_of(each) for each in answers] == [(404, "NotFound")] * 2
    assert answers[0].json()["message"] == (
        'pendingunits.visibility.koord-queue "run" not found: the unit does not wait, it is assumed'
    )
    assert answers[1].json()["details"] == {
        "group": "visibility.koord-queue",
        "kind": "pendingunits",
        "name": "none",
    }


def test_a_namespace_with_nothing_is_empty(client: httpx.Client) -> None:
    answer = client.get(units_path("nobody")).raise_for_status().json()
    assert (answer["kind"], answer["items"]) == ("PendingUnitList", [])
    assert answer["metadata"] == {"continue": "", "remainingItemCount": None}


def test_a_unit_that_leaves_between_two_pages_is_on_the_second(
    desk: Desk, client: httpx.Client
) -> None:
    first = client.get(EVERYWHERE, params={"limit": 2})
    assert names_of(first) == ["zebra/secret", "default/big"]
    reported = first.json()["metadata"]
    assert reported["remainingItemCount"] == 1
    record = desk.shared.ask(lambda engine: engine.record("default/next"))
    assert record is not None
    desk.shared.apply(Engine.on_queue_unit_gone, record.unit)
    desk.add_unit("new", cpu=2)
    second = client.get(EVERYWHERE, params={"limit": 2, "continue": reported["continue"]})
    assert names_of(second) == ["default/next"]
    assert second.json()["items"][0]["status"]["position"] == 3
    assert names_of(client.get(EVERYWHERE))[-1] == "default/new"


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("path", [EVERYWHERE, units_path(), LINE])
def test_pages_are_the_list(client: httpx.Client, path: str, limit: int) -> None:
    whole = names_of(client.get(path))
    pages = pages_of(client, path, limit)
    assert list(chain.from_iterable(pages)) == whole
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param({"limit": "-1"}, (400, "BadRequest"), id="negative"),
        pytest.param({"limit": "many"}, (400, "BadRequest"), id="no number"),
        pytest.param({"limit": "9" * 5000}, (400, "BadRequest"), id="of 5000 digits"),
        pytest.param({"labelSelector": "a=b"}, (400, "BadRequest"), id="by labels"),
        pytest.param({"fieldSelector": "status.x=1"}, (400, "BadRequest"), id="by another field"),
        pytest.param({"continue": "made-up"}, (400, "BadRequest"), id="no token"),
        pytest.param({"continue": "A" * 48}, (410, "Expired"), id="a forged token"),
        pytest.param({"watch": "true"}, (405, "MethodNotAllowed"), id="a watch"),
    ],
)
def test_a_list_that_cannot_be_given_is_refused(
    client: httpx.Client, query: dict[str, str], want: tuple[int, str]
) -> None:
    for path in (EVERYWHERE, units_path(), LINE):
        assert refusal_of(client.get(path, params=query)) == want


@pytest.mark.parametrize("limit", ["0", "", "1001", str(2**62)])
def test_a_page_has_a_bound_whatever_is_asked(client: httpx.Client, limit: str) -> None:
    assert len(names_of(client.get(EVERYWHERE, params={"limit": limit}))) == 3


def test_the_first_of_two_parameters_counts(client: httpx.Client) -> None:
    """By that one the request was authorized."""
    query = "fieldSelector=metadata.name%3Dbig&fieldSelector=&limit=1&limit=2"
    assert names_of(client.get(f"{EVERYWHERE}?{query}")) == ["default/big"]


def test_a_token_is_of_use_only_to_whom_and_for_what_it_was_given(client: httpx.Client) -> None:
    token = client.get(EVERYWHERE, params={"limit": 1}).json()["metadata"]["continue"]
    asked = {"limit": 1, "continue": token}
    others = [
        client.get(EVERYWHERE, params=asked, headers={"user": "ann"}),
        client.get(units_path("zebra"), params=asked),
        client.get(EVERYWHERE, params={**asked, "fieldSelector": "spec.queue=team"}),
    ]
    assert [refusal_of(each) for each in others] == [(410, "Expired")] * 3
    assert names_of(client.get(EVERYWHERE, params=asked)) == ["default/big"]


def test_the_line_of_a_queue_counts_units_of_others(client: httpx.Client) -> None:
    whole = client.get(LINE)
    assert (names_of(whole)[0], whole.json()["others"]) == ("zebra/secret", 0)
    answer = client.get(LINE, headers={"user": "ann"})
    assert (names_of(answer), answer.json()["others"]) == (["default/big", "default/next"], 1)
    assert [each["status"]["position"] for each in answer.json()["items"]] == [2, 3]
    assert "zebra" not in answer.text
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name=secret",
        "metadata.name=made-up",
        "metadata.name!=secret",
        "metadata.namespace=zebra",
        "metadata.namespace=made-up",
        "metadata.namespace!=zebra",
        "metadata.name=secret,metadata.namespace=zebra",
        "spec.queue=made-up",
    ],
)
def test_no_filter_tells_whether_a_hidden_unit_has_a_name(
    client: httpx.Client, selector: str
) -> None:
    asked = {"limit": "1", "fieldSelector": selector}
    answer = client.get(LINE, params=asked, headers={"user": "ann"}).raise_for_status().json()
    readable = 2 if "!=" in selector else 0
    assert (answer["others"], len(answer["items"])) == (1, min(readable, 1))
    left = answer["metadata"].get("remainingItemCount")
    assert left == (readable - 1 if readable else None)


def test_the_pages_of_a_line_have_the_units_that_may_be_read(
    desk: Desk, client: httpx.Client
) -> None:
    for number in range(20):
        desk.add_unit("hidden", namespace=f"hidden-{number:02}")
    ann = {"user": "ann"}
    assert pages_of(client, LINE, 1, ann) == [["default/big"], ["default/next"]]
    assert client.get(LINE, params={"limit": 1}, headers=ann).json()["others"] == 21


def test_a_namespace_beyond_those_that_are_looked_at_can_be_named(
    desk: Desk, client: httpx.Client
) -> None:
    for number in range(20):
        desk.add_unit("own", namespace=f"a-{number:02}")
    bob = {"user": "bob"}
    desk.rights.namespaces["bob"] = {"zebra"}
    assert names_of(client.get(LINE, headers=bob)) == []
    for selector in ("metadata.namespace=zebra", "metadata.namespace=zebra,metadata.name=secret"):
        answer = client.get(LINE, params={"fieldSelector": selector}, headers=bob)
        assert names_of(answer) == ["zebra/secret"]


def test_a_queue_that_does_not_exist_is_not_found(client: httpx.Client) -> None:
    answer = client.get(f"{BASE}/queues/nowhere/pendingunits")
    assert refusal_of(answer) == (404, "NotFound")
    assert answer.json()["details"]["kind"] == "queues"


@pytest.mark.parametrize("below", ["", "explain"])
def test_a_unit_behind_one_of_others_is_not_told_its_name(
    desk: Desk, client: httpx.Client, below: str
) -> None:
    desk.add_unit("small", cpu=1)
    ann = {"user": "ann"}
    path = units_path(name="small", below=below)
    assert "zebra/secret" in client.get(path).text
    answer = client.get(path, headers=ann)
    assert OF_OTHERS in answer.raise_for_status().text
    assert "secret" not in answer.text
    assert "secret" not in client.get(units_path(), headers=ann | TABLE).raise_for_status().text
    desk.rights.status = HTTPStatus.SERVICE_UNAVAILABLE
    assert "secret" not in client.get(path).text, "who cannot be asked about may not"


def test_an_explanation_is_the_debug_apis(client: httpx.Client) -> None:
    path = units_path(name="big", below="explain")
    got = client.get(path, params={"changes": "true"}).raise_for_status().json()
    assert (got["kind"], got["metadata"]["name"]) == ("UnitExplanation", "big")
    reported = got["status"]
    assert (reported["verdict"], reported["position"]) == ("waiting", 2)
    assert all(each["verified"] for each in reported["changes"])
    assert reported["changes"]
    assert client.get(path).json()["status"]["changes"] is None
    row = client.get(path, headers=TABLE).json()["rows"][0]["cells"]
    assert row == ["big", "waiting", reported["summary"]]
    admitted = client.get(units_path(name="run", below="explain")).json()["status"]
    assert admitted["verdict"] == "admitted"
    assert refusal_of(client.get(units_path(name="none", below="explain"))) == (404, "NotFound")


def test_a_forecast_is_the_last_one(desk: Desk, client: httpx.Client) -> None:
    path = units_path(name="big", below="forecast")
    early = client.get(path)
    assert refusal_of(early) == (503, "ServiceUnavailable")
    assert int(early.headers["retry-after"]) > 0
    renew(desk.forecasts)
    got = client.get(path).raise_for_status().json()
    assert (got["kind"], got["status"]["queue"]) == ("UnitForecast", "team")
    row = client.get(path, headers=TABLE).json()["rows"][0]["cells"]
    assert (row[0], len(row)) == ("big", 6)
    start = got["status"]["startP50"]
    assert client.get(units_path(name="big")).json()["status"]["startP50"] == start


def test_a_manifest_is_tried(client: httpx.Client) -> None:
    body = job_body("train", requests={"cpu": 2}, metadata={"labels": {QUOTA_NAME: "team"}})
    answer = client.post(TRIES, json=body)
    got = answer.json()
    assert (answer.status_code, got["kind"]) == (201, "Try")
    assert got["metadata"]["namespace"] == "default"
    (job,) = got["status"]["jobs"]
    assert (job["name"], job["position"], job["startsNow"]) == ("train", 4, False)


def test_a_manifest_without_a_type_may_be_yaml(client: httpx.Client) -> None:
    """As kubectl create --raw sends it."""
    text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {template: {}}\n"
    answer = client.post(TRIES, content=text)
    assert answer.status_code == 201, answer.text
    assert answer.json()["status"]["jobs"][0]["name"] == "train"
    wrong = client.post(TRIES, content=text, headers={"content-type": "text/plain"})
    assert refusal_of(wrong) == (415, "UnsupportedMediaType")
    assert refusal_of(client.post(TRIES, content=b"\x00: [")) == (422, "Invalid")


def test_who_may_not_create_an_object_may_not_try_it(desk: Desk, client: httpx.Client) -> None:
    body = job_body("train", requests={"cpu": 2})
    ann = {"user": "ann"}
    assert client.post(TRIES, json=body, headers=ann).status_code == 201
    elsewhere = {**body, "metadata": {**body["metadata"], "namespace": "zebra"}}
    assert refusal_of(client.post(TRIES, json=elsewhere, headers=ann)) == (403, "Forbidden")
    desk.rights.kinds.clear()
    assert refusal_of(client.post(TRIES, json=body, headers=ann)) == (403, "Forbidden")
    desk.rights.status = HTTPStatus.SERVICE_UNAVAILABLE
    answer = client.post(TRIES, json=body)
    assert refusal_of(answer) == (503, "ServiceUnavailable")
    assert int(answer.headers["retry-after"]) > 0


def test_before_the_engine_has_a_state_clients_come_back(desk: Desk) -> None:
    desk.failure = NoStateError("there is no state yet")
    body = job_body("train")
    with asking(desk) as client:
        units = (units_path(name="big", below=each) for each in ("", "explain", "forecast"))
        paths = [EVERYWHERE, units_path(), LINE, *units]
        answers = [*(client.get(path) for path in paths), client.post(TRIES, json=body)]
        open_ones = [client.get(path) for path in ("/readyz", "/apis", "/openapi/v2", BASE)]
    for answer in answers:
        assert refusal_of(answer) == (503, "ServiceUnavailable")
        assert answer.headers["retry-after"] == str(RETRY_SECONDS)
        assert answer.json()["details"]["retryAfterSeconds"] == RETRY_SECONDS
    assert [each.status_code for each in open_ones] == [200] * 4


def test_a_follower_answers_from_its_own_engine(desk: Desk, client: httpx.Client) -> None:
    desk.is_leader = False
    assert names_of(client.get(units_path())) == ["default/big", "default/next"]
    reported = client.get(units_path(name="big", below="explain")).json()["status"]
    assert (reported["leader"], reported["position"]) == (False, 2)


def test_a_unit_without_a_priority_is_shown(desk: Desk, client: httpx.Client) -> None:
    unit = desk.add_unit("plain", cpu=2)
    assert b"priority" not in msgspec.json.encode(unit.spec)
    got = client.get(units_path(name="plain")).raise_for_status().json()
    assert got["spec"]["priority"] == 0
    assert client.get(units_path(), headers=TABLE).status_code == 200


@pytest.mark.parametrize("name", ["a.b-c.0", "9", "a" * 253, "x--y"])
def test_odd_names_are_found(desk: Desk, client: httpx.Client, name: str) -> None:
    desk.add_unit(name, cpu=2, namespace="0-n")
    assert client.get(units_path("0-n", name)).raise_for_status().json()["metadata"]["name"] == name
    assert names_of(client.get(units_path("0-n"))) == [f"0-n/{name}"]
    selector = {"fieldSelector": f"metadata.name={name},metadata.namespace=0-n,spec.queue=team"}
    assert names_of(client.get(EVERYWHERE, params=selector)) == [f"0-n/{name}"]


def test_without_an_identity_nothing_is_told(client: httpx.Client) -> None:
    for path in (EVERYWHERE, units_path(), LINE, units_path(name="big")):
        assert refusal_of(client.get(path, headers={"user": ""})) == (401, "Unauthorized")


@pytest.mark.parametrize("path", [f"{BASE}/nothing", "/apis/other", units_path(name="a/b/c"), "/x"])
def test_another_path_is_a_status(client: httpx.Client, path: str) -> None:
    assert refusal_of(client.get(path)) == (404, "NotFound")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_another_method_is_a_status(client: httpx.Client, method: str) -> None:
    for path in (EVERYWHERE, units_path(name="big"), LINE, BASE):
        assert refusal_of(client.request(method, path)) == (405, "MethodNotAllowed")


def test_a_failure_is_a_status(desk: Desk, client: httpx.Client) -> None:
    desk.failure = ZeroDivisionError()
    answer = client.get(EVERYWHERE)
    assert refusal_of(answer) == (500, "InternalError")
    assert "ZeroDivisionError" in answer.json()["message"]
