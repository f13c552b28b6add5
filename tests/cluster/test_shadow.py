"""Shadow mode beside a played Kueue, without a CRD of ours, with the rights of the chart.

The jobs are let run in an order that no queue would choose. What a queue in order of submission
would have done is computed here, from what the API server says.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from koord_queue.cli.app import run
from shared_api.timestamps import parse_time
from shared_api.well_known_labels import KUEUE_GROUP_COUNT, KUEUE_POD_GROUP
from tests.charts.render import as_manifest, rights
from tests.cluster.api_audit import ApiAudit, Request
from tests.cluster.played_pods import RUN_SECONDS
from tests.cluster.program_process import SCHEDULER, ProgramProcess
from tests.cluster.queue_world import JOBS, MERGE, PODS, QUEUE_NAMESPACE
from tests.controlplane.api_client import ApiClient
from tests.controlplane.control_plane import ControlPlane
from tests.object_states import condition_of
from tests.waiting import until

Json = dict[str, Any]

ACCOUNT: Final = "shadow-account"
AGENT: Final = "koord-queue-shadow/"
LABEL: Final = "kueue.x-k8s.io/queue-name"
KINDS: Final = ["job", "pod", "podgroup"]
READS: Final = {"get", "list", "watch"}
SECONDS: Final = {"a": 5, "b": 3, "c": 2}
"""How long each of Kueue's jobs runs; each takes the whole quota."""
SECOND: Final = 1.1
"""Jobs that are submitted within one second are in no order."""
ORDER: Final = "acb"
"""In which order it lets them."""

OBJECTS: Final = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: koord-queue}
spec: {min: {cpu: 2}, max: {cpu: 2}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: rest, namespace: koord-queue}
spec: {min: {cpu: 4}, max: {cpu: 4}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: pods, namespace: koord-queue}
spec: {min: {cpu: 2}, max: {cpu: 2}}
---
kind: ShadowPlaces
kueueQueues: {default/main: team}
namespaces: {default: rest}
"""


class Town(NamedTuple):
    """A cluster that the shadow watches."""

    api: ApiClient
    shadow: ProgramProcess
    record: Path
    audit: ApiAudit


@pytest.fixture(scope="module")
def town(controlplane_binaries: Path) -> Iterator[Town]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        audit = ApiAudit(folder, {"level": "Metadata", "users": [ACCOUNT]})
        plane = ControlPlane(
            controlplane_binaries,
            controller_manager=True,
            scheduler=True,
            kwok=True,
            nodes=1,
            users={ACCOUNT: ()},
            api_server_flags=audit.prepare(),
        )
        stack.enter_context(plane)
        plane.kubectl("create", "namespace", QUEUE_NAMESPACE)
        roles = rights(
            "scheduler", user=ACCOUNT, values={"shadow": {"enabled": True, "kinds": KINDS}}
        )
        plane.kubectl("apply", "--filename", "-", input=as_manifest(roles))
        (folder / "objects.yaml").write_text(OBJECTS)
        flags = (
            "--shadow",
            f"--shadow-record-dir={folder / 'record'}",
            f"--shadow-objects={folder / 'objects.yaml'}",
            f"--shadow-kinds={','.join(KINDS)}",
            f"--queue-namespace={QUEUE_NAMESPACE}",
        )
        shadow = ProgramProcess(SCHEDULER, plane.kubeconfig_for(ACCOUNT), folder / "log", flags)
        stack.callback(shadow.stop)
        shadow.start()
        shadow.wait_until_ready()
        yield Town(plane.client_for(), shadow, folder / "record", audit)


def create_job(api: ApiClient, name: str, *, seconds: int, queue: str = "") -> None:
    """Create a Job of one pod with two cores; with a queue of Kueue it is held."""
    template: Json = {
        "metadata": {"annotations": {RUN_SECONDS: str(seconds)}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}
            ],
        },
    }
    labels = {LABEL: queue} if queue else {}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"suspend": bool(queue), "backoffLimit": 0, "template": template},
    }
    api.request("POST", JOBS.format("default"), body)


def run_to_end(api: ApiClient, name: str) -> None:
    """Let a Job run, as Kueue does, and wait for its end."""
    path = f"{JOBS.format('default')}/{name}"
    api.request("PATCH", path, {"spec": {"suspend": False}}, content_type=MERGE)
    until(lambda: condition_of(api.request("GET", path), "Complete"))


def seconds_of(text: str) -> float:
    return parse_time(text).timestamp()


def truth(api: ApiClient) -> dict[str, tuple[float, float, float]]:
    """Return submission, start and end of each Job, as the API server says it."""
    found = {}
    for job in api.request("GET", JOBS.format("default"))["items"]:
        name = job["metadata"]["name"]
        (pod,) = api.request("GET", f"{PODS}?labelSelector=job-name%3D{name}")["items"]
        found[name] = (
            seconds_of(job["metadata"]["creationTimestamp"]),
            seconds_of(condition_of(pod, "PodScheduled")["lastTransitionTime"]),
            seconds_of(job["status"]["completionTime"]),
        )
    return found


def in_order_of_submission(real: dict[str, tuple[float, float, float]]) -> dict[str, float]:
    """Return when each of Kueue's jobs starts if one after the other has the quota."""
    starts, free = {}, 0.0
    for name, (submitted, start, end) in sorted(real.items(), key=lambda each: (each[1][0], each)):
        if name in SECONDS:
            starts[name] = max(submitted, free)
            free = starts[name] + end - start
        else:
            starts[name] = submitted
    return starts


def report_of(record: Path) -> Json:
    out = io.StringIO()
    with redirect_stdout(out):
        assert run(["shadow-report", str(record), "-o", "json"]) == 0
    found: Json = json.loads(out.getvalue())
    return found


def test_the_report_equals_the_truth(town: Town) -> None:
    api = town.api
    until((town.record / "shadow.jsonl").exists)
    for name, seconds in SECONDS.items():
        create_job(api, name, seconds=seconds, queue="main")
        time.sleep(SECOND)
    create_job(api, "free", seconds=1)
    for name in ORDER:
        run_to_end(api, name)
    until(lambda: condition_of(api.request("GET", f"{JOBS.format('default')}/free"), "Complete"))
    real = truth(api)
    until(lambda: sum(bool(job["ended"]) for job in report_of(town.record)["jobs"]) == len(real))
    report = report_of(town.record)
    rows = {job["job"].removeprefix("default/"): job for job in report["jobs"]}
    got = {
        name: tuple(seconds_of(row[key]) for key in ("submitted", "started", "ended"))
        for name, row in rows.items()
    }
    assert got == real
    starts = {name: seconds_of(row["wouldStart"]) for name, row in rows.items()}
    assert starts == in_order_of_submission(real)
    assert report["inversions"]["all"] == {"real": 1, "shadow": 0}
    assert {name: row["quota"] for name, row in rows.items()} == {
        **dict.fromkeys(SECONDS, "team"),
        "free": "rest",
    }
    assert [each["job"] for each in town.shadow.events() if each.get("event") == "would start"]


# --- jobs that are pods -------------------------------------------------------------------------


def create_pod(api: ApiClient, name: str, *, cpu: str, seconds: int, group: str = "") -> None:
    """Create a pod that Kueue's gate holds; a group has two pods."""
    labels = {LABEL: "pods"} | ({KUEUE_POD_GROUP: group} if group else {})
    annotations = {RUN_SECONDS: str(seconds)} | ({KUEUE_GROUP_COUNT: "2"} if group else {})
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
            "containers": [
                {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
            ],
        },
    }
    api.request("POST", PODS, body)


def open_gates(api: ApiClient, *names: str) -> list[Json]:
    """Let pods run, as Kueue does, and return them when they have ended."""
    for name in names:
        opened = {"spec": {"schedulingGates": None}}
        api.request("PATCH", f"{PODS}/{name}", opened, content_type=MERGE)
    return [until(partial(ended_pod, api, name)) for name in names]


def ended_pod(api: ApiClient, name: str) -> Json:
    """Return a pod that has ended; an empty object if it has not."""
    pod: Json = api.request("GET", f"{PODS}/{name}")
    return pod if pod["status"]["phase"] == "Succeeded" else {}


def truth_of_pods(*pods: Json) -> tuple[float, float, float]:
    """Return when the last one was created, the first one got a node, and the last one ended."""
    scheduled = (condition_of(pod, "PodScheduled")["lastTransitionTime"] for pod in pods)
    states = (each["state"] for pod in pods for each in pod["status"]["containerStatuses"])
    return (
        max(seconds_of(pod["metadata"]["creationTimestamp"]) for pod in pods),
        min(map(seconds_of, scheduled)),
        max(seconds_of(each["terminated"]["finishedAt"]) for each in states),
    )


def test_the_report_has_the_truth_of_a_pod_and_a_group(town: Town) -> None:
    api = town.api
    until((town.record / "shadow.jsonl").exists)
    create_pod(api, "alone", cpu="2", seconds=4)
    time.sleep(SECOND)
    create_pod(api, "half-0", cpu="1", seconds=2, group="pair")
    time.sleep(SECOND)
    create_pod(api, "half-1", cpu="1", seconds=3, group="pair")
    real = {"pair": truth_of_pods(*open_gates(api, "half-0", "half-1"))}
    real["alone"] = truth_of_pods(*open_gates(api, "alone"))

    def rows() -> dict[str, Json]:
        found = {job["job"].removeprefix("default/"): job for job in report_of(town.record)["jobs"]}
        return {name: job for name, job in found.items() if job["quota"] == "pods"}

    until(lambda: sum(bool(row["ended"]) for row in rows().values()) == len(real))
    found = rows()
    got = {
        name: tuple(seconds_of(row[key]) for key in ("submitted", "started", "ended"))
        for name, row in found.items()
    }
    assert got == real
    submitted, start, end = real["alone"]
    assert {name: seconds_of(row["wouldStart"]) for name, row in found.items()} == {
        "alone": submitted,
        "pair": max(real["pair"][0], submitted + end - start),
    }
    assert real["pair"][1] < real["alone"][1], "they really ran in the other order"


def test_it_has_only_read_and_nothing_was_forbidden(town: Town) -> None:
    def writes() -> list[Request]:
        return [each for each in town.audit.requests(AGENT) if each.verb not in READS]

    until(writes)
    assert {(each.resource, each.name) for each in writes()} == {("leases", "koord-queue-shadow")}
    assert {each.status for each in town.audit.requests(AGENT)} & {401, 403} == set()
    assert town.shadow.stop() == 0, town.shadow.log()
    assert town.shadow.errors() == []
