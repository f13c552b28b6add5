"""The whole scheduler and admission checks in virtual time: upstream's list, Kueue's objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest
from msgspec.structs import replace

from shared_api.testing.object_builders import elastic_quota_body
from tests.check_situations import (
    ADMISSION_CHECK_CRD,
    SITUATIONS,
    Json,
    Situation,
    activity,
    admission_check,
    states_in,
)
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import MAX_MODE, SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.stepped_host import writes_to

PROMPT_SECONDS = 5.0
"""Virtual seconds within which everything that follows from a write happens."""


class VirtualCluster:
    """A `Cluster` over the scheduler in virtual time."""

    def __init__(self, world: SchedulerWorld) -> None:
        self._world = world
        self._direct = world.direct

    def create_quota(self, name: str, *, cpu_max: int, labels: Mapping[str, str]) -> None:
        amounts = {"cpu": cpu_max}
        body = elastic_quota_body(name, min=amounts, max=amounts)
        body["metadata"]["labels"].update(labels)
        self._direct.create(body)

    def create_unit(self, body: Json) -> None:
        self._direct.create(body)

    def unit(self, name: str) -> Json:
        return self._world.unit(name)

    def patch_unit(self, name: str, body: Json) -> None:
        subresource = "status" if "status" in body else ""
        self._direct.patch("queueunits", name, body, namespace="default", subresource=subresource)

    def patch_queue(self, name: str, body: Json) -> None:
        self._direct.patch("queues", name, body, namespace=QUEUE_NAMESPACE)
        self._world.settle(0.2)

    def has_queue(self, name: str) -> bool:
        return any(q["metadata"]["name"] == name for q in self._direct.list("queues"))

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        until = self._world.clock.monotonic() + seconds
        while self._world.clock.monotonic() < until:
            if what():
                return True
            self._world.settle(0.1)
        return what()


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as world:
        world.start()
        yield world


@pytest.mark.parametrize("number", SITUATIONS)
def test_upstreams_list(world: SchedulerWorld, number: str) -> None:
    cluster = VirtualCluster(world)
    SITUATIONS[number](Situation(cluster, number.lower(), patience_seconds=PROMPT_SECONDS))


# --- Kueue's AdmissionChecks --------------------------------------------------------------------


@pytest.fixture
def asking(world: SchedulerWorld) -> SchedulerWorld:
    """A world whose queue `team` lists the check `nodes`."""
    world.add_quota()
    world.settle()
    spec = {"spec": {"admissionChecks": [{"name": "nodes"}]}}
    world.direct.patch("queues", "team", spec, namespace=QUEUE_NAMESPACE)
    world.settle()
    return world


def ready(world: SchedulerWorld) -> tuple[str, str]:
    """Return status and reason of the queue's Ready condition."""
    found = condition_of(world.queue(), "Ready")
    return str(found["status"]), str(found["reason"])


def create_check(
    world: SchedulerWorld, active: str, message: str = "", version: str = "v1beta2"
) -> None:
    """Create the check, and set whether it is active."""
    body = {**admission_check("nodes"), "apiVersion": f"kueue.x-k8s.io/{version}"}
    world.direct.create(body)
    say_active(world, active, message)


def say_active(world: SchedulerWorld, active: str, message: str = "") -> None:
    status = activity(active, message)
    world.direct.patch("admissionchecks", "nodes", status, subresource="status")


def set_active(world: SchedulerWorld, active: str, message: str = "") -> None:
    """Set whether the check is active, and let the scheduler see it."""
    say_active(world, active, message)
    world.settle(6.0)


def test_without_the_kind_units_are_reserved_and_the_queue_names_the_missing_check(
    asking: SchedulerWorld,
) -> None:
    asking.add_unit("u")
    asking.settle(12.0)
    assert (asking.phase("u"), ready(asking)) == ("Reserved", ("True", "AdmissionChecksNotServed"))
    asking.direct.create(ADMISSION_CHECK_CRD)
    asking.settle(12.0)
    assert ready(asking) == ("True", "AdmissionCheckMissing")
    create_check(asking, "True")
    asking.settle(6.0)
    assert ready(asking) == ("True", "Ready")
    asking.direct.delete(ADMISSION_CHECK_CRD["spec"]["names"]["plural"], "nodes")
    asking.settle(6.0)
    assert ready(asking) == ("True", "AdmissionCheckMissing")


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_inactive_check_holds_units_until_it_is_active(
    asking: SchedulerWorld, order: str
) -> None:
    if order == "after":
        asking.direct.create(ADMISSION_CHECK_CRD)
        create_check(asking, "False", "no such config")
        asking.settle(12.0)
        asking.add_unit("u")
    else:
        asking.add_unit("u", cpu=5)
        asking.settle(6.0)
        asking.direct.create(ADMISSION_CHECK_CRD)
        create_check(asking, "False", "no such config")
    asking.settle(12.0)
    assert (asking.phase("u"), asking.reason("u")) == ("Enqueued", "AdmissionCheckInactive")
    found = condition_of(asking.unit("u"), "QuotaReserved")
    assert found["message"] == "admission check nodes is not active: no such config"
    assert ready(asking) == ("False", "AdmissionCheckInactive")
    set_active(asking, "True")
    if order == "after":
        assert asking.phase("u") == "Reserved"
    else:
        assert asking.reason("u") == "ExceedsQuota"


OLDER = [
    {**each, "served": each["name"] == "v1beta1", "storage": each["name"] == "v1beta1"}
    for each in ADMISSION_CHECK_CRD["spec"]["versions"]
]
"""The versions of a Kueue that does not have v1beta2 yet."""


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_a_server_that_has_only_the_older_version_is_watched_in_that(
    asking: SchedulerWorld, when: str
) -> None:
    """An inactive check holds its units; a deleted one is missing."""
    older = {**ADMISSION_CHECK_CRD, "spec": {**ADMISSION_CHECK_CRD["spec"], "versions": OLDER}}
    asking.direct.create(ADMISSION_CHECK_CRD if when == "later" else older)
    create_check(asking, "False", version="v1beta1")
    asking.settle(12.0)
    if when == "later":
        name = ADMISSION_CHECK_CRD["metadata"]["name"]
        asking.direct.patch("customresourcedefinitions", name, {"spec": {"versions": OLDER}})
        asking.settle(20.0)
    asking.add_unit("u")
    asking.settle(6.0)
    assert (asking.phase("u"), asking.reason("u")) == ("Enqueued", "AdmissionCheckInactive")
    set_active(asking, "True")
    assert (asking.phase("u"), ready(asking)) == ("Reserved", ("True", "Ready"))
    asking.direct.delete(ADMISSION_CHECK_CRD["spec"]["names"]["plural"], "nodes")
    asking.settle(6.0)
    assert ready(asking) == ("True", "AdmissionCheckMissing")
    watched = {
        entry.info.path
        for entry in asking.server.journal
        if entry.info.plural == "admissionchecks" and entry.info.verb == "watch"
    }
    versions = ["v1beta1", "v1beta2"] if when == "later" else ["v1beta1"]
    assert watched == {f"/apis/kueue.x-k8s.io/{each}/admissionchecks" for each in versions}


def test_without_the_kind_no_check_holds_a_unit(asking: SchedulerWorld) -> None:
    asking.direct.create(ADMISSION_CHECK_CRD)
    create_check(asking, "False")
    asking.settle(12.0)
    asking.add_unit("u")
    asking.settle(6.0)
    assert asking.phase("u") == "Enqueued"
    asking.direct.delete("customresourcedefinitions", ADMISSION_CHECK_CRD["metadata"]["name"])
    asking.settle(20.0)
    assert (asking.phase("u"), ready(asking)) == ("Reserved", ("True", "AdmissionChecksNotServed"))


def test_a_check_that_the_queue_lists_twice_has_one_entry_and_answers_once(
    world: SchedulerWorld,
) -> None:
    """As with two selectors, and with three of two names."""
    cluster = VirtualCluster(world)
    situation = Situation(cluster, "twice", patience_seconds=PROMPT_SECONDS)
    situation.quota(cpu=4)
    situation.ask("nodes", "budget", "nodes")
    situation.create("u")
    situation.becomes("u", "Reserved")
    assert states_in(situation.status("u")) == [("nodes", "Pending"), ("budget", "Pending")]
    situation.say("u", nodes="Ready")
    situation.stays("u", "Reserved")
    situation.say("u", budget="Ready")
    situation.becomes("u", "Dequeued")


def test_a_check_with_flapping_activity_leaves_the_unit_where_it_is(asking: SchedulerWorld) -> None:
    """A waiting unit is on hold or reserved by the last state; a reserved one stays so."""
    asking.direct.create(ADMISSION_CHECK_CRD)
    create_check(asking, "True")
    asking.add_unit("reserved")
    asking.settle(12.0)
    for active in ("False", "True") * 4:
        set_active(asking, active, "it flaps")
        assert asking.phase("reserved") == "Reserved"
    set_active(asking, "False", "it flaps")
    asking.add_unit("later")
    asking.settle(6.0)
    assert asking.phase("later") == "Enqueued"
    set_active(asking, "True")
    assert asking.phase("later") == "Reserved"
    written = Counter(
        each for each in writes_to(asking.server) if each.startswith("patch queueunits")
    )
    assert written.total() <= 4, written


def test_a_restart_writes_nothing_about_checks(asking: SchedulerWorld) -> None:
    asking.direct.create(ADMISSION_CHECK_CRD)
    create_check(asking, "True")
    asking.add_unit("u")
    asking.settle(20.0)
    before = asking.server.resource_version
    asking.start()
    asking.settle(20.0)
    assert asking.phase("u") == "Reserved"
    assert asking.server.resource_version == before


# --- timeouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        pytest.param("20s", None, id="the setting's time"),
        pytest.param("24h", "20s", id="its queue's, which is shorter"),
        pytest.param("5s", "20s", id="its queue's, which is longer"),
        pytest.param(0, "20s", id="its queue's, where the setting says forever"),
    ],
)
def test_the_silent_check_is_reported_everywhere_after_the_timeout(
    setting: str | int, said: str | None
) -> None:
    """The Ready one is not: by condition, event and metric."""
    with running_world() as world:
        world.start(configuration=replace(MAX_MODE, admission_check_timeout=setting))
        world.add_quota()
        world.settle()
        annotations = {"koord-queue/admission-check-timeout": said} if said else {}
        asked = {"admissionChecks": [{"name": "budget"}, {"name": "nodes"}]}
        patch = {"metadata": {"annotations": annotations}, "spec": asked}
        world.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
        world.settle()
        world.add_unit("u")
        world.settle()
        say_ready(world, "budget")
        world.settle(15.0)
        assert world.phase("u") == "Reserved"
        world.settle(8.0)
        assert world.phase("u") == "TimeoutBackoff"
        why = "admission checks not Ready within 20 s of the reservation: nodes"
        evicted = condition_of(world.unit("u"), "Evicted")
        assert (evicted["status"], evicted["reason"]) == ("True", "BackoffTimeout")
        assert evicted["message"] == why
        assert world.note("u", "AdmissionCheckTimeout") == why
        assert failures_by_checks(world) == [("nodes", "timeout", 1.0)]


def say_ready(world: SchedulerWorld, check: str) -> None:
    """Answer as a check does, for the unit u."""
    entries = [
        {**entry, "state": "Ready"} if entry["name"] == check else entry
        for entry in world.unit("u")["status"]["admissionChecks"]
    ]
    VirtualCluster(world).patch_unit("u", {"status": {"admissionChecks": entries}})


def failures_by_checks(world: SchedulerWorld) -> list[tuple[str, str, float]]:
    """Return check, result and number of the counted failures."""
    return [
        (sample.labels["check"], sample.labels["result"], sample.value)
        for family in world.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "koord_queue_admission_check_failures_total"
    ]
