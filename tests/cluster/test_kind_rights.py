"""Kinds of jobs under exactly the chart's role of the controllers, on a real API server.

The rights of each switch are read from the server; and with all switches on, one job of each kind
is held at its creation by the chart's policies and released by the program, and nothing is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import Program, as_manifest, render, rights
from tests.charts.values_table import SWITCHES, values_with
from tests.cluster.kind_kit import (
    ADAPTERS,
    SERVED,
    body_of,
    install,
    path_of,
    switch_of,
)
from tests.cluster.kind_table import value_at
from tests.cluster.program_metrics import forbidden_by_the_server
from tests.cluster.program_process import CONTROLLERS, SCHEDULER
from tests.cluster.queue_world import MERGE, QUEUE_NAMESPACE, QUOTA_LABEL, QueueWorld
from tests.controlplane.api_client import ApiError
from tests.controlplane.binaries import is_before
from tests.object_states import is_true
from tests.sample_jobs import SERVICE_ACCOUNTS
from tests.waiting import until

Json = Any

ACCOUNTS: Final[dict[str, Program]] = {"queue-account": "scheduler", "jobs-account": "controllers"}
JSON: Final = "application/json"
STARTS_ARE_CLEARED: Final = is_before(1, 36)
"""Whether the controllers may patch the status of Jobs, to clear start times."""
POLICIES: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
QUOTA: Final = {QUOTA_LABEL: "team"}
OTHERS: Final = {
    "batchjob": (
        *("cronjobs.batch", "jobsets.jobset.x-k8s.io", "mpijobs.kubeflow.org"),
        *("rayjobs.ray.io", "rayclusters.ray.io"),
    ),
    "jobset": ("trainjobs.trainer.kubeflow.org",),
    "ray": ("raycronjobs.ray.io", "rayservices.ray.io"),
    "argo": ("cronworkflows.argoproj.io",),
    "trainjob": ("jobsets.jobset.x-k8s.io",),
}
"""Resources that may be read in addition to the kinds themselves, by switch."""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """All kinds are served; a user for each switch has the role that the switch renders."""
    users: dict[str, Sequence[str]] = dict.fromkeys((*ACCOUNTS, *SWITCHES), ())
    with QueueWorld(controlplane_binaries, users=users) as running:
        install(running.plane, *SERVED)
        running.plane.create_nodes(1, cpu="1000", memory="1000Gi", name_prefix="large")
        bound: list[Json] = []
        for switch in SWITCHES:
            bound += _renamed(
                rights("controllers", user=switch, values=values_with(switch)), switch
            )
        for account, program in ACCOUNTS.items():
            bound += rights(program, user=account, values=values_with(*SWITCHES))
        bound += [one for one in render(values_with(*SWITCHES)) if one["kind"].startswith(POLICIES)]
        running.plane.kubectl("apply", "--filename", "-", input=as_manifest(bound))
        yield running


def _renamed(objects: list[Json], suffix: str) -> list[Json]:
    """Return the same roles and bindings under other names."""
    renamed = copy.deepcopy(objects)
    for one in renamed:
        one["metadata"]["name"] += f"-{suffix}"
        if "roleRef" in one:
            one["roleRef"]["name"] += f"-{suffix}"
    return renamed


# ------------------------------------------------------------------------------- one at a time


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_gives_rights_on_its_kinds_and_no_others(world: QueueWorld, switch: str) -> None:
    want = {
        f"{kind.plural}.{kind.group}": {"get", "list", "patch", "watch"}
        for key in SWITCHES[switch]
        for kind in (ADAPTERS[key].kind,)
    }
    for name in (*OTHERS.get(switch, ()), "appwrappers.workload.codeflare.dev"):
        want.setdefault(name, {"get"})
    if switch == "batchjob" and STARTS_ARE_CLEARED:
        want["jobs/status.batch"] = {"patch"}
    groups = {each.kind.group for each in ADAPTERS.values()}
    assert _rights_of(world, switch, groups) == want


def _rights_of(world: QueueWorld, user: str, groups: set[str]) -> dict[str, set[str]]:
    """Return what a user may do with resources of these groups, by the server's review."""
    body = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
    answer = world.plane.client_for(user).request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {**body, "spec": {"namespace": "default"}},
    )
    found: dict[str, set[str]] = {}
    for rule in answer["status"]["resourceRules"]:
        assert "*" not in rule["apiGroups"]
        for group in groups & set(rule["apiGroups"]):
            for resource in rule["resources"]:
                found.setdefault(f"{resource}.{group}", set()).update(rule["verbs"])
    return found


@pytest.mark.parametrize("key", SERVED)
def test_a_kind_can_be_followed_and_patched_by_its_switch_alone(
    world: QueueWorld, key: str
) -> None:
    (switch,) = (name for name, keys in SWITCHES.items() if key in keys)
    api, path = world.plane.client_for(switch), path_of(ADAPTERS[key].kind, "default")
    name = world.api.request("POST", path, body_of(key))["metadata"]["name"]
    assert [one["metadata"]["name"] for one in api.request("GET", path)["items"]] == [name]
    api.request("GET", f"{path}?watch=true&timeoutSeconds=1")
    patch = ADAPTERS[key].suspend_patch(ADAPTERS[key].object_type())
    patched = api.request("PATCH", f"{path}/{name}", patch, content_type=MERGE)
    assert value_at(patched, switch_of(key)) is True
    denied = [
        ("POST", path, body_of(key)),
        ("PUT", f"{path}/{name}", patched),
        ("DELETE", f"{path}/{name}", None),
    ]
    if not (key == "job" and STARTS_ARE_CLEARED):
        denied.append(("PATCH", f"{path}/{name}/status", {"status": {}}))
    for method, where, body in denied:
        with pytest.raises(ApiError, match="403"):
            api.request(method, where, body, content_type=MERGE if method == "PATCH" else JSON)
    world.api.request("DELETE", f"{path}/{name}")


# ---------------------------------------------------------------------------------- all together


def test_every_kind_is_held_and_released_and_nothing_is_refused(world: QueueWorld) -> None:
    common = ("--leader-elect=false", f"--queue-namespace={QUEUE_NAMESPACE}")
    refused = forbidden_by_the_server(world)
    world.create_quota("team", cpu_max=1000)
    world.create_priority_class("high", 1000)  # two of the samples name it
    for name in SERVICE_ACCOUNTS:
        world.create_service_account(name)
    world.start(SCHEDULER, *common, user="queue-account")
    world.start(CONTROLLERS, _extensions(), *common, user="jobs-account")
    made = {key: until(partial(_make_held, world, key)) for key in SERVED}
    _make_child_of(world, made["trainjob"])
    waiting = set(made)

    def are_released() -> bool:
        waiting.difference_update([key for key in waiting if _is_released(world, key, made[key])])
        return not waiting

    until(are_released)
    owned = {unit["spec"]["consumerRef"]["uid"] for unit in world.units()}
    assert owned == {job["metadata"]["uid"] for job in made.values()}
    assert not any(is_true(each, "Adopted") for each in world.units()), (
        "all were held at their creation"
    )
    assert forbidden_by_the_server(world) == refused


def _extensions() -> str:
    """Return the flag as the chart renders it, with all kinds on."""
    (deployment,) = (
        one
        for one in render(values_with(*SWITCHES))
        if one["kind"] == "Deployment" and one["metadata"]["name"].endswith("controllers")
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (flag,) = (each for each in container["args"] if each.startswith("--enabled-extensions="))
    return str(flag)


def _make_held(world: QueueWorld, key: str) -> Json:
    """Create a job without a suspend field; return None while no policy holds it."""
    body, path = body_of(key, labels=QUOTA), path_of(ADAPTERS[key].kind, "default")
    body["metadata"]["generateName"] = f"{key}-"
    try:
        tried = world.api.request("POST", f"{path}?dryRun=All", body)
    except ApiError:  # 503 until the server has discovered its kinds
        return None
    return world.api.request("POST", path, body) if value_at(tried, switch_of(key)) else None


def _make_child_of(world: QueueWorld, train_job: Json) -> None:
    """Create the JobSet of a TrainJob, as Trainer does."""
    owner = {"apiVersion": train_job["apiVersion"], "kind": "TrainJob", "controller": True}
    owner |= {name: train_job["metadata"][name] for name in ("name", "uid")}
    body = body_of("jobset", ownerReferences=[owner], labels=QUOTA)
    body["metadata"]["name"] = train_job["metadata"]["name"]
    made = world.api.request("POST", path_of(ADAPTERS["jobset"].kind, "default"), body)
    assert value_at(made, switch_of("jobset")) is not True, "only its TrainJob is held"


def _is_released(world: QueueWorld, key: str, job: Json) -> bool:
    path = f"{path_of(ADAPTERS[key].kind, 'default')}/{job['metadata']['name']}"
    now = world.api.request("GET", path)
    annotations = now["metadata"].get("annotations", {})
    return "koord-queue/released-at" in annotations and not value_at(now, switch_of(key))
