"""Defaults and refusals of pods by the API server in a job's life: demand, reasons and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]

REFUSED: Final = "koord-queue/pods-refused"
DIFFERENCES: Final = "koord-queue/template-differences"
QUOTA: Final = "quota.scheduling.koordinator.sh/name"
PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"


def limit_range(world: World, name: str = "r", namespace: str = "team", **item: Json) -> None:
    metadata = {"name": name, "namespace": namespace}
    spec = {"limits": [{"type": "Container", **item}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}
    world.direct.create(body)


def template(labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "image": "i"}
    pod = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"metadata": {"labels": labels or {}}, "spec": pod}


def requested(world: World) -> Json:
    found: Json = world.get_unit()["spec"].get("request", {})
    return found


def marks(world: World) -> Json:
    annotations: Json = world.get_unit()["metadata"]["annotations"]
    return {key: annotations[key] for key in (REFUSED, DIFFERENCES) if key in annotations}


def test_a_unit_has_the_demand_of_its_future_pods_and_is_written_once(world: World) -> None:
    limit_range(world, defaultRequest={"cpu": "1500m"})
    limit_range(world, namespace="other", defaultRequest={"cpu": "9"})
    world.start()
    world.job(template=template())
    world.settle()
    assert requested(world) == {"cpu": "3"}
    assert marks(world) == {DIFFERENCES: "requests cpu 1500m of container c (LimitRange r)"}
    world.settle(30.0)
    world.start()  # nothing is remembered
    assert writes_to(world.server).count("create queueunits") == 1
    assert "patch queueunits" not in writes_to(world.server)


def test_a_pending_unit_follows_and_a_running_one_does_not(world: World) -> None:
    world.start()
    world.job(template=template())
    world.settle()
    limit_range(world, default={"cpu": "1"})
    world.settle(2.0)
    assert requested(world) == {"cpu": "2"}
    world.direct.delete("limitranges", "r", "team")
    world.settle(2.0)
    assert (requested(world), marks(world)) == ({}, {})
    world.admit()
    world.settle()
    limit_range(world, default={"cpu": "3"})
    world.run_pods()
    world.settle(2.0)
    assert (world.phase(), requested(world)) == ("Running", {})


def test_a_template_that_no_pod_may_have_is_held_until_it_is_corrected(world: World) -> None:
    """As kinds have it whose CRD does not look into their template."""
    world.start()
    world.job(template=template({"app": "my app"}))
    world.settle()
    assert marks(world)[REFUSED].startswith(
        "label 'app' of the job's template has the value 'my app', which is not valid: "
    )
    corrected = {"spec": {"template": {"metadata": {"labels": {"app": "my-app"}}}}}
    world.patch_job(corrected)
    world.settle(2.0)
    assert marks(world) == {}
    world.admit()
    world.settle()
    assert not world.is_suspended()


def test_many_units_are_corrected_a_few_at_a_time(world: World) -> None:
    world.start()
    for number in range(12):
        world.job(f"j{number}", template=template())
    world.settle()
    limit_range(world, default={"cpu": "1"})
    world.settle(1.0)
    assert 3 <= writes_to(world.server).count("patch queueunits") <= 7
    world.settle(3.0)
    assert writes_to(world.server).count("patch queueunits") == 12


def test_a_unit_admitted_for_less_is_requeued(world: World) -> None:
    """The write of the correction is refused: the check before the release prevents it."""
    limit_range(world, default={"cpu": "1"})
    world.start()
    world.job(template=template())
    world.settle()
    world.direct.delete("limitranges", "r", "team")
    limit_range(world, default={"cpu": "2"})
    world.admit()
    world.settle(2.0)
    assert world.is_suspended()
    assert "JobChanged" in world.notes_on_jobs()
    assert (world.phase(), requested(world)) == ("Enqueued", {"cpu": "4"})
    world.admit()
    world.settle()
    assert not world.is_suspended()


@pytest.mark.parametrize(
    ("spec", "plural", "made", "says"),
    [
        (
            {"priorityClassName": "late"},
            "priorityclasses",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1},
            "PriorityClass late does not exist",
        ),
        (
            {"runtimeClassName": "late"},
            "runtimeclasses",
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "x"},
            "RuntimeClass late does not exist",
        ),
        (
            {"serviceAccountName": "late"},
            "serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount"},
            "ServiceAccount late does not exist in the job's namespace",
        ),
    ],
)
def test_missing_objects_are_marked_and_hold_a_release(
    world: World, spec: Json, plural: str, made: Json, says: str
) -> None:
    namespace = "team" if plural == "serviceaccounts" else ""
    body = {**made, "metadata": {"name": "late", "namespace": namespace}}
    world.start()
    world.job(template=template(**spec))
    world.settle()
    assert marks(world) == {REFUSED: says}
    world.direct.create(body)
    world.settle()
    assert marks(world) == {}
    world.admit()
    world.direct.delete(plural, "late", namespace)
    world.settle(2.0)
    assert world.is_suspended()
    world.direct.create(body)
    world.settle()
    assert not world.is_suspended(), "it was only created again"


def test_an_admitted_job_is_evicted_when_its_pods_stay_refused(world: World) -> None:
    limit_range(world, default={"cpu": "3"})
    world.start()
    world.job(template=template())
    world.settle()
    limit_range(world, "small", max={"cpu": "2"})
    world.admit()
    world.settle(4.0)
    assert (world.is_suspended(), world.phase()) == (True, "Dequeued")
    world.settle(4.0)
    assert world.phase() == "Enqueued"
    words = "LimitRange small allows at most cpu 2 per container, the job asks 3 (container c)"
    assert marks(world)[REFUSED] == words
    assert words in world.notes_on_jobs()["PodsRefused"]
    world.direct.delete("limitranges", "small", "team")
    world.settle(2.0)
    assert REFUSED not in marks(world)


@pytest.mark.parametrize("plural", ["limitranges", "runtimeclasses", "serviceaccounts"])
def test_missing_rights_hold_nothing_up(world: World, plural: str) -> None:
    world.server.faults.fail(403, times=EVERY_TIME, match=Match(plural=plural))
    limit_range(world, max={"cpu": "1"})
    controllers = world.start()
    fields = {"runtimeclasses": "runtimeClassName", "serviceaccounts": "serviceAccountName"}
    missing: Json = {fields[plural]: "x"} if plural in fields else {}
    world.job(template=template(**missing))
    world.settle()
    assert REFUSED not in marks(world)
    assert (DIFFERENCES in marks(world)) == (plural != "limitranges")
    is_ready, detail = controllers.ready_checks()[f"{plural}-synced"]()
    assert is_ready
    assert "403" in detail
    assert "jobs go on without" in detail


def test_a_right_that_comes_later_counts_from_then_on(world: World) -> None:
    world.server.faults.fail(403, times=8, match=Match(plural="limitranges"))
    limit_range(world, default={"cpu": "1"})
    world.start()
    world.job(template=template())
    world.settle()
    assert requested(world) == {}
    world.settle(40.0)
    assert requested(world) == {"cpu": "2"}


def test_a_running_job_is_released_without_what_admission_adds(world: World) -> None:
    """The API server adds it to every pod again; in the template it would outlive its reason."""
    limit_range(world, default={"cpu": "1"})
    world.start()
    world.job(template=template())
    world.settle()
    world.admit()
    world.settle()
    released = world.get_job()["spec"]["template"]["spec"]["containers"][0]
    assert not world.is_suspended()
    assert released.get("resources", {}) == {}


def test_labels_are_reported_copied_and_charged_as_the_pods_are(world: World) -> None:
    world.start()
    labels = {QUOTA: "silver"}
    world.job(template=template(labels))
    world.patch_job({"metadata": {"labels": {PREEMPTIBLE: "false"}}})
    world.settle()
    unit = world.get_unit()["metadata"]["labels"]
    assert (unit[QUOTA], unit[PREEMPTIBLE]) == ("silver", "false")
    world.admit()
    world.settle()
    stamped = world.get_job()["spec"]["template"]["metadata"]["labels"]
    assert (stamped[QUOTA], stamped[PREEMPTIBLE]) == ("silver", "false")
    assert world.notes_on_jobs()["QuotaDiffers"].startswith(
        "Its label names quota gold, and its pod template (pod set main) quota silver"
    )
    assert "PreemptibleIgnored" not in world.notes_on_jobs()
