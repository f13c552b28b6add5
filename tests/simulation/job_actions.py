"""What users do with jobs, and what happens to their pods."""

from __future__ import annotations

from typing import Final

from shared_api.testing.object_builders import job_body, pod_body
from shared_api.well_known_labels import (
    ACTIVE,
    BACKOFF_LIMIT,
    BACKOFF_TIMEOUT,
    ENABLE_PREEMPTION,
    MAX_EXEC_TIME,
    MIN_PARALLELISM,
    PARTIAL_RUNNING_TIMEOUT,
    PREEMPT_RUNNING,
    PREEMPTIBLE,
    PRIORITY,
    QUEUE_NAME,
    QUOTA_NAME,
    RUNNING_TIMEOUT,
)
from tests.object_states import is_living, is_true, occupies_quota
from tests.simulation.action_table import (
    action,
    annotation,
    edit,
    label,
    one_of,
    patch,
    some,
    spec_field,
)
from tests.simulation.change_feed import Json
from tests.simulation.cluster_side import NODE, RUN_SECONDS
from tests.simulation.limit_actions import sign
from tests.simulation.world import CLASSES, NAMESPACES, World
from tests.simulation.world_plan import QUEUE_NAMESPACE

MOST_JOBS: Final = 9
MORE_JOBS: Final = 3
"""In addition, in a crowded world."""
CROWDED: Final = ("a", "a", "b", "b", "c", "")
"""The quotas that most jobs name in a crowded world."""
SHORT_RUNS: Final = ("0.5", "4", "30")
LONG_RUNS: Final = ("4", "30", "120")
DECLARED_SECONDS: Final = ("5", "40", "200", "600")
"""Longest runs that jobs declare where queues backfill; some run longer."""
MOST_FOREIGN_PODS: Final = 2
FOREIGN: Final = "foreign-"
"""Prefix of the names of pods without an owner."""
QUOTAS: Final = ("a", "b", "c", "other")
"""The quotas that jobs name."""
PATIENCE: Final = {
    RUNNING_TIMEOUT: ("1s", "5s", "soon", None),
    PARTIAL_RUNNING_TIMEOUT: ("1s", "5s", None),
    BACKOFF_TIMEOUT: ("1s", "3m", None),
    BACKOFF_LIMIT: ("1", "2", "0", None),
    MAX_EXEC_TIME: ("3", "600", None),
}
"""Values of the timeout annotations of a job."""


def has_room(world: World) -> bool:
    return len(world.all("jobs")) < MOST_JOBS + world.plan.is_crowded * MORE_JOBS


def has_rivals(world: World) -> bool:
    return world.plan.evicts and has_room(world) and bool(_booked(world))


def _booked(world: World) -> dict[str, Json]:
    return {key: unit for key, unit in world.all("queueunits").items() if occupies_quota(unit)}


def has_jobs(world: World) -> bool:
    return bool(world.all("jobs"))


def has_ended_jobs(world: World) -> bool:
    return bool(_ended(world))


def has_pods(world: World) -> bool:
    return any(is_living(pod) for pod in world.all("pods").values())


def _ended(world: World) -> dict[str, Json]:
    return {k: job for k, job in world.all("jobs").items() if is_true(job, "Complete", "Failed")}


# --- coming and going ----------------------------------------------------------------------------


@action(weight=14, when=has_room)
def create_job(world: World) -> str:
    return _create_job(world)


@action(weight=30, when=has_rivals)
def create_urgent_job(world: World) -> str:
    """Create a job of higher priority than one that has quota, in its queue, which now preempts."""
    _, rival = some(world.rng, _booked(world))
    meta, urgency = rival["metadata"], world.rng.choice((20, 50))
    quota = (meta.get("labels") or {}).get(QUOTA_NAME, "")
    queue = (meta.get("annotations") or {}).get(QUEUE_NAME, "")
    if f"{QUEUE_NAMESPACE}/{queue or quota}" in world.all("queues"):
        said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: one_of(world.rng, ("true", None))}
        body: Json = {"metadata": {"annotations": said}}
        patch(world, "queues", f"{QUEUE_NAMESPACE}/{queue or quota}", body)
    return _create_job(world, urgent=(urgency, quota, queue))


def _create_job(world: World, urgent: tuple[int, str, str] | None = None) -> str:
    """Create a job; in a crowded world it runs longer, mostly in the shared queue.

    Args:
        world: The world.
        urgent: Its priority, its quota, and its queue or "".
    """
    rng, plan = world.rng, world.plan
    namespace = rng.choice((*NAMESPACES[:1] * 4, NAMESPACES[1]))
    taken = {key.partition("/")[2] for key in world.all("jobs")}
    name = next(f"j{n}" for n in range(MOST_JOBS + MORE_JOBS + 1) if f"j{n}" not in taken)
    names = CROWDED if plan.is_crowded else (*QUOTAS, "a", "b", "")
    quota = rng.choice(names) if namespace == "team" else rng.choice(("", "a"))
    if urgent is not None:
        namespace, quota = "team", urgent[1]
    pods, cpu = rng.choice((1, 1, 2, 3)), rng.choice(("1", "1", "2", "500m"))
    body = job_body(
        name,
        namespace=namespace,
        quota=quota,
        requests={"cpu": cpu},
        suspend=rng.random() < 0.8,
        parallelism=pods,
        completions=pods * rng.choice((1, 1, 2)),
        backoffLimit=2,
    )
    template = body["spec"]["template"]
    seconds = rng.choice(LONG_RUNS if plan.is_crowded else SHORT_RUNS)
    template["metadata"] = {"annotations": {RUN_SECONDS: seconds}}
    if rng.random() < 0.3:
        template["spec"]["priorityClassName"] = rng.choice(sorted(CLASSES))
    said = {key: rng.choice(texts) for key, texts in PATIENCE.items() if rng.random() < 0.2}
    if (plan.backfills or plan.has_budgets) and rng.random() < 0.85:
        said[MAX_EXEC_TIME] = rng.choice(DECLARED_SECONDS)
    if pods > 1 and rng.random() < 0.3:
        said[MIN_PARALLELISM] = "1"
    if rng.random() < 0.3:
        said[PRIORITY] = str(rng.choice((-1, 1, 5)))
    if urgent is None and rng.random() < (0.6 if plan.is_crowded else 0.15):
        said[QUEUE_NAME] = "shared"
    if urgent is not None:
        said |= {PRIORITY: str(urgent[0]), QUEUE_NAME: urgent[2] or None}
    body["metadata"]["annotations"] = {key: text for key, text in said.items() if text is not None}
    sign(world, body)
    world.direct.create(body)
    return f"{namespace}/{name} of {pods} x {cpu} in {quota or 'no quota'}"


@action(weight=3, when=has_jobs)
def delete_job(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    return _delete(world, key, one_of(world.rng, ("Background", "Foreground", "Orphan")))


@action(weight=8, when=has_ended_jobs)
def clean_up(world: World) -> str:
    key, _ = some(world.rng, _ended(world))
    return _delete(world, key, "Background")


def _delete(world: World, key: str, how: str) -> str:
    namespace, _, name = key.partition("/")
    world.direct.delete("jobs", name, namespace, how)
    return f"{key} {how}"


# --- edits ---------------------------------------------------------------------------------------


def _patience(said: tuple[str, str | None]) -> Json:
    return {"metadata": {"annotations": {said[0]: said[1]}}}


edit("scale", "jobs", spec_field("parallelism"), (0, 1, 2, 4), weight=4)
edit("set_least", "jobs", annotation(MIN_PARALLELISM), ("1", "2", "0", None), weight=2)
edit("set_priority", "jobs", annotation(PRIORITY), ("9", "-9", "much", None), weight=4)
edit("move_to_quota", "jobs", label(QUOTA_NAME), (*QUOTAS, "nowhere", None), weight=4)
edit(
    "move_to_queue", "jobs", annotation(QUEUE_NAME), ("shared", "a", "b", "nowhere", None), weight=3
)
edit("set_active", "jobs", annotation(ACTIVE), ("true", "false", "true", None), weight=5)
edit(
    "set_patience",
    "jobs",
    _patience,
    [(key, said) for key in sorted(PATIENCE) for said in PATIENCE[key]],
    weight=4,
)
edit("set_preemptible", "jobs", label(PREEMPTIBLE), ("false", None), weight=1)
edit("suspend", "jobs", spec_field("suspend"), (True,), weight=3)
edit("resume", "jobs", spec_field("suspend"), (False,), weight=3)


def want_pods(world: World) -> None:
    """Let every job want a pod: one that wants none and must run soon is requeued forever."""
    for key, job in sorted(world.all("jobs").items()):
        if not job["spec"]["parallelism"]:
            patch(world, "jobs", key, {"spec": {"parallelism": 1}})


# --- pods ----------------------------------------------------------------------------------------


@action(weight=3, when=has_pods)
def fail_pod(world: World) -> str:
    key, _ = some(world.rng, world.all("pods"))
    world.cluster.fail(key)
    return key


@action(weight=3, when=has_pods)
def lose_pod(world: World) -> str:
    key, _ = some(world.rng, world.all("pods"))
    namespace, _, name = key.partition("/")
    world.direct.delete("pods", name, namespace)
    return key


@action(weight=3, when=has_pods)
def resize_pod(world: World) -> str:
    """Resize a living pod in place."""
    key, pod = some(world.rng, world.all("pods"))
    cpu = one_of(world.rng, ("500m", "1", "2", "3"))
    containers = [
        {**each, "resources": {"requests": {"cpu": cpu}}} for each in pod["spec"]["containers"]
    ]
    patch(world, "pods", key, {"spec": {"containers": containers}})
    return f"{key} to {cpu}"


@action(weight=2, when=has_pods)
def relabel_pod(world: World) -> str:
    """Change the quota's label of a pod that its release, or its template, has labeled."""
    pods = {
        key: pod
        for key, pod in world.all("pods").items()
        if is_living(pod) and QUOTA_NAME in (pod["metadata"].get("labels") or {})
    }
    if not pods:
        return "none is labeled"
    key, _ = some(world.rng, pods)
    quota = one_of(world.rng, QUOTAS)
    patch(world, "pods", key, label(QUOTA_NAME)(quota))
    return f"{key} names {quota}"


@action(weight=3)
def let_pods_hang(world: World) -> str:
    world.cluster.hangs = not world.cluster.hangs
    return "on" if world.cluster.hangs else "off"


@action(weight=2)
def make_foreign_pod(world: World) -> str:
    quota, name = one_of(world.rng, QUOTAS), f"{FOREIGN}{world.rng.randrange(MOST_FOREIGN_PODS)}"
    if f"team/{name}" in world.all("pods"):
        world.direct.delete("pods", name, "team")
        return f"{name} goes"
    pod = pod_body(name, namespace="team", quota=quota, requests={"cpu": "1"})
    if world.rng.random() < 0.7:
        pod["spec"]["nodeName"] = NODE
    world.direct.create(pod)
    return f"{name} in {quota}"
