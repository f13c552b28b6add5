"""Access to the debug API: all clients on loopback; elsewhere users that the API server allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from shared_api.well_known_labels import QUOTA_IS_PARENT, QUOTA_PARENT
from tests.charts.render import as_manifest, of_kind, render, rights
from tests.cluster.program_process import EXPOSED, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import QUOTA_LABEL, UNITS, QueueWorld, debug, unit_view
from tests.cluster.rbac_objects import binding, role
from tests.waiting import until

VALUES: Final = {"debugApi": {"expose": True, "tls": {"secretName": "debug-tls"}}}
ACCOUNT, READER, LISTER, NOBODY = "queue-account", "reader", "lister", "nobody"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """One API server with a reader of everything, and one of the units of namespace default."""
    users: dict[str, Sequence[str]] = dict.fromkeys((ACCOUNT, READER, LISTER, NOBODY), ())
    with QueueWorld(controlplane_binaries, users=users) as world:
        reader = of_kind(render(VALUES), "ClusterRole")["koord-queue-debug-reader"]
        units = {
            "apiGroups": ["scheduling.x-k8s.io"],
            "resources": ["queueunits"],
            "verbs": ["list"],
        }
        objects = [
            *rights("scheduler", user=ACCOUNT, values=VALUES),
            reader,
            binding(reader["metadata"]["name"], READER),
            role("lister", units, "default"),
            binding("lister", LISTER, "default", kind="Role"),
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(objects))
        world.create_quota("team", cpu_max=4)
        world.create_unit("a", "team", cpu=1)
        yield world


@pytest.fixture(scope="module")
def exposed(world: QueueWorld) -> ProgramProcess:
    """A scheduler whose debug API listens everywhere, with TLS."""
    return world.start(
        SCHEDULER,
        *EXPOSED,
        user=ACCOUNT,
    )


QUEUES, UNIT = "/debug/queues", "/debug/queueunits/default/a"


@pytest.mark.parametrize(
    ("user", "path", "want"),
    [
        pytest.param("", QUEUES, 401, id="without a token"),
        pytest.param("", "/openapi.json", 401, id="the contract without a token"),
        pytest.param(NOBODY, QUEUES, 403, id="a user without rights"),
        pytest.param(NOBODY, UNIT, 403, id="a unit, without rights"),
        # Every cluster lets all users get /apis/* (system:discovery).
        pytest.param(NOBODY, "/apis/v1/queue", 403, id="queues under upstream's path"),
        pytest.param(NOBODY, "/apis/v1/userquota", 403, id="quotas under upstream's path"),
        pytest.param(NOBODY, "/openapi.json", 403, id="the contract, without rights"),
        pytest.param(READER, QUEUES, 200, id="a reader"),
        pytest.param(READER, "/debug/quotas", 200, id="a reader of quotas"),
        pytest.param(READER, UNIT, 200, id="a reader of a unit"),
        pytest.param(READER, "/openapi.json", 200, id="a reader of the contract"),
        pytest.param(READER, "/apis/v1/queue", 200, id="a reader under upstream's path"),
        pytest.param(READER, "/apis/v1/userquota", 200, id="a reader of quotas under it"),
        pytest.param(LISTER, UNIT, 200, id="who may list units there"),
        pytest.param(LISTER, f"{UNIT}/explain", 200, id="why it waits, too"),
        pytest.param(LISTER, f"{UNIT}/explain?changes=true", 200, id="and what would start it"),
        pytest.param(LISTER, "/debug/queueunits/kube-system/a", 403, id="but not elsewhere"),
        pytest.param(
            LISTER, "/debug/queueunits/kube-system/a/explain", 403, id="nor why those wait"
        ),
        pytest.param(
            *(LISTER, "/debug/queueunits/kube-system/a/explain?changes=true", 403),
            id="nor what would start those",
        ),
        pytest.param(LISTER, QUEUES, 403, id="nor what is of the whole cluster"),
        pytest.param(LISTER, "/apis/v1/queue", 403, id="nor under upstream's path"),
    ],
)
def test_off_the_loopback_address_the_api_server_decides(
    world: QueueWorld, exposed: ProgramProcess, user: str, path: str, want: int
) -> None:
    token = world.plane.token_for(user) if user else ""
    if want == 200:
        # The unit has arrived.
        until(lambda: exposed.ask(path, token=token, tls=True).status_code != 404)
    answer = exposed.ask(path, token=token, tls=True)
    assert answer.status_code == want, answer.text
    if want != 200:
        assert answer.json()["detail"]


def test_an_unknown_token_is_401(exposed: ProgramProcess) -> None:
    assert exposed.ask(QUEUES, token="made-up", tls=True).status_code == 401


def test_plain_http_is_not_served_there(exposed: ProgramProcess) -> None:
    with pytest.raises(httpx.TransportError):
        exposed.ask(QUEUES)


def test_on_loopback_all_clients_may_read(world: QueueWorld) -> None:
    scheduler = world.start_scheduler(user=ACCOUNT)
    assert debug(scheduler, "/openapi.json")["info"]["title"] == "Koord-Queue debug API"
    until(lambda: debug(scheduler, "/debug/queues")["total"])
    until(lambda: unit_view(scheduler, "a").get("quota") == "team")
    scheduler.stop()


def test_units_of_others_are_named_to_users_that_may_list_them(
    world: QueueWorld, exposed: ProgramProcess
) -> None:
    world.plane.kubectl("create", "namespace", "labs")
    world.create_quota("narrow", cpu_max=2)
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    sets = [{"name": "low", "count": 1, "template": {"spec": {"containers": [container]}}}]
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "low", "labels": {QUOTA_LABEL: "narrow"}},
        "spec": {"priority": 1, "podSet": sets},
    }
    path = UNITS.format("labs")
    world.api.request("POST", path, body)
    until(lambda: world.api.request("GET", f"{path}/low")["status"]["phase"] == "Dequeued")
    world.create_unit("high", "narrow", cpu=2, priority=9)

    def would(user: str) -> Json:
        token = world.plane.token_for(user)
        answer = exposed.ask("/debug/queueunits/default/high", token=token, tls=True)
        found: Json = answer.json().get("wouldPreempt") or {}
        return found

    until(lambda: would(READER))
    assert [each["namespace"] for each in would(READER)["victims"]] == ["labs"]
    assert would(READER)["others"] == 0
    assert (would(LISTER)["victims"], would(LISTER)["others"]) == ([], 1)


def test_all_that_keeps_a_unit_from_starting_is_told(
    world: QueueWorld, exposed: ProgramProcess
) -> None:
    world.create_quota("above", cpu_max=3, labels={QUOTA_IS_PARENT: "true"})
    world.create_quota("below", cpu_max=2, labels={QUOTA_PARENT: "above"})
    world.create_unit("first", "below", cpu=2)
    until(lambda: world.phase("first") == "Dequeued")
    world.create_unit("second", "below", cpu=2)

    def reported() -> Json:
        token = world.plane.token_for(LISTER)
        answer = exposed.ask("/debug/queueunits/default/second/explain", token=token, tls=True)
        return answer.json() if answer.status_code == 200 else {}

    until(lambda: len(reported().get("blockers", ())) == 2)
    answer = reported()
    assert [(each["quota"], each["missing"]) for each in answer["blockers"]] == [
        ("below", "2"),
        ("above", "1"),
    ]
    assert (answer["verdict"], answer["neverStarts"]) == ("waiting", False)
    assert answer["summary"].startswith("It waits in queue below, at position 1: needs more cpu")


def test_on_loopback_no_page_of_a_browser_may_ask_under_its_own_name(world: QueueWorld) -> None:
    scheduler = world.start_scheduler("--debug-hosts=queue.example.com", user=ACCOUNT)
    port = scheduler.port_of("--debug-address")

    def status(flag: str, path: str, host: str) -> int:
        return scheduler.ask(path, flag, headers={"Host": host}).status_code

    for path in (QUEUES, UNIT, "/openapi.json"):
        assert status("--debug-address", path, "evil.example.com") == 421
        assert status("--debug-address", path, "queue.example.com:1") != 421
    assert status("--debug-address", QUEUES, f"localhost:{port}") == 200
    assert status("--health-address", "/livez", "evil.example.com") == 200
    assert status("--metrics-address", "/metrics", "evil.example.com") == 200
    scheduler.stop()
