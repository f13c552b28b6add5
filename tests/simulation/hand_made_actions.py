"""Unmanaged units: made by hand, and looked after by their owner."""

from __future__ import annotations

from itertools import count
from typing import Final

from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.testing.object_builders import pod_body, queue_unit_body
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import MANAGED_BY, QUEUE_NAME, QUOTA_NAME, RELATED_QUEUE_UNIT
from tests.object_states import ADMITTED_PHASES, is_living, occupies_quota, phase_of
from tests.simulation.action_table import action, one_of, patch, some
from tests.simulation.change_feed import Json
from tests.simulation.cluster_side import NODE
from tests.simulation.world import World

MOST_UNITS: Final = 3
QUOTAS: Final = ("a", "b", "c")


def is_hand_made(unit: Json) -> bool:
    """Return whether only its owner looks after a unit."""
    return MANAGED_BY not in (unit["metadata"].get("annotations") or {})


def hand_made(world: World) -> dict[str, Json]:
    """Return the unmanaged units, by their keys."""
    return {k: unit for k, unit in world.all("queueunits").items() if is_hand_made(unit)}


def _booked(world: World) -> dict[str, Json]:
    there = hand_made(world).items()
    return {k: u for k, u in there if occupies_quota(u) and u["status"].get("admissions")}


def _released(world: World) -> dict[str, Json]:
    return {k: u for k, u in _booked(world).items() if phase_of(u) in ADMITTED_PHASES}


def _asking(world: World) -> dict[str, Json]:
    return {k: u for k, u in hand_made(world).items() if phase_of(u) == "SchedReady"}


def has_room_for_units(world: World) -> bool:
    return len(hand_made(world)) < MOST_UNITS


def has_hand_made(world: World) -> bool:
    return bool(hand_made(world))


def has_booked(world: World) -> bool:
    return bool(_booked(world))


def has_released(world: World) -> bool:
    return bool(_released(world))


def has_asking(world: World) -> bool:
    return bool(_asking(world))


@action(weight=3, when=has_room_for_units)
def create_unit(world: World) -> str:
    rng = world.rng
    taken = {key.partition("/")[2] for key in world.all("queueunits")} | _named_this_second(world)
    name = next(f"h{n}" for n in count() if f"h{n}" not in taken)
    quota, pods, cpu = rng.choice(QUOTAS), rng.choice((1, 2)), rng.choice(("1", "2", "500m"))
    body = queue_unit_body(
        name,
        namespace="team",
        quota=quota,
        count=pods,
        requests={"cpu": cpu},
        priority=rng.choice((-1, 0, 7)),
    )
    if rng.random() < 0.3:
        body["metadata"]["annotations"] = {QUEUE_NAME: "shared"}
    world.direct.create(body)
    return f"team/{name} of {pods} x {cpu} in {quota}"


def _named_this_second(world: World) -> set[str]:
    """Names of units that pods of this second name: times do not show whose they are."""
    now = rfc3339(world.clock.now())
    pods = (pod["metadata"] for pod in world.all("pods").values())
    young = (meta for meta in pods if meta["creationTimestamp"] >= now)
    named = ((meta.get("annotations") or {}).get(RELATED_QUEUE_UNIT, "") for meta in young)
    return {key.partition("/")[2] for key in named}


@action(weight=3, when=has_booked)
def give_back(world: World) -> str:
    key, unit = some(world.rng, _booked(world))
    _set_admissions(world, key, unit, replicas=0, running=0)
    return key


@action(weight=3, when=has_released)
def report_running(world: World) -> str:
    key, unit = some(world.rng, _released(world))
    _set_admissions(world, key, unit)
    return key


@action(weight=2, when=has_hand_made)
def finish_unit(world: World) -> str:
    key, _ = some(world.rng, hand_made(world))
    said = one_of(world.rng, ("Succeed", "Failed"))
    patch(world, "queueunits", key, {"status": {"phase": said, "admissions": []}}, status=True)
    return f"{key} {said}"


@action(weight=2, when=has_hand_made)
def delete_hand_made(world: World) -> str:
    key, _ = some(world.rng, hand_made(world))
    namespace, _, name = key.partition("/")
    world.direct.delete("queueunits", name, namespace)
    return key


@action(weight=4, when=has_asking)
def answer_unit(world: World) -> str:
    key, _ = some(world.rng, _asking(world))
    said = one_of(world.rng, ("SchedSucceed", "SchedSucceed", "SchedFailed"))
    patch(world, "queueunits", key, {"status": {"phase": said}}, status=True)
    return f"{key} {said}"


@action(weight=2, when=has_released)
def make_pod_of_unit(world: World) -> str:
    """Make or end the one pod of a unit, within what the unit was granted."""
    key, unit = some(world.rng, _released(world))
    namespace, _, name = key.partition("/")
    pod = f"{name}-pod"
    there = world.all("pods").get(f"{namespace}/{pod}")
    if there is not None:
        world.direct.delete("pods", pod, namespace)
        return f"{key} ends"
    template = unit["spec"]["podSet"][0]["template"]
    requests = template["spec"]["containers"][0]["resources"]["requests"]
    # Pods of a unit are labeled with what it was admitted in; a label that was edited since moves
    # neither.
    placement = unit["status"].get("placement")
    labels = unit["metadata"].get("labels") if placement is None else placement.get("labels")
    body = pod_body(
        pod,
        namespace=namespace,
        quota=(labels or {}).get(QUOTA_NAME, ""),
        requests=requests,
        metadata={"annotations": {RELATED_QUEUE_UNIT: key}},
    )
    body["metadata"]["ownerReferences"] = [_owner(key, unit)]
    body["spec"]["nodeName"] = NODE
    world.direct.create(body)
    return key


def give_all_back(world: World) -> None:
    """Let all owners end their pods, give back their admissions, and ask for nothing more."""
    for key, unit in sorted(hand_made(world).items()):
        patch(world, "queueunits", key, {"spec": {"active": False}})
        if key in _booked(world):
            _set_admissions(world, key, unit, replicas=0, running=0)
    for key, pod in sorted(world.all("pods").items()):
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(each["kind"] == QUEUE_UNITS.kind for each in owners) and is_living(pod):
            namespace, _, name = key.partition("/")
            world.direct.delete("pods", name, namespace)


def _owner(key: str, unit: Json) -> Json:
    """Return the owner reference that has a pod deleted with its unit."""
    return {
        "apiVersion": QUEUE_UNITS.api_version,
        "kind": QUEUE_UNITS.kind,
        "name": key.partition("/")[2],
        "uid": unit["metadata"]["uid"],
        "controller": True,
    }


def _set_admissions(world: World, key: str, unit: Json, **counts: int) -> None:
    """Write the counts of all admissions; without counts, all granted pods run."""
    after = [
        {**each, **(counts or {"running": each["replicas"]})}
        for each in unit["status"]["admissions"]
    ]
    patch(world, "queueunits", key, {"status": {"admissions": after}}, status=True)
