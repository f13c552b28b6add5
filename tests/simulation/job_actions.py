"""What users do with jobs, and what befalls their pods."""

from __future__ import annotations

from typing import Final

from shared_api.testing.object_builders import job_body, pod_body
from shared_api.well_known_labels import (
    ACTIVE,
    BACKOFF_LIMIT,
    BACKOFF_TIMEOUT,
    MAX_EXEC_TIME,
    PARTIAL_RUNNING_TIMEOUT,
    PRIORITY,
    QUEUE_NAME,
    QUOTA_NAME,
    RUNNING_TIMEOUT,
)
from tests.demo.unit_charge import is_living
from tests.simulation.action_table import action, annotate, one_of, patch, some
from tests.simulation.change_feed import Json, is_true
from tests.simulation.cluster_side import NODE, RUN_SECONDS
from tests.simulation.world import CLASSES, NAMESPACES, World

MOST_JOBS: Final = 9
MOST_FOREIGN_PODS: Final = 2
FOREIGN: Final = "foreign-"
"""What the names of pods begin with that are nobody's."""
QUOTAS: Final = ("a", "b", "c", "other")
"""Those that jobs name."""
PATIENCE: Final = {
    RUNNING_TIMEOUT: ("1s", "5s", "soon", None),
    PARTIAL_RUNNING_TIMEOUT: ("1s", "5s", None),
    BACKOFF_TIMEOUT: ("1s", "3m", None),
    BACKOFF_LIMIT: ("1", "2", "0", None),
    MAX_EXEC_TIME: ("3", "600", None),
}
"""What users say of a job's patience."""


def has_room(world: World) -> bool:
    return len(world.all("jobs")) < MOST_JOBS


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
    rng = world.rng
    namespace = rng.choice((*NAMESPACES[:1] * 4, NAMESPACES[1]))
    taken = {key.partition("/")[2] for key in world.all("jobs")}
    name = next(f"j{n}" for n in range(MOST_JOBS + 1) if f"j{n}" not in taken)
    quota = rng.choice((*QUOTAS, "a", "b", "")) if namespace == "team" else rng.choice(("", "a"))
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
    template["metadata"] = {"annotations": {RUN_SECONDS: rng.choice(("0.5", "4", "30"))}}
    if rng.random() < 0.3:
        template["spec"]["priorityClassName"] = rng.choice(sorted(CLASSES))
    said = {key: rng.choice(texts) for key, texts in PATIENCE.items() if rng.random() < 0.2}
    if rng.random() < 0.3:
        said[PRIORITY] = str(rng.choice((-1, 1, 5)))
    body["metadata"]["annotations"] = {key: text for key, text in said.items() if text is not None}
    if rng.random() < 0.15:
        body["metadata"]["annotations"][QUEUE_NAME] = "shared"
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


@action(weight=4, when=has_jobs)
def scale(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    count = world.rng.choice((0, 1, 2, 4))
    patch(world, "jobs", key, {"spec": {"parallelism": count}})
    return f"{key} to {count}"


@action(weight=4, when=has_jobs)
def set_priority(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    said = one_of(world.rng, ("9", "-9", "much", None))
    annotate(world, "jobs", key, PRIORITY, said)
    return f"{key} {said}"


@action(weight=4, when=has_jobs)
def move_to_quota(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    quota = one_of(world.rng, (*QUOTAS, "nowhere", None))
    patch(world, "jobs", key, {"metadata": {"labels": {QUOTA_NAME: quota}}})
    return f"{key} {quota}"


@action(weight=3, when=has_jobs)
def move_to_queue(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    queue = one_of(world.rng, ("shared", "a", "b", "nowhere", None))
    annotate(world, "jobs", key, QUEUE_NAME, queue)
    return f"{key} {queue}"


@action(weight=5, when=has_jobs)
def set_active(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    said = one_of(world.rng, ("true", "false", "true", None))
    annotate(world, "jobs", key, ACTIVE, said)
    return f"{key} {said}"


@action(weight=4, when=has_jobs)
def set_patience(world: World) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    annotation = one_of(world.rng, sorted(PATIENCE))
    said = one_of(world.rng, PATIENCE[annotation])
    annotate(world, "jobs", key, annotation, said)
    return f"{key} {annotation}={said}"


@action(weight=3, when=has_jobs)
def suspend(world: World) -> str:
    return _switch(world, suspended=True)


@action(weight=3, when=has_jobs)
def resume(world: World) -> str:
    return _switch(world, suspended=False)


def _switch(world: World, *, suspended: bool) -> str:
    key, _ = some(world.rng, world.all("jobs"))
    patch(world, "jobs", key, {"spec": {"suspend": suspended}})
    return key


def want_pods(world: World) -> None:
    """Let every job want a pod: one that wants none and must run soon is put back for ever."""
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
