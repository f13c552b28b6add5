"""Bad input on a real API server: what its schema accepts, and failures of the environment.

More cases, in virtual time, are in `tests/scenarios/test_bad_input.py`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.cluster.api_audit import CONTROLLERS_AGENT
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import (
    ELASTIC_QUOTA_CRD,
    JOBS,
    QUOTA_LABEL,
    UNITS,
    Cluster,
    QueueWorld,
    reason_of,
    unit_view,
)
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.waiting import until

ABSURD: Final = "9e999999999"
DEEP: Final = 9000
"""Nested lists, as deep as the API server accepts where no schema validates, as in a template."""

Json = dict[str, Any]


def pod_set(**spec: Any) -> Json:
    return {"name": "main", "count": 1, "template": {"spec": spec}}


def requesting(amount: Any) -> Json:
    return pod_set(containers=[{"name": "c", "resources": {"requests": {"cpu": amount}}}])


def ask_raw(world: QueueWorld, method: str, path: str, body: str = "") -> int:
    """Send what no encoder produces, for a response that no decoder accepts; return its status."""
    trusted = ssl.create_default_context(cafile=str(world.plane.ca_file))
    headers = {
        "Authorization": f"Bearer {world.plane.token}",
        "Content-Type": "application/json",
    }
    with httpx.Client(verify=trusted, timeout=30.0, trust_env=False) as client:
        url = world.plane.url + path
        return client.request(method, url, content=body, headers=headers).status_code


def phase_seen(scheduler: ProgramProcess, unit: str) -> str:
    """Return a unit's phase in the scheduler, "" while the scheduler does not know it."""
    return str(unit_view(scheduler, unit).get("phase", ""))


def is_dequeued(scheduler: ProgramProcess, unit: str) -> bool:
    """Return whether a unit is admitted in the scheduler's view."""
    return phase_seen(scheduler, unit) == "Dequeued"


def assert_all_else_goes_on(world: QueueWorld, name: str) -> None:
    """Assert that a unit of another quota starts."""
    world.create_quota(f"{name}-good", cpu_max=1)
    world.create_unit(f"{name}-good", f"{name}-good", cpu=1)
    until(lambda: world.phase(f"{name}-good") == "Dequeued")


@pytest.mark.parametrize(
    ("name", "pods", "want"),
    [
        ("text", requesting("abc"), "InvalidDemand"),
        ("absurd", requesting(ABSURD), "InvalidDemand"),
        ("negative", requesting("-1"), "InvalidDemand"),
        ("label", {**pod_set(), "template": {"metadata": {"labels": {"a": 5}}}}, "Unreadable"),
        ("shape", pod_set(containers={"name": "c"}), "Unreadable"),
    ],
)
def test_bad_input_that_no_schema_refuses_is_reported_on_the_unit(
    world: QueueWorld, name: str, pods: Json, want: str
) -> None:
    world.create_quota(f"bad-{name}", cpu_max=4)
    world.create_unit(f"bad-{name}", f"bad-{name}", cpu=1, podSet=[pods])
    until(lambda: reason_of(world.unit(f"bad-{name}")) == want)
    until(lambda: want in world.event_notes(f"bad-{name}"))
    assert_all_else_goes_on(world, f"bad-{name}")


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_backoff_until_a_time_outside_of_all_years_is_over(world: QueueWorld, at: str) -> None:
    """The server accepts it as a time; the unit is requeued at once, and waits for its quota."""
    name = f"never-{at[:4]}"
    world.create_unit(name, "nowhere", cpu=1)
    status = {"phase": "TimeoutBackoff", "requeueState": {"count": 1, "requeueAt": at}}
    world.patch_unit(name, {"status": status})
    until(lambda: world.phase(name) == "Enqueued")
    until(lambda: reason_of(world.unit(name)) == "NoQuota")


@pytest.mark.parametrize(
    ("name", "amount"), [("large", "1e30"), ("larger", "9e99"), ("tiny", "1n")]
)
def test_a_job_with_an_odd_amount_holds_up_no_other_job(
    world: QueueWorld, name: str, amount: str
) -> None:
    """A Job that the API server accepts is queued; the next Job runs.

    An exponent like that of `ABSURD` keeps the API server itself busy forever.
    """
    world.create_quota(f"odd-{name}", cpu_max=2)
    world.create_job(f"odd-{name}", f"odd-{name}", cpu=amount)
    until(lambda: world.unit_of(f"odd-{name}"))
    world.create_job(f"odd-{name}-next", f"odd-{name}")
    until(lambda: condition_of(world.job(f"odd-{name}-next"), "Complete"))


def test_a_pod_of_no_quota_that_no_node_can_take_holds_up_no_job(world: QueueWorld) -> None:
    """Every user who may create pods can create one."""
    world.create_quota("beside", cpu_max=2)
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1000"}}}
    pod = {"metadata": {"name": "huge"}, "spec": {"containers": [container]}}
    path = "/api/v1/namespaces/default/pods"
    world.api.request("POST", path, {"apiVersion": "v1", "kind": "Pod", **pod})
    world.create_job("beside", "beside")
    until(lambda: condition_of(world.job("beside"), "Complete"))
    world.api.request("DELETE", f"{path}/huge")


def test_a_job_whose_template_has_200_kilobytes(world: QueueWorld) -> None:
    """The unit has the parts of it that are read; the rest stays in the job."""
    world.create_quota("fat", cpu_max=1)
    environment = [{"name": f"V{n}", "value": "x" * 1000} for n in range(200)]
    resources = {"requests": {"cpu": "1"}}
    container = {"name": "c", "image": "none", "env": environment, "resources": resources}
    run_seconds = {"koord-queue.test/run-seconds": "0.5"}
    template = {
        "metadata": {"annotations": run_seconds},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {QUOTA_LABEL: "fat"}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fat", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }
    world.api.request("POST", JOBS.format("default"), body)
    unit = until(lambda: world.unit_of("fat"))
    assert len(str(unit)) < 5000
    until(lambda: condition_of(world.job("fat"), "Complete"))
    big = [pod_set(containers=[container])]
    world.create_unit("fat-by-hand", "fat", cpu=1, podSet=big)
    until(lambda: world.phase("fat-by-hand") == "Dequeued")
    world.finish_unit("fat-by-hand")


def test_two_controllers_with_the_same_flags_and_no_election_do_no_harm(
    cluster: Cluster, world: QueueWorld
) -> None:
    """Patches are guarded and names come from uids: each Job has one unit, and runs once."""
    twin = world.start_controllers("--leader-elect=false")
    world.create_quota("twins", cpu_max=3)
    names = [f"twin-{number}" for number in range(9)]
    for number, name in enumerate(names):
        # A Job that is not suspended must not end before it is.
        world.create_job(name, "twins", suspend=number % 2 == 0, run_seconds=5)
    # One may release a Job, and the other suspend it again before it sees the admission. If the
    # Job controller saw neither, it confirms nothing, and a minute passes before the next step.
    until(lambda: all(condition_of(world.job(name), "Complete") for name in names), 450.0)
    units = [unit for unit in world.units() if unit["metadata"]["name"].startswith("twin-")]
    assert sorted(unit["spec"]["consumerRef"]["name"] for unit in units) == names
    until(lambda: {phase_seen(cluster.scheduler, name) for name in names} == {"Succeed"})
    for name in names:
        written = world.audit.requests(CONTROLLERS_AGENT, name)
        done = [each for each in written if each.resource == "jobs" and each.status == 200]
        releases = [number for number, each in enumerate(done) if each.is_release]
        later = [each.body.get("spec", {}).get("suspend") for each in done[releases[0] :]]
        # If there are two, the second was the same, guarded by the version.
        assert len(releases) <= 2 * (1 + later.count(True)), name
        assert len(world.pods(name)) == 1, name
    assert twin.stop() == 0


def test_of_two_controllers_with_an_election_one_works(world: QueueWorld) -> None:
    """Two more programs, with a lease of their own: the follower is ready, and takes over."""
    fast = (
        "--leader-elect-lease-name=pair",
        "--leader-elect-lease-duration=20",
        "--leader-elect-renew-deadline=15",
        "--leader-elect-retry-period=0.5",
    )
    first = world.start_controllers(*fast)
    holder = until(lambda: holder_of(world, "pair"))
    second = world.start_controllers(*fast)
    assert second.get_health("/readyz") == 200
    time.sleep(1.0)  # two retry periods
    assert holder_of(world, "pair") == holder
    assert first.stop() == 0
    until(lambda: holder_of(world, "pair") not in {"", holder})
    assert second.stop() == 0


def holder_of(world: QueueWorld, lease: str) -> str:
    """Return the holder of a lease; "" for none, or while there is no lease."""
    path = "/apis/coordination.k8s.io/v1/namespaces/koord-queue/leases"
    leases = world.api.request("GET", path)["items"]
    specs = [each["spec"] for each in leases if each["metadata"]["name"] == lease]
    return str(specs[0].get("holderIdentity") or "") if specs else ""


# --- what is missing or down when a program starts --------------------------------------------


@pytest.fixture(scope="module")
def quiet(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """An API server of its own, which tests stop and whose kinds they delete."""
    with QueueWorld(controlplane_binaries) as world:
        yield world


def test_the_api_server_is_down_at_the_start_and_later_for_a_while(quiet: QueueWorld) -> None:
    quiet.create_quota("down", cpu_max=1)
    quiet.create_unit("early", "down", cpu=1)
    quiet.plane.kill_api_server()
    log = quiet.folder / "early.log"
    process = ProgramProcess(SCHEDULER, quiet.plane.kubeconfig, log, ["--leader-elect=false"])
    process.start()
    try:
        until(lambda: process.get_health("/livez") == 200)
        time.sleep(1.5)
        assert process.get_health("/readyz") == 500
        assert process.exit_code() is None
        quiet.plane.restart_api_server()
        until(lambda: process.get_health("/readyz") == 200)
        until(lambda: quiet.phase("early") == "Dequeued")
        quiet.plane.kill_api_server()
        time.sleep(2.5)
        assert process.get_health("/livez") == 200
        quiet.plane.restart_api_server()
        quiet.finish_unit("early")
        quiet.create_unit("late", "down", cpu=1)
        until(lambda: quiet.phase("late") == "Dequeued")
    finally:
        assert process.stop() == 0
    assert "Traceback" not in process.log()


def test_both_programs_are_ready_without_the_quota_crd_and_work_when_it_comes(
    quiet: QueueWorld,
) -> None:
    quiet.plane.kubectl("delete", "crd", "elasticquotas.scheduling.sigs.k8s.io")
    scheduler = quiet.start(SCHEDULER, "--leader-elect=false")
    controllers = quiet.start(CONTROLLERS, "--enabled-extensions=job", "--leader-elect=false")
    quiet.create_unit("orphan", "later", cpu=1)
    until(lambda: reason_of(quiet.unit("orphan")) == "NoQuota")
    quiet.plane.apply(ELASTIC_QUOTA_CRD)
    until(lambda: _has_created(quiet, "later"))
    until(lambda: quiet.phase("orphan") == "Dequeued")
    assert unit_view(scheduler, "orphan")["quota"] == "later"
    assert (scheduler.stop(), controllers.stop()) == (0, 0)


def _has_created(world: QueueWorld, quota: str) -> bool:
    """Create a quota; return whether the server serves its kind yet."""
    try:
        world.create_quota(quota, cpu_max=1)
    except ApiError as error:
        if error.status not in {404, 429, 503}:
            raise
        return False
    return True


def test_deeply_nested_lists_hold_up_no_unit(quiet: QueueWorld) -> None:
    """The unit starts, and nothing else is affected: nothing that deep is read.

    Read by a watch, and by the list of the next start.
    """
    quiet.create_quota("deep", cpu_max=4)
    pods = json.dumps(requesting("1"))[:-2] + f', "x": {"[" * DEEP}{"]" * DEEP}' + "}}"
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "deep", "labels": {QUOTA_LABEL: "deep"}},
    }
    text = json.dumps(body)[:-1] + f', "spec": {{"podSet": [{pods}]}}' + "}"
    units = UNITS.format("default")
    for attempt in ("watched", "listed"):
        scheduler = quiet.start(SCHEDULER, "--leader-elect=false")
        controllers = quiet.start(CONTROLLERS, "--enabled-extensions=job", "--leader-elect=false")
        if attempt == "watched":
            assert ask_raw(quiet, "POST", units, text) == 201
        until(partial(is_dequeued, scheduler, "deep"))
        assert_all_else_goes_on(quiet, f"deep-{attempt}")
        assert (scheduler.stop(), controllers.stop()) == (0, 0)
    # The client of the tests could not read a list with it either.
    assert ask_raw(quiet, "DELETE", f"{units}/deep") == 200
