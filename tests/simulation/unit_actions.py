"""What other clients do to queue units: by hand, by mistake, or because of a bug."""

from __future__ import annotations

from datetime import timedelta

from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    JOB_CREATED_AT,
    PREEMPTIBLE,
    QUEUE_NAME,
    QUOTA_NAME,
)
from tests.simulation.action_table import (
    action,
    annotation,
    edit,
    one_of,
    patch,
    some,
    spec_field,
)
from tests.simulation.change_feed import Json
from tests.simulation.hand_made_actions import is_hand_made
from tests.simulation.world import World


def has_units(world: World) -> bool:
    return bool(world.all("queueunits"))


def has_admitted(world: World) -> bool:
    return bool(_admitted(world))


def has_backing_off(world: World) -> bool:
    return bool(_backing_off(world))


def has_checks(world: World) -> bool:
    return bool(_checked(world))


def has_managed(world: World) -> bool:
    return bool(_managed(world))


def _managed(world: World) -> dict[str, Json]:
    """Units of jobs; one marked by hand would claim the pods that name it, whatever their age."""
    units = world.all("queueunits").items()
    return {key: unit for key, unit in units if not is_hand_made(unit)}


def _checked(world: World) -> dict[str, Json]:
    units = world.all("queueunits").items()
    return {key: unit for key, unit in units if (unit.get("status") or {}).get("admissionChecks")}


def _admitted(world: World) -> dict[str, Json]:
    units = world.all("queueunits").items()
    return {key: unit for key, unit in units if (unit.get("status") or {}).get("admissions")}


def _backing_off(world: World) -> dict[str, Json]:
    units = world.all("queueunits").items()
    return {k: u for k, u in units if (u.get("status") or {}).get("phase") == "TimeoutBackoff"}


@action(weight=1, when=has_units)
def delete_unit(world: World) -> str:
    key, _ = some(world.rng, world.all("queueunits"))
    namespace, _, name = key.partition("/")
    world.direct.delete("queueunits", name, namespace)
    return key


@action(weight=1, when=has_units)
def wipe_status(world: World) -> str:
    key, unit = some(world.rng, world.all("queueunits"))
    nothing = dict.fromkeys(unit.get("status") or {})
    patch(world, "queueunits", key, {"status": nothing}, status=True)
    return key


@action(weight=1, when=has_admitted)
def edit_admissions(world: World) -> str:
    key, unit = some(world.rng, _admitted(world))
    replicas = one_of(world.rng, (1, 5))
    names = [each["name"] for each in unit["status"]["admissions"]]
    edited = [{"name": name, "replicas": replicas, "running": 0} for name in names]
    patch(world, "queueunits", key, {"status": {"admissions": edited}}, status=True)
    return f"{key} {replicas}"


@action(weight=2, when=has_backing_off)
def set_requeue_at(world: World) -> str:
    key, _ = some(world.rng, _backing_off(world))
    seconds = one_of(world.rng, (-3600, 0, 5, 600))
    at = rfc3339(world.clock.now() + timedelta(seconds=seconds))
    patch(world, "queueunits", key, {"status": {"requeueState": {"requeueAt": at}}}, status=True)
    return f"{key} in {seconds} s"


edit("set_unit_active", "queueunits", spec_field("active"), (True, False), weight=2)
edit("set_unit_priority", "queueunits", spec_field("priority"), (-3, 0, 30), weight=1)


@action(weight=2, when=has_managed)
def mark_as_adopted(world: World) -> str:
    """Write the annotation that older versions took as proof; it no longer is one."""
    key, _ = some(world.rng, _managed(world))
    patch(world, "queueunits", key, annotation("koord-queue/adopted")("true"))
    return key


@action(weight=1, when=has_managed)
def date_back(world: World) -> str:
    """Let a job claim to be older than it is."""
    key, _ = some(world.rng, _managed(world))
    patch(world, "queueunits", key, annotation(JOB_CREATED_AT)("2020-01-01T00:00:00Z"))
    return key


@action(weight=2, when=has_managed)
def relabel_unit(world: World) -> str:
    """Give a unit another quota or queue label, or mark it as not preemptible."""
    key, _ = some(world.rng, _managed(world))
    labels = one_of(world.rng, (QUOTA_NAME, QUOTA_NAME, PREEMPTIBLE, QUEUE_NAME))
    value = "false" if labels == PREEMPTIBLE else one_of(world.rng, ("a", "b", "shared"))
    patch(world, "queueunits", key, {"metadata": {"labels": {labels: value}}})
    return f"{key} {labels}={value}"


@action(weight=2, when=has_managed)
def shrink_unit(world: World) -> str:
    """Let a unit ask for one pod of each set, or for next to nothing."""
    key, unit = some(world.rng, _managed(world))
    pod_sets = [{**each, "count": 1} for each in unit["spec"].get("podSet") or ()]
    if not pod_sets:
        return ""
    spec = {"podSet": pod_sets, "request": {"cpu": "1m"}}
    patch(world, "queueunits", key, {"spec": spec})
    return key


@action(weight=8, when=has_checks)
def answer_check(world: World) -> str:
    key, unit = some(world.rng, _checked(world))
    state = one_of(world.rng, ("Ready", "Ready", "Ready", "Retry", "Rejected", "Pending"))
    checks = unit["status"]["admissionChecks"]
    place = world.rng.randrange(len(checks))
    said = {**checks[place], "state": state, "lastTransitionTime": rfc3339(world.clock.now())}
    answered = [*checks[:place], said, *checks[place + 1 :]]
    patch(world, "queueunits", key, {"status": {"admissionChecks": answered}}, status=True)
    return f"{key} {said['name']} {state}"


@action(weight=2, when=has_admitted)
def ask_for_eviction(world: World) -> str:
    key, unit = some(world.rng, _admitted(world))
    now = rfc3339(world.clock.now())
    others = [each for each in unit["status"].get("conditions", ()) if each["type"] != "Evicted"]
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "by hand"}
    conditions = [*others, {**asked, "lastTransitionTime": now}]
    patch(world, "queueunits", key, {"status": {"conditions": conditions}}, status=True)
    return key
