"""Jobs on a real cluster: held, released, stopped and ended; which of them are managed.

Ids in brackets stand for tests of upstream's (upstream/README.md). Pods run until
a test ends them, unless it sets how long they run.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.api_audit import CONTROLLERS_AGENT, SCHEDULER_AGENT
from tests.cluster.conftest import EARLY
from tests.cluster.queue_world import (
    MERGE,
    QUOTA_LABEL,
    QUOTAS,
    UNITS,
    Cluster,
    Json,
    QueueWorld,
    debug,
    let_the_second_of_the_release_pass,
    quota_view,
    reason_of,
    refusal_of,
)
from tests.cluster.served_kinds import install_crds, remove_crd
from tests.object_states import condition_of, is_true
from tests.sample_jobs import KUEUE_WORKLOADS
from tests.waiting import STILL_SECONDS, until

LONG = 600
ACTIVE = "scheduling.x-k8s.io/active"


# --- from create to end -------------------------------------------------------------------------


def test_a_job_that_already_ran_is_adopted(cluster: Cluster, world: QueueWorld) -> None:
    """It runs on, above its quota, and is charged; later jobs wait for it."""
    until(lambda: world.phase_of_job(EARLY) == "Running")
    unit = world.unit_of(EARLY)
    assert is_true(unit, "Adopted")
    until(lambda: quota_view(cluster.scheduler, EARLY).get("used") == {"cpu": "2"})
    world.create_job("early-next", EARLY)
    until(lambda: refusal_of(cluster.scheduler, "early-next"))
    assert not world.is_suspended(EARLY)
    until(lambda: "Adopted" in world.event_notes(EARLY))
    assert world.audit.requests(CONTROLLERS_AGENT, EARLY)[0].verb == "create"
    world.delete_job("early-next")


def test_pods_that_never_had_a_node_do_not_make_a_labeled_job_running(world: QueueWorld) -> None:
    world.create_quota("unbound", cpu_max=1)
    nowhere = {"nodeSelector": {"no": "node"}}
    three: Json = {"parallelism": 3, "completions": 3, "pod_spec": nowhere}
    world.create_job("unbound", "", suspend=False, **three)
    until(lambda: len(world.pods("unbound")) == three["parallelism"])
    world.patch_job("unbound", {"metadata": {"labels": {QUOTA_LABEL: "unbound"}}})
    until(lambda: world.phase_of_job("unbound") == "Enqueued" and world.is_suspended("unbound"))
    assert not is_true(world.unit_of("unbound"), "Adopted")
    until(lambda: not world.pods("unbound"))
    world.delete_job("unbound")


def test_a_note_that_is_nested_too_deep_is_ignored_with_an_event(world: QueueWorld) -> None:
    """Deeper than a decoder goes; no admission policy holds the job here."""
    world.create_quota("deep", cpu_max=1)
    note = '{"a":' * 3000 + "1" + "}" * 3000
    annotations = {"koord-queue/pod-set-updates": note}
    world.create_job("deep", "deep", suspend=False, annotations=annotations)
    until(lambda: world.phase_of_job("deep") == "Succeed")
    until(lambda: "nested" in world.event_notes("deep").get("IgnoredAnnotation", ""))
    written = world.audit.requests(CONTROLLERS_AGENT, "deep")
    assert [each.is_release for each in written].count(True) == 1


def test_a_job_is_released_runs_and_ends_with_four_writes(world: QueueWorld) -> None:
    """[ctl-44, ctl-45, ctl-66] One unit, one release that annotates the pods; nothing twice."""
    world.create_quota("ends", cpu_max=1)
    world.create_job("ends", "ends", run_seconds=LONG)
    until(lambda: world.phase_of_job("ends") == "Running")
    unit, job = world.unit_of("ends"), world.job("ends")
    assert unit["metadata"]["name"] == "ends"
    assert [(a["replicas"], a["running"]) for a in unit["status"]["admissions"]] == [(1, 1)]
    template = job["spec"]["template"]["metadata"]
    assert template["labels"][QUOTA_LABEL] == "ends"
    assert template["annotations"]["koord-queue/related-queueunit"] == "default/ends"
    assert job["metadata"]["annotations"]["koord-queue/released-at"]
    [pod] = world.pods("ends")
    assert pod["metadata"]["labels"][QUOTA_LABEL] == "ends"
    assert pod["metadata"]["annotations"]["koord-queue/related-queueunit"] == "default/ends"
    world.end_pod(pod["metadata"]["name"])
    until(lambda: world.phase_of_job("ends") == "Succeed")
    assert condition_of(world.unit_of("ends"), "Finished")["reason"] == "Succeeded"
    until(lambda: len(world.audit.accepted(CONTROLLERS_AGENT, "ends")) >= 4)
    written = world.audit.accepted(CONTROLLERS_AGENT, "ends")
    assert [(each.verb, each.resource, each.status) for each in written] == [
        ("create", "queueunits", 201),
        ("patch", "jobs", 200),
        ("patch", "queueunits/status", 200),
        ("patch", "queueunits/status", 200),
    ]
    assert [each.is_release for each in written].count(True) == 1
    decided = world.audit.requests(SCHEDULER_AGENT, "ends")
    assert [d.status for d in decided if d.resource == "queueunits/status"] == [200]


def test_a_job_that_fails_makes_its_unit_failed(world: QueueWorld) -> None:
    """[ctl-45] The quota is free for the next one."""
    world.create_quota("fails", cpu_max=1)
    world.create_job("fails", "fails", run_seconds=LONG, backoffLimit=0)
    [pod] = until(lambda: world.running_pods("fails"))
    world.end_pod(pod["metadata"]["name"], "Failed")
    until(lambda: world.phase_of_job("fails") == "Failed")
    world.create_job("fails-next", "fails")
    until(lambda: world.phase_of_job("fails-next") == "Succeed")


def test_a_job_beyond_its_quota_waits(cluster: Cluster, world: QueueWorld) -> None:
    """[ctl-65] Master and worker of 10 with a quota of 2: it stays Enqueued, without a pod."""
    world.create_quota("beyond", cpu_max=2)
    world.create_job("beyond", "beyond", cpu="10", parallelism=2, completions=2)
    until(lambda: reason_of(world.unit_of("beyond")))
    time.sleep(STILL_SECONDS)
    assert world.phase_of_job("beyond") == "Enqueued"
    assert world.is_suspended("beyond")
    assert world.pods("beyond") == []
    refusal = refusal_of(cluster.scheduler, "beyond")
    assert (refusal["requested"], refusal["limit"]) == ("20", "2")


def test_the_second_job_runs_when_the_first_has_ended(cluster: Cluster, world: QueueWorld) -> None:
    """[ctl-68] Two jobs of three pods, a quota for four."""
    world.create_quota("pair", cpu_max=4)
    three: Json = {"parallelism": 3, "completions": 3, "run_seconds": LONG}
    world.create_job("pair-1", "pair", **three)
    world.await_running("pair-1", 3)
    # Only now: of two at once, either may get its unit first.
    world.create_job("pair-2", "pair", **three)
    until(lambda: world.phase_of_job("pair-2") == "Enqueued")
    until(lambda: refusal_of(cluster.scheduler, "pair-2"))
    assert world.pods("pair-2") == []
    for pod in world.pods("pair-1"):
        world.end_pod(pod["metadata"]["name"])
    world.await_running("pair-2", 3)
    for pod in world.pods("pair-2"):
        world.end_pod(pod["metadata"]["name"])
    until(lambda: [world.phase_of_job(f"pair-{n}") for n in (1, 2)] == ["Succeed", "Succeed"])


# --- the switch ---------------------------------------------------------------------------------


@contextmanager
def paused_job_controller(world: QueueWorld) -> Iterator[None]:
    """While it lasts, no pods of Jobs are created."""
    pid = world.plane.pids["kube-controller-manager"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_job_that_arrives_unsuspended_is_suspended_first(world: QueueWorld) -> None:
    """It is suspended before anything else happens, and resumed once, when it is admitted."""
    world.create_quota("arrives", cpu_max=1)
    with paused_job_controller(world):
        world.create_job("arrives", "arrives", suspend=False)
        until(lambda: world.phase_of_job("arrives") == "Dequeued")
        until(lambda: not world.is_suspended("arrives"))
        assert world.pods("arrives") == []
    until(lambda: world.phase_of_job("arrives") == "Succeed")
    assert len(world.pods("arrives")) == 1
    written = world.audit.requests(CONTROLLERS_AGENT, "arrives")
    assert written[0].body["spec"] == {"suspend": True}
    assert [each.is_release for each in written].count(True) == 1


def test_pods_created_before_the_suspension_are_deleted(world: QueueWorld) -> None:
    """The Job controller may be quicker; the job waits for its turn all the same."""
    hold_quota(world, "late")
    world.create_job("late", "late", run_seconds=LONG, suspend=False)
    until(lambda: world.is_suspended("late") and world.phase_of_job("late") == "Enqueued")
    until(lambda: not world.pods("late"))
    free_quota(world, "late")
    [pod] = until(lambda: world.running_pods("late"))
    world.end_pod(pod["metadata"]["name"])
    until(lambda: world.phase_of_job("late") == "Succeed")


def test_unsuspended_by_hand_it_is_suspended_again_and_loses_its_place(
    world: QueueWorld,
) -> None:
    """It never runs on, its pods are charged meanwhile, and it goes behind later jobs."""
    hold_quota(world, "hand")
    world.create_job("hand", "hand", run_seconds=LONG)
    until(lambda: world.phase_of_job("hand") == "Enqueued")
    let_the_second_of_the_release_pass()  # of two in the same second the name decides
    world.create_job("later", "hand", run_seconds=LONG)
    until(lambda: world.phase_of_job("later") == "Enqueued")
    for _ in range(3):
        world.patch_job("hand", {"spec": {"suspend": False}})
        until(lambda: world.is_suspended("hand"))
        until(lambda: not world.living_pods("hand"))
    until(lambda: is_true(world.unit_of("hand"), "SuspendContested"))
    assert world.phase_of_job("hand") == "Enqueued"
    until(lambda: {"SuspendedAgain", "SuspendContested"} <= set(world.event_notes("hand")))
    assert "end of its queue" in world.event_notes("hand")["SuspendContested"]
    said = condition_of(world.unit_of("hand"), "SuspendContested")
    deleted: Json = world.unit_of("hand")["metadata"]
    world.api.request("DELETE", f"{UNITS.format('default')}/{deleted['name']}")
    until(lambda: world.unit_of("hand").get("metadata", deleted)["uid"] != deleted["uid"])
    until(lambda: condition_of(world.unit_of("hand"), "SuspendContested") == said)
    free_quota(world, "hand")
    until(lambda: world.running_pods("later"))
    assert world.is_suspended("hand")
    [pod] = world.running_pods("later")
    world.end_pod(pod["metadata"]["name"])
    until(lambda: world.running_pods("hand"))
    until(lambda: condition_of(world.unit_of("hand"), "SuspendContested")["status"] == "False")


def test_pods_that_run_out_of_turn_are_charged_until_they_are_gone(
    cluster: Cluster, world: QueueWorld
) -> None:
    """Its pod stays for a while: it is charged to the quota, though its unit is not admitted."""
    world.create_quota("turn", cpu_max=1)
    world.create_job("turn-holds", "turn", run_seconds=LONG)
    until(lambda: world.running_pods("turn-holds"))
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"finalizers": ["koord-queue.test/pin"]},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    world.create_job("turn", "turn", template=template)
    until(lambda: world.phase_of_job("turn") == "Enqueued")
    pods: list[Json] = []
    while not pods:  # the Job controller may be slower than the controller that suspends it
        world.patch_job("turn", {"spec": {"suspend": False}})
        until(lambda: world.is_suspended("turn"))
        time.sleep(STILL_SECONDS)
        pods = world.pods("turn")
    until(lambda: quota_view(cluster.scheduler, "turn")["used"] == {"cpu": "2"})
    assert world.phase_of_job("turn") == "Enqueued"
    for pod in pods:
        unpin(world, pod)
    until(lambda: quota_view(cluster.scheduler, "turn")["used"] == {"cpu": "1"})


def test_suspended_by_hand_a_released_job_is_resumed(world: QueueWorld) -> None:
    """Not in addition to its old pods; the event names the way to stop it."""
    world.create_quota("resume", cpu_max=1)
    world.create_job("resume", "resume", run_seconds=LONG)
    [pod] = until(lambda: world.running_pods("resume"))
    pin(world, pod)
    let_the_second_of_the_release_pass()
    world.patch_job("resume", {"spec": {"suspend": True}})
    until(lambda: is_true(world.job("resume"), "Suspended"))
    time.sleep(STILL_SECONDS)
    assert world.is_suspended("resume")
    unpin(world, pod)
    until(lambda: not world.is_suspended("resume"))
    world.await_running("resume", 1)
    note = until(lambda: world.event_notes("resume").get("Resumed", ""))
    assert f'{ACTIVE}: "false"' in note
    assert world.phase_of_job("resume") == "Running"


def test_deactivated_while_it_runs_it_is_released_when_its_pods_are_gone(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[ctl-38] Evicted, suspended, stopped, released in this order. Activated, it runs again."""
    world.create_quota("stops", cpu_max=1)
    world.create_job("stops", "stops", run_seconds=LONG)
    [pod] = until(lambda: world.running_pods("stops"))
    until(lambda: world.phase_of_job("stops") == "Running")
    pin(world, pod)
    let_the_second_of_the_release_pass()
    world.patch_job("stops", {"metadata": {"annotations": {ACTIVE: "false"}}})
    until(lambda: world.is_suspended("stops"))
    time.sleep(STILL_SECONDS)
    unit = world.unit_of("stops")
    assert unit["spec"]["active"] is False
    evicted = condition_of(unit, "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "Deactivated")
    assert unit["status"]["phase"] == "Running"
    assert quota_view(cluster.scheduler, "stops")["used"] == {"cpu": "1"}
    unpin(world, pod)
    until(lambda: world.phase_of_job("stops") == "Enqueued")
    unit = world.unit_of("stops")
    assert condition_of(unit, "Admitted")["status"] == "False"
    assert unit["status"].get("admissions", []) == []
    until(lambda: quota_view(cluster.scheduler, "stops")["used"] == {})
    world.patch_job("stops", {"metadata": {"annotations": {ACTIVE: "true"}}})
    [again] = until(lambda: world.running_pods("stops"))
    world.end_pod(again["metadata"]["name"])
    until(lambda: world.phase_of_job("stops") == "Succeed")


def test_an_inactive_job_waits_until_it_is_active(world: QueueWorld) -> None:
    """[ctl-37] Its unit reports that; the job is not released."""
    world.create_quota("idle", cpu_max=1)
    world.create_job("idle", "idle", annotations={ACTIVE: "false"})
    until(lambda: reason_of(world.unit_of("idle")) == "Inactive")
    assert world.unit_of("idle")["spec"]["active"] is False
    assert world.is_suspended("idle")
    world.patch_job("idle", {"metadata": {"annotations": {ACTIVE: "true"}}})
    until(lambda: world.phase_of_job("idle") == "Succeed")


@pytest.mark.parametrize(
    ("name", "timeout", "fits"),
    [
        pytest.param("none-run", "running-timeout", 0, id="no pod runs"),
        pytest.param("some-run", "partial-running-timeout", 1, id="only some run"),
    ],
)
def test_a_job_whose_pods_do_not_run_is_retried_up_to_its_limit(
    world: QueueWorld, name: str, timeout: str, fits: int
) -> None:
    """Evicted, requeued, evicted again; then it is inactive until its owner activates it."""
    world.create_quota(name, cpu_max=2)
    offer_nodes(world, name, fits)
    times = {timeout: "3s", "backoff-timeout": "1s", "backoff-limit": "2"}
    own = {f"koord-queue/{key}": text for key, text in times.items()}
    world.create_job(
        name,
        name,
        annotations=own,
        pod_spec=one_per_node(name),
        run_seconds=LONG,
        parallelism=2,
        completions=2,
    )
    until(lambda: requeue_count(world, name) >= 1)
    until(lambda: is_true(world.unit_of(name), "BackoffLimitReached"))
    assert world.unit_of(name)["spec"]["active"] is False
    assert (world.phase_of_job(name), requeue_count(world, name)) == ("Enqueued", 2)
    assert world.is_suspended(name)
    until(lambda: "limit" in condition_of(world.unit_of(name), "QuotaReserved").get("message", ""))
    note = until(lambda: world.event_notes(name).get("BackoffLimitReached", ""))
    assert note.endswith(f'{ACTIVE}: "true"')
    offer_nodes(world, name, 2)
    in_time = {f"koord-queue/{timeout}": f"{LONG}s"}  # also where pods are created late
    world.patch_job(name, {"metadata": {"annotations": {ACTIVE: "true", **in_time}}})
    world.await_running(name, 2)
    until(lambda: world.phase_of_job(name) == "Running" and not requeue_count(world, name))


# --- ownership ------------------------------------------------------------------------------------


def test_a_running_job_that_gets_a_quota_by_an_edit_is_adopted(
    cluster: Cluster, world: QueueWorld
) -> None:
    """Until then it is unmanaged and left alone; after that it is charged, but never suspended."""
    world.create_quota("edited", cpu_max=1)
    world.create_job("edited", "", cpu="2", run_seconds=LONG, suspend=False)
    until(lambda: world.running_pods("edited"))
    assert world.unit_of("edited") == {}
    world.patch_job("edited", {"metadata": {"labels": {QUOTA_LABEL: "edited"}}})
    until(lambda: world.phase_of_job("edited") == "Running")
    assert is_true(world.unit_of("edited"), "Adopted")
    until(lambda: quota_view(cluster.scheduler, "edited")["used"] == {"cpu": "2"})
    until(lambda: len(world.audit.accepted(CONTROLLERS_AGENT, "edited")) >= 2)
    written = world.audit.accepted(CONTROLLERS_AGENT, "edited")
    assert [each.resource for each in written] == ["queueunits", "queueunits/status"]


def test_a_label_of_kueue_counts_while_kueue_is_there(world: QueueWorld) -> None:
    """The jobs name a quota that is too small for them: one waits for it, one runs regardless."""
    labels = {"kueue.x-k8s.io/queue-name": "a"}
    world.create_quota("kueues", cpu_max=1)
    world.create_job("alone", "kueues", cpu="2", labels=labels, suspend=False)
    until(lambda: world.unit_of("alone"))
    until(lambda: world.is_suspended("alone"))
    install_crds(world.plane, KUEUE_WORKLOADS)
    until(lambda: not world.unit_of("alone"))
    world.create_job("theirs", "kueues", cpu="2", run_seconds=LONG, labels=labels, suspend=False)
    until(lambda: world.running_pods("theirs"))
    time.sleep(STILL_SECONDS)
    assert not world.is_suspended("theirs")
    assert world.audit.requests(CONTROLLERS_AGENT, "theirs") == []
    remove_crd(world.plane, KUEUE_WORKLOADS["metadata"]["name"])
    assert until(lambda: world.unit_of("alone"))
    until(lambda: world.unit_of("theirs"))
    assert until(lambda: condition_of(world.unit_of("theirs"), "Adopted")), "it ran already"
    world.delete_job("theirs")


def test_a_cron_job_does_not_count_as_an_owner(world: QueueWorld) -> None:
    """A Job that it starts is managed like one of a user; a Job that others own is not."""
    labels = {"koord-queue/managed": "true"}
    namespace = {"metadata": {"name": "cron", "labels": labels}}
    world.api.request("POST", "/api/v1/namespaces", namespace)
    owner = world.create_cron_job("nightly", "cron")
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    quota = {**kind, "metadata": {"name": "r2"}, "spec": {"max": {"cpu": "1"}}}
    made = world.api.request("POST", QUOTAS.format("cron"), quota)
    foreign = {"name": "r2", "uid": made["metadata"]["uid"], "controller": True}
    served = {**kind, **foreign}
    unserved = {"apiVersion": "example.com/v1", "kind": "Robot", **foreign}
    for name, above in (("started", owner), ("foreign", served), ("nobodys", unserved)):
        world.create_job(name, "", namespace="cron", owner=above, run_seconds=LONG, suspend=False)
    unit = until(lambda: world.unit_of("started", "cron"))
    until(lambda: reason_of(world.unit_of("started", "cron")) == "NoQuota")
    assert unit["spec"]["consumerRef"]["name"] == "started"
    path = "/apis/batch/v1/namespaces/cron/jobs"
    assert world.api.request("GET", f"{path}/started")["spec"]["suspend"] is True
    assert world.api.request("GET", f"{path}/foreign")["spec"]["suspend"] is False
    assert world.unit_of("foreign", "cron") == {}
    assert until(lambda: world.unit_of("nobodys", "cron")), "its kind does not exist"


# --- names and deletion ---------------------------------------------------------------------------


def test_a_job_that_is_created_again_gets_a_new_unit(world: QueueWorld) -> None:
    """The same name, while the old job's pod still lives: it waits until that is gone."""
    world.create_quota("anew", cpu_max=1)
    world.create_job("anew", "anew", run_seconds=LONG)
    [pod] = until(lambda: world.running_pods("anew"))
    old = world.unit_of("anew")["metadata"]["uid"]
    pin(world, pod)
    world.delete_job("anew")
    world.create_job("anew", "anew", run_seconds=1)
    until(lambda: world.phase_of_job("anew") == "Enqueued")
    until(lambda: old not in [unit["metadata"]["uid"] for unit in world.units()])
    time.sleep(STILL_SECONDS)
    assert world.phase_of_job("anew") == "Enqueued"
    unpin(world, pod)
    until(lambda: world.phase_of_job("anew") == "Succeed")
    assert len([unit for unit in world.units() if is_of_job(unit, "anew")]) == 1


def test_a_unit_made_by_hand_may_have_the_name_of_a_jobs_unit(world: QueueWorld) -> None:
    """The job's unit gets another name; the one made by hand is neither used nor deleted."""
    world.create_quota("taken", cpu_max=4)
    world.create_unit("taken", "taken", cpu=1)
    job = world.create_job("taken", "taken")
    until(lambda: world.phase_of_job("taken") == "Succeed")
    assert world.unit_of("taken")["metadata"]["name"] == f"taken-{job['metadata']['uid'][:8]}"
    until(lambda: world.phase("taken") == "Dequeued")
    until(lambda: "NameCut" in world.event_notes("taken"))


def test_a_queued_job_that_is_deleted_leaves_the_queue(cluster: Cluster, world: QueueWorld) -> None:
    """Its unit is deleted with it."""
    hold_quota(world, "leaves")
    world.create_job("leaves", "leaves")
    until(lambda: debug(cluster.scheduler, "/debug/queues/leaves")["queue"]["pending"] == 1)
    world.delete_job("leaves")
    until(lambda: debug(cluster.scheduler, "/debug/queues/leaves")["queue"]["pending"] == 0)
    assert [unit for unit in world.units() if is_of_job(unit, "leaves")] == []


def test_a_running_job_that_is_deleted_releases_its_quota_with_its_last_pod(
    cluster: Cluster, world: QueueWorld
) -> None:
    """The job and its unit are gone at once; the pod stays charged."""
    world.create_quota("lives", cpu_max=1)
    world.create_job("lives", "lives", run_seconds=LONG)
    [pod] = until(lambda: world.running_pods("lives"))
    pin(world, pod)
    world.create_job("lives-next", "lives")
    world.delete_job("lives")
    until(lambda: not [unit for unit in world.units() if is_of_job(unit, "lives")])
    until(lambda: world.phase_of_job("lives-next") == "Enqueued")
    time.sleep(STILL_SECONDS)
    assert world.phase_of_job("lives-next") == "Enqueued"
    assert quota_view(cluster.scheduler, "lives")["used"] == {"cpu": "1"}
    unpin(world, pod)
    until(lambda: world.phase_of_job("lives-next") == "Succeed")


def test_a_unit_that_is_deleted_is_created_again(cluster: Cluster, world: QueueWorld) -> None:
    """A queued job gets a new unit in the queue; a running job is adopted and never stops."""
    world.create_quota("back", cpu_max=1)
    world.create_job("back", "back", run_seconds=LONG)
    until(lambda: world.phase_of_job("back") == "Running")
    world.create_job("back-next", "back")
    until(lambda: world.phase_of_job("back-next") == "Enqueued")
    old = {name: world.unit_of(name)["metadata"] for name in ("back", "back-next")}
    for meta in old.values():
        world.api.request("DELETE", f"{UNITS.format('default')}/{meta['name']}")

    def is_new(name: str, phase: str) -> bool:
        unit = world.unit_of(name)
        uid = unit.get("metadata", {}).get("uid", "")
        return uid not in {"", old[name]["uid"]} and unit["status"]["phase"] == phase

    until(lambda: is_new("back", "Running") and is_new("back-next", "Enqueued"))
    assert not world.is_suspended("back")
    assert is_true(world.unit_of("back"), "Adopted")
    until(lambda: quota_view(cluster.scheduler, "back")["used"] == {"cpu": "1"})


# --- steps of tests -------------------------------------------------------------------------------


def hold_quota(world: QueueWorld, quota: str) -> None:
    """Create a quota of one CPU that a job of its own uses until `free_quota`."""
    world.create_quota(quota, cpu_max=1)
    world.create_job(f"{quota}-holder", quota, run_seconds=LONG)
    until(lambda: world.running_pods(f"{quota}-holder"))


def free_quota(world: QueueWorld, quota: str) -> None:
    """End the job that `hold_quota` created."""
    [pod] = world.running_pods(f"{quota}-holder")
    world.end_pod(pod["metadata"]["name"])


def one_per_node(name: str) -> Json:
    """Return a pod spec for the nodes of `offer_nodes`, with at most one pod per node."""
    theirs = {"matchLabels": {"batch.kubernetes.io/job-name": name}}
    apart = {"labelSelector": theirs, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return {"nodeSelector": {f"koord-queue.test/{name}": "yes"}, "affinity": apart}


def offer_nodes(world: QueueWorld, name: str, count: int) -> None:
    """Allow the pods of `one_per_node` on this many nodes."""
    label = {"metadata": {"labels": {f"koord-queue.test/{name}": "yes"}}}
    for number in range(count):
        path = f"/api/v1/nodes/node-{number}"
        world.api.request("PATCH", path, label, content_type=MERGE)


def requeue_count(world: QueueWorld, name: str) -> int:
    """Return how often the job's unit was requeued."""
    return int(world.unit_of(name).get("status", {}).get("requeueState", {}).get("count", 0))


def pin(world: QueueWorld, pod: Json) -> None:
    """Keep a pod terminating after its deletion until `unpin`."""
    finalizers = [*pod["metadata"].get("finalizers", []), "koord-queue.test/pin"]
    world.patch_pod(pod["metadata"]["name"], {"metadata": {"finalizers": finalizers}})


def unpin(world: QueueWorld, pod: Json) -> None:
    """Let the pod be deleted."""
    world.patch_pod(pod["metadata"]["name"], {"metadata": {"finalizers": None}})


def is_of_job(unit: Json, job: str) -> bool:
    """Return whether a unit names a job."""
    return bool(unit["spec"].get("consumerRef", {}).get("name") == job)
