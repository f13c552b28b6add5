"""Strict mode over the fake API server: nodes are reserved, and the job is released with them.

The tests play koord-scheduler and the queue's scheduler.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.configuration import read_configuration
from queue_controllers.extensions.batch_job import BatchJobAdapter
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_controllers.controllers_world import World, pod_of
from tests.queue_controllers.reservations.reservation_kit import Json, StrictWorld
from tests.sample_jobs import crd, sample
from tests.stepped_host import writes_to

CREATE = Match(plural="reservations", verb="create")
STATUS = Match(plural="queueunits", verb="patch", subresource="status")


@pytest.fixture
def world() -> StrictWorld:
    return StrictWorld()


def test_a_job_is_released_when_every_pod_has_its_node(world: StrictWorld) -> None:
    world.begin()
    assert len(world.reservations()) == 2
    world.answer("True", "Scheduled", min(world.reservations()), phase="Available")
    assert (world.phase(), world.is_suspended()) == ("SchedReady", True)
    world.grant()
    world.settle()
    assert (world.phase(), world.is_suspended()) == ("SchedSucceed", False)
    assert world.condition("Admitted") == "True"
    assert len(world.reservations()) == 2, "its pods are to use them"


def test_its_reservations_are_valid_to_the_api_server(world: StrictWorld) -> None:
    world.begin()
    for each in world.reservations().values():
        spec = each["spec"]
        assert spec["owners"][0]["controller"]["uid"] == world.get_job()["metadata"]["uid"]
        assert spec["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
        assert spec["ttl"] == "1800s"


def test_they_are_deleted_when_its_pods_run(world: StrictWorld) -> None:
    world.begin()
    world.grant()
    world.settle()
    world.run_pods()
    world.settle()
    assert world.phase() == "Running"
    assert world.reservations() == {}
    assert writes_to(world.server).count("delete reservations") == 2, "each once"


def test_those_of_starting_pods_stay_until_they_run_too(world: StrictWorld) -> None:
    world.begin()
    world.grant()
    world.settle()
    world.run_pods(1)
    world.settle(2.0)
    taken = min(world.reservations())
    world.direct.patch(
        "reservations", taken, {"status": {"phase": "Succeeded"}}, subresource="status"
    )
    world.settle()
    assert world.phase() == "Running"
    assert len(world.reservations()) == 1
    assert taken not in world.reservations()
    world.direct.create(pod_of(world.get_job(), "main-1"))
    world.patch_pod_status("main-1", phase="Running")
    world.settle(40.0)
    assert world.reservations() == {}


def test_refused_and_then_granted_in_the_next_attempt(world: StrictWorld) -> None:
    """[ctl-63] For a Job of two pods."""
    world.begin()
    first = set(world.reservations())
    assert len(first) == 2
    world.answer("False", "Unschedulable/1")
    assert world.phase() == "SchedFailed"
    assert "0/3 nodes" in world.message()
    world.ask_for_nodes(attempt=2)
    world.answer("True", "Scheduled/2", phase="Available")
    world.settle()
    assert (world.phase(), world.is_suspended()) == ("SchedSucceed", False)
    assert not first & set(world.reservations()), "the second attempt has its own"


def test_refused_and_then_granted_by_role(world: StrictWorld) -> None:
    """[ctl-63] For a PyTorchJob that is suspended by annotation, with one master and one worker."""
    unit = "sample-py-qu"
    world.direct.create(crd("pytorchjobs"))
    world.start("--enable-reservation", "--enabled-extensions=pytorchjob")
    body = sample("pytorchjob")
    body["metadata"] |= {"namespace": "team"}
    body["metadata"]["annotations"] = {"scheduling.x-k8s.io/suspend": "true"}
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
    world.direct.create(body)
    world.settle()
    roles: list[set[tuple[str, str]]] = []
    for attempt in (1, 2):
        world.admit_unit(unit)
        world.patch_unit_status({"phase": "SchedReady", "attempts": attempt}, unit)
        world.settle()
        roles.append({role_of(each) for each in world.reservations().values()})
        if attempt == 1:
            world.answer("False", "Unschedulable/1")
            assert world.phase(unit) == "SchedFailed"
    assert roles == [{("master", "master"), ("worker", "worker")}] * 2
    world.answer("True", "Scheduled/2", phase="Available")
    world.settle()
    assert world.phase(unit) == "SchedSucceed"
    assert not world.direct.get("pytorchjobs", "sample", "team")["spec"]["runPolicy"]["suspend"]


def role_of(reservation: Json) -> tuple[str, str]:
    """Return the pod set that a reservation is for, and the role of the pod that may use it."""
    (owner,) = reservation["spec"]["owners"]
    role = owner["labelSelector"]["matchLabels"]["training.kubeflow.org/replica-type"]
    return reservation["metadata"]["labels"]["koord-queue/related-podset-name"], role


def test_after_a_refusal_it_keeps_no_room_and_reports_on_the_job(world: StrictWorld) -> None:
    world.begin()
    first, second = world.reservations()
    world.answer("True", "Scheduled", first, phase="Available")
    world.answer("False", "Unschedulable", second)
    world.settle()
    assert world.phase() == "SchedFailed"
    assert set(world.reservations()) == {second}
    assert world.condition("Admitted") == "False"
    assert "no nodes" in world.notes_on_jobs()["NoNodes"]
    world.free()
    assert world.reservations() == {}
    assert world.is_suspended()


def test_they_are_deleted_with_the_unit(world: StrictWorld) -> None:
    world.begin()
    world.direct.delete("jobs", "main", "team")
    world.settle(10.0)
    assert world.units() == []
    assert world.reservations() == {}


def test_they_are_deleted_with_a_unit_that_was_deleted_during_a_restart(world: StrictWorld) -> None:
    world.begin()
    world.direct.delete("jobs", "main", "team")
    world.direct.delete("queueunits", "main", "team")
    world.start("--enable-reservation")
    world.settle(2.0)
    assert world.reservations() == {}


def test_an_eviction_ends_the_attempt(world: StrictWorld) -> None:
    world.begin(annotations={"scheduling.x-k8s.io/active": "true"})
    stop = {"metadata": {"annotations": {"scheduling.x-k8s.io/active": "false"}}}
    world.patch_job(stop)
    world.settle(2.0)
    assert world.phase() == "Enqueued"
    assert world.reservations() == {}


def test_reservations_of_others_are_left_alone(world: StrictWorld) -> None:
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "theirs"},
        "spec": {"owners": [{"labelSelector": {}}], "template": {}},
    }
    world.direct.create(body)
    world.begin()
    value = world.host.metrics.registry.get_sample_value
    assert value("koord_queue_reservations", {}) == 2, "they are not even watched"
    world.free()
    assert set(world.reservations()) == {"theirs"}


def test_without_the_flag_nothing_is_reserved(world: StrictWorld) -> None:
    controllers = world.start()
    world.job()
    world.settle()
    world.ask_for_nodes()
    assert world.reservations() == {}
    assert world.phase() == "SchedReady"
    assert "reservations-synced" not in controllers.ready_checks()


def test_a_lost_response_to_a_create_leads_to_no_second_reservation(world: StrictWorld) -> None:
    world.server.faults.lose_answer(times=1, match=CREATE)
    world.begin()
    world.settle(5.0)
    assert len(world.reservations()) == 2
    world.grant()
    world.settle()
    assert world.phase() == "SchedSucceed"


def test_a_busy_server_is_retried(world: StrictWorld) -> None:
    world.server.faults.fail(500, times=1, match=CREATE)
    world.begin()
    world.settle(5.0)
    assert len(world.reservations()) == 2


def test_a_result_is_written_after_a_conflict(world: StrictWorld) -> None:
    world.begin()
    world.server.faults.fail(409, times=1, match=STATUS)
    world.grant()
    world.settle(3.0)
    assert world.phase() == "SchedSucceed"


@pytest.mark.parametrize("code", [403, 422])
def test_a_refused_reservation_ends_the_attempt_with_the_servers_message(
    world: StrictWorld, code: int
) -> None:
    world.server.faults.fail(code, times=EVERY_TIME, match=CREATE)
    world.begin()
    world.settle(2.0)
    assert world.phase() == "SchedFailed"
    assert world.message().startswith("A reservation is refused: ")


def test_at_rest_nothing_is_written(world: StrictWorld) -> None:
    world.begin()
    world.settle(5.0)
    before = len(writes_to(world.server))
    world.settle(60.0)
    assert len(writes_to(world.server)) == before


def test_its_writes_are_counted(world: StrictWorld) -> None:
    world.begin()
    value = world.host.metrics.registry.get_sample_value
    assert value("koord_queue_reservations", {}) == 2
    labels = {"extension": "reservations", "action": "CreateReservations", "outcome": "done"}
    assert value("koord_queue_job_actions_total", labels) == 1
    world.free()
    assert value("koord_queue_reservations", {}) == 0


def answer_of_check(**update: Any) -> Json:
    wanted = {"name": "main", **update}
    return {"name": "check", "state": "Ready", "message": "", "podSetUpdates": [wanted]}


def test_nodes_are_reserved_where_admission_checks_want_the_pods(world: StrictWorld) -> None:
    world.start("--enable-reservation")
    world.job()
    world.settle()
    check = answer_of_check(nodeSelector={"zone": "a"})
    world.patch_unit_status({"admissionChecks": [{**check, "lastTransitionTime": world.now()}]})
    world.ask_for_nodes()
    for each in world.reservations().values():
        assert each["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


def test_where_checks_contradict_the_job_no_nodes_are_reserved(world: StrictWorld) -> None:
    world.start("--enable-reservation")
    world.job()
    world.settle()
    check = answer_of_check(labels={"quota.scheduling.koordinator.sh/name": "x"})
    other = {**answer_of_check(labels={"quota.scheduling.koordinator.sh/name": "y"}), "name": "b"}
    checks = [{**each, "lastTransitionTime": world.now()} for each in (check, other)]
    world.patch_unit_status({"admissionChecks": checks})
    world.ask_for_nodes()
    world.settle(3.0)
    assert world.reservations() == {}
    assert world.is_suspended()
    assert world.get_unit()["spec"]["active"] is False


# --- the blacklist --------------------------------------------------------------------------------


def blacklist(world: World, data: Json, namespace: str = "kube-system", name: str = "") -> None:
    meta = {"namespace": namespace, "name": name or "kubedl-blacklist-data"}
    text = msgspec.json.encode(data).decode()
    key = "global_anomalousNodesGlobal_xingyun-aiph"
    world.direct.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}}
    )


def nodes_avoided(world: StrictWorld) -> list[set[str]]:
    """Return the nodes that each reservation excludes."""
    found = []
    for each in world.reservations().values():
        spec = each["spec"]["template"]["spec"]
        node_affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        rules = [
            rule
            for term in required.get("nodeSelectorTerms", ())
            for rule in term["matchExpressions"]
        ]
        found.append({node for rule in rules for node in rule["values"]})
    return found


def test_bad_nodes_are_excluded_until_their_reports_are_old(world: StrictWorld) -> None:
    """[ctl-64] Upstream's reports never expire."""
    fresh, old = world.now(), "2023-04-14T07:00:00Z"
    reports = {node: [{"lastUpdateTimestamp": at}] for node, at in (("bad", fresh), ("was", old))}
    blacklist(world, reports)
    world.begin()
    assert nodes_avoided(world) == [{"bad"}, {"bad"}]
    assert "BlacklistUnreadable" not in world.notes_on_jobs()
    world.free()
    world.clock.advance(12 * 3600)
    world.settle()
    world.ask_for_nodes(attempt=2)
    assert nodes_avoided(world) == [set(), set()]


def test_another_config_map_may_name_them(world: StrictWorld) -> None:
    blacklist(world, {"bad": []}, namespace="other", name="broken")
    named = read_configuration({"reservations": {"nodeBlacklist": "other/broken"}}, {"job"})
    world.begin(configuration=named)
    assert nodes_avoided(world) == [{"bad"}, {"bad"}]


def test_an_invalid_blacklist_stops_no_job(world: StrictWorld) -> None:
    match = Match(plural="configmaps", verb="get")
    world.server.faults.fail(403, times=EVERY_TIME, match=match)
    world.begin()
    assert nodes_avoided(world) == [set(), set()]
    assert "kube-system/kubedl-blacklist-data" in world.notes_on_jobs()["BlacklistUnreadable"]


def test_of_a_blacklist_with_a_broken_entry_the_others_count(world: StrictWorld) -> None:
    blacklist(world, {"broken": 1, "bad": []})
    world.begin()
    assert nodes_avoided(world) == [{"bad"}, {"bad"}]
    assert world.notes_on_jobs()["BlacklistUnreadable"] == (
        "ConfigMap kube-system/kubedl-blacklist-data names nodes to keep off, and cannot all be"
        " read: broken: Expected `array`, got `int`"
    )


# --- without the kind -----------------------------------------------------------------------------


def test_without_the_kind_the_unit_reports_that_and_is_released() -> None:
    world = StrictWorld(reservations=False)
    world.begin()
    assert world.condition("ReservationsNotServed") == "True"
    assert "has no Reservations" in world.notes_on_jobs()["ReservationsNotServed"]
    world.settle(50.0)
    assert world.phase() == "SchedReady"
    world.settle(20.0)
    assert world.phase() == "SchedFailed"
    assert "has no Reservations" in world.message()
    assert world.condition("ReservationsNotServed") == "False"


def test_a_unit_that_was_released_during_a_restart_no_longer_reports_it() -> None:
    world = StrictWorld(reservations=False)
    world.begin()
    assert world.condition("ReservationsNotServed") == "True"
    world.patch_unit_status({"phase": "TimeoutBackoff", "admissions": []})
    world.start("--enable-reservation")
    world.settle(2.0)
    assert world.condition("ReservationsNotServed") == "False"


def test_when_the_kind_appears_nodes_are_reserved() -> None:
    world = StrictWorld(reservations=False)
    world.begin()
    world.koord_scheduler.install()
    world.settle(10.0)
    assert len(world.reservations()) == 2
    world.grant()
    world.settle()
    assert world.phase() == "SchedSucceed"


class NamelessPods:
    """Jobs, without the ability to select their pods."""

    def __getattr__(self, name: str) -> Any:
        if name == "pod_owner":
            raise AttributeError(name)
        return getattr(BatchJobAdapter(), name)


def test_a_kind_whose_pods_cannot_be_selected_is_released_at_once(
    world: StrictWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    extensions = {"job": NamelessPods()}
    monkeypatch.setattr(
        "tests.queue_controllers.controllers_world.find_extensions", lambda: extensions
    )
    world.begin()
    world.settle()
    assert (world.phase(), world.is_suspended()) == ("SchedSucceed", False)
    assert "NotReserved" in world.events()
    assert world.reservations() == {}
