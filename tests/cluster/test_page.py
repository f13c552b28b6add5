"""The page with tokens of a real API server: who logs in, what it sees, and a token's end."""

from __future__ import annotations

import json
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from shared_api.testing.object_builders import job_body, pod_body, queue_unit_body
from tests.charts.render import as_manifest, rights
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUEUE_NAMESPACE, QueueWorld
from tests.cluster.rbac_objects import binding, role
from tests.page.test_login import log_in
from tests.page.window_kit import opened, started_chromium, without_statuses
from tests.tls_files import CA, CERTIFICATE, KEY
from tests.waiting import PATIENCE_SECONDS, until

ACCOUNT: Final = "account"
"""The user with the rights that the chart gives for an exposed page."""
VALUES: Final[dict[str, Any]] = {
    "insight": {
        "enabled": True,
        "page": {"enabled": True, "expose": True, "tls": {"secretName": "page-tls"}},
    },
    "metrics": {"secure": False},
}
SECRET: Final = "of-others"


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """Of quota team a unit of namespace zebra runs, and `own` waits."""
    with QueueWorld(controlplane_binaries, jobs=True, users={ACCOUNT: []}) as world:
        granted = rights("scheduler", user=ACCOUNT, values=VALUES, namespace=QUEUE_NAMESPACE)
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(granted))
        world.create_quota("team", cpu_max=4)
        world.plane.kubectl("create", "namespace", "zebra")
        other = queue_unit_body(SECRET, namespace="zebra", quota="team", requests={"cpu": 3})
        world.plane.kubectl("create", "--filename", "-", input=as_manifest([other]))
        yield world


@pytest.fixture(scope="module")
def url(world: QueueWorld) -> Iterator[str]:
    """Return the address of the page, which knows what the scheduler knows."""
    with tempfile.TemporaryDirectory() as folder:
        sockets = f"--insight-socket-dir={folder}"
        world.start_scheduler("--leader-elect=false", sockets, user=ACCOUNT)
        tls = (f"--page-tls-certificate={CERTIFICATE}", f"--page-tls-key={KEY}")
        flags = (f"--socket-dir={folder}", "--page-address=0.0.0.0:0", *tls)
        insight = world.start_insight(*flags, user=ACCOUNT)
        port = until(lambda: insight.port_of("--page-address"))
        found = f"https://127.0.0.1:{port}"
        world.plane.kubectl("create", "serviceaccount", "root")
        grant(world, "root", "clusterrolebinding")
        with logged_in(found, token_of(world, "root")) as root:
            until(lambda: in_use(root), OWN_TIMES_SECONDS)
        yield found


def in_use(client: httpx.Client) -> bool:
    """Return whether the page shows that quota team is used."""
    answer = client.get("/page/overview")
    quotas = answer.json().get("quotas", [])
    return any(each["name"] == "team" and each["used"].get("cpu") == "3" for each in quotas)


def grant(world: QueueWorld, account: str, kind: str) -> None:
    """Let a ServiceAccount list units, in its namespace or (clusterrolebinding) in all."""
    kubectl, role = world.plane.kubectl, f"read-{account}"
    kubectl("create", "clusterrole", role, "--verb=list",
            "--resource=queueunits.scheduling.x-k8s.io")  # fmt: skip
    who = f"--serviceaccount=default:{account}"
    kubectl("create", kind, role, f"--clusterrole={role}", who)


def token_of(world: QueueWorld, account: str) -> str:
    return world.plane.kubectl("create", "token", account).strip()


@contextmanager
def logged_in(url: str, token: str) -> Iterator[httpx.Client]:
    verify, sent = ssl.create_default_context(cafile=CA), {"origin": url}
    with httpx.Client(
        base_url=url, verify=verify, headers=sent, trust_env=False, timeout=PATIENCE_SECONDS
    ) as client:
        until(lambda: client.post("/page/session", json={"token": token}).status_code == 200)
        yield client


def test_a_tenant_sees_its_own(world: QueueWorld, url: str) -> None:
    world.create_unit("own", "team", cpu=2)
    world.plane.kubectl("create", "serviceaccount", "tenant")
    grant(world, "tenant", "rolebinding")
    with logged_in(url, token_of(world, "tenant")) as client:
        want = {
            "user": "system:serviceaccount:default:tenant",
            "login": True,
            "readsAll": False,
            "whatIf": False,
        }
        assert client.get("/page/session").json() == want
        until(lambda: client.get("/page/units/default/own").json()["unit"])
        until(lambda: client.get("/page/queues/team").json()["total"] == 1)
        paths = ("overview", "queues/team", "units/default/own", "quotas/team", "queues/team.csv")
        for path in paths:
            answer = client.get(f"/page/{path}")
            assert answer.status_code == 200
            assert SECRET not in answer.text
        assert client.get(f"/page/units/zebra/{SECRET}").status_code == 403
        quota = client.get("/page/quotas/team").json()["quota"]
        assert (quota["used"], quota["sumsHidden"]) == ({}, True)
        refused = client.post("/page/what-if", json={"edits": []})
        assert (refused.status_code, "create /debug/what-if" in refused.text) == (403, True)


def test_what_the_api_server_knows_is_read_with_the_rights_of_the_visitor(
    world: QueueWorld, url: str
) -> None:
    kubectl, uid = world.plane.kubectl, "3e1f"
    kubectl("create", "--filename", "-", input=as_manifest([job_body("train")]))
    job = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "train"}
    unit = queue_unit_body("read", quota="team", consumerRef=job | {"uid": uid})
    labels = {"labels": {"batch.kubernetes.io/controller-uid": uid}}
    pod = pod_body("read-0", metadata=labels, nodeName="n1")
    kubectl("create", "--filename", "-", input=as_manifest([unit, pod]))
    kubectl("create", "serviceaccount", "reader")
    grant(world, "reader", "rolebinding")
    with logged_in(url, token_of(world, "reader")) as client:
        until(lambda: client.get("/page/units/default/read").json()["unit"])

        def read(part: str) -> dict[str, Any]:
            found: dict[str, Any] = client.get(f"/page/units/default/read/{part}").json()
            return found

        parts = {"pods": "pods", "events": "events", "manifests/unit": "queueunits",
                 "manifests/job": "jobs"}  # fmt: skip
        for part, resource in parts.items():
            assert resource in read(part)["problem"], part
            assert "reader" in read(part)["problem"], part
        may = (
            "--verb=get,list",
            "--resource=pods,events,jobs.batch,queueunits.scheduling.x-k8s.io",
        )
        kubectl("create", "role", "may-look", *may)
        who = "--serviceaccount=default:reader"
        kubectl("create", "rolebinding", "may-look", "--role=may-look", who)
        until(lambda: not any(read(part)["problem"] for part in parts))
        manifests = [read(part)["manifest"] for part in ("manifests/unit", "manifests/job")]
        assert [each["metadata"]["name"] for each in manifests] == ["read", "train"]
        assert all("managedFields" not in each["metadata"] for each in manifests)
        (shown,) = read("pods")["pods"]
        assert (shown["name"], shown["node"], shown["phase"]) == ("read-0", "n1", "Pending")


def test_queues_and_quotas_are_read_with_the_rights_of_the_visitor(
    world: QueueWorld, url: str
) -> None:
    kubectl, who = world.plane.kubectl, "--serviceaccount=default:curious"
    kubectl("create", "serviceaccount", "curious")
    stated = {"queue": "queues.scheduling.x-k8s.io",
              "quota": "elasticquotas.scheduling.sigs.k8s.io"}  # fmt: skip
    with logged_in(url, token_of(world, "curious")) as client:

        def read(of: str) -> dict[str, Any]:
            found: dict[str, Any] = client.get(f"/page/manifests/{of}/team").json()
            return found

        for of, resource in stated.items():
            assert resource in read(of)["problem"], of
            assert "curious" in read(of)["problem"], of
        kubectl("create", "clusterrole", "may-get", "--verb=get",
                f"--resource={','.join(stated.values())}")  # fmt: skip
        kubectl("create", "clusterrolebinding", "may-get", "--clusterrole=may-get", who)
        until(lambda: not any(read(of)["problem"] for of in stated))
        shown = [read(of)["manifest"] for of in stated]
        want = [("Queue", "team"), ("ElasticQuota", "team")]
        assert [(each["kind"], each["metadata"]["name"]) for each in shown] == want
        assert all("managedFields" not in each["metadata"] for each in shown)


def test_who_may_ask_the_debug_api_what_if_may_ask_here(world: QueueWorld, url: str) -> None:
    rule = {"nonResourceURLs": ["/debug/what-if"], "verbs": ["create"]}
    asks = [role("asks", rule), binding("asks", "system:serviceaccount:default:asker")]
    world.plane.kubectl("create", "serviceaccount", "asker")
    world.plane.kubectl("apply", "--filename", "-", input=as_manifest(asks))
    with logged_in(url, token_of(world, "asker")) as client:
        until(lambda: client.get("/page/session").json()["whatIf"])
        assert client.post("/page/what-if", json={"edits": []}).status_code != 403


def test_a_wrong_token_is_refused(url: str) -> None:
    verify = ssl.create_default_context(cafile=CA)
    with httpx.Client(base_url=url, verify=verify, trust_env=False) as client:
        assert client.get("/page/overview").status_code == 401
        sent = {"origin": url}
        answer = client.post("/page/session", json={"token": "x.y.z"}, headers=sent)
        assert (answer.status_code, answer.json()) == (401, {"detail": "the token is not valid"})


def test_a_revoked_token_ends_the_stream(world: QueueWorld, url: str) -> None:
    kubectl = world.plane.kubectl
    kubectl("create", "serviceaccount", "gone")
    with logged_in(url, token_of(world, "gone")) as client:
        with client.stream("GET", "/page/events", timeout=OWN_TIMES_SECONDS) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("retry: ")
            world.create_unit("next", "team", cpu=1)
            got = json.loads(next(each for each in lines if each.startswith("data: "))[6:])
            assert got["queues"] == ["team"]
            assert got["units"] == []
            kubectl("delete", "serviceaccount", "gone")
            for _ in lines:
                pass
        assert client.get("/page/session").status_code == 401


def test_a_tenant_logs_in_and_out_with_a_browser(world: QueueWorld, url: str) -> None:
    world.create_unit("shown", "team", cpu=2)
    world.plane.kubectl("create", "serviceaccount", "walker")
    grant(world, "walker", "rolebinding")
    token = token_of(world, "walker")
    with logged_in(url, token) as client:
        until(lambda: client.get("/page/units/default/shown").json()["unit"])
    with (
        started_chromium() as browser,
        opened(browser, url, takes_any_certificate=True) as window,
    ):
        page = window.page
        page.unroute_all()  # what changes is told by the server itself
        window.open("/queues/team")
        log_in(window, "no-token")
        window.sees("the token is not valid")
        log_in(window, token)
        page.get_by_role("link", name="default/shown", exact=True).wait_for()
        window.sees("system:serviceaccount:default:walker")
        (cookie,) = page.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        for path in ("/", "/queues/team", "/quotas/team", "/units/default/shown"):
            window.open(path)
            page.get_by_role("status").get_by_text("Live").wait_for()
            assert SECRET not in page.content()
        window.open("/")
        window.sees("it would tell about one or two namespaces")
        window.open(f"/units/zebra/{SECRET}")
        page.get_by_role("alert").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Kubernetes token").wait_for()
        assert page.context.cookies() == []
        window.open("/")
        window.has_title("Log in")
        refused = without_statuses(without_statuses(window.complaints, 401), 403)
        assert refused == []
