"""The provisioning check over the fake API server: a request and what can happen to it."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.testing.object_builders import pod_set
from tests.follower import Follower
from tests.queue_admission_checks.provisioning_world import (
    CLASS,
    CLASS_NAME,
    CONSUME,
    GPU,
    ProvisioningWorld,
    ready_world,
)
from tests.stepped_host import writes_to


def test_a_unit_gets_its_nodes() -> None:
    world = ready_world(managedResources=["nvidia.com/gpu"], parameters={"a": "b"})
    world.add_gpu_unit()
    world.settle()
    request = world.autoscaler.the_request()
    name = request["metadata"]["name"]
    assert name.startswith("unit-check-")
    assert request["metadata"]["ownerReferences"][0]["uid"] == world.unit()["metadata"]["uid"]
    assert request["spec"] == {
        "provisioningClassName": CLASS,
        "parameters": {"a": "b"},
        "podSets": [{"count": 2, "podTemplateRef": {"name": f"{name}-worker"}}],
    }
    (template,) = world.autoscaler.templates_of(request)
    assert template["template"] == world.unit()["spec"]["podSet"][0]["template"]
    assert "waits for the autoscaler" in world.state()["message"]
    world.autoscaler.provision()
    world.settle()
    assert world.state()["state"] == "Ready"
    assert world.state()["podSetUpdates"] == [
        {"name": "worker", "annotations": {CONSUME: name, CLASS_NAME: CLASS}}
    ]
    assert world.activity() == ("True", "Active")


def test_templates_belong_to_the_request_and_are_deleted_with_it() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    request = world.autoscaler.the_request()
    for template in world.autoscaler.templates_of(request):
        (owner,) = template["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ProvisioningRequest", request["metadata"]["uid"])
    world.evict()
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_only_changes_are_written() -> None:
    world = ready_world(managedResources=["nvidia.com/gpu"])
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.run()  # a restart
    assert writes_to(world.server) == [
        "patch admissionchecks/status",
        "create podtemplates",
        "create provisioningrequests",
        "patch queueunits/status",
        "patch podtemplates",
        "patch queueunits/status",
    ]


@pytest.mark.parametrize(
    ("config", "more", "want"),
    [
        ({"managedResources": ["example.com/tpu"]}, {}, "no pod set asks for example.com/tpu"),
        ({}, {"podSet": [pod_set("main", 0)]}, "no pod set has pods"),
    ],
)
def test_a_unit_that_needs_no_nodes_is_ready_at_once(
    config: dict[str, Any], more: dict[str, Any], want: str
) -> None:
    world = ready_world(**config)
    world.add_unit(**more)
    world.settle()
    assert world.state()["state"] == "Ready"
    assert want in world.state()["message"]
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_unit_without_pod_sets_is_rejected() -> None:
    world = ready_world()
    world.add_unit(podSet=None, request={"cpu": "1"})
    world.settle()
    assert world.state()["state"] == "Rejected"
    assert "no pod sets" in world.state()["message"]


def test_a_failure_is_retried_and_in_the_end_rejected() -> None:
    world = ready_world(retryStrategy={"backoffLimitCount": 2, "backoffBaseSeconds": 30})
    world.add_gpu_unit()
    names = []
    for retry in range(2):
        world.settle()
        names.append(world.autoscaler.the_request()["metadata"]["name"])
        world.autoscaler.fail()
        world.settle()
        state = world.state()
        assert state["state"] == "Retry"
        assert state["requeueAfterSeconds"] == 30 * 2**retry
        assert "out of resources in all zones" in state["message"]
        world.evict()
        world.settle()
        assert world.made()["provisioningrequests"] == 0
        world.clock.advance(60.0)
        world.reserve()
    world.settle()
    names.append(world.autoscaler.the_request()["metadata"]["name"])
    world.autoscaler.fail()
    world.settle()
    assert world.state()["state"] == "Rejected"
    assert len(set(names)) == 3, "each attempt has a request of its own"
    assert ("unit", "AdmissionCheckRejected") in world.events()


@pytest.mark.parametrize("happens", ["expire", "revoke", "fail"])
def test_nodes_lost_before_the_start_evict_the_unit(happens: str) -> None:
    world = ready_world()
    world.add_gpu_unit("unit", "check", "slow")
    world.settle()
    world.autoscaler.provision()
    world.settle()
    assert world.state()["state"] == "Ready"
    getattr(world.autoscaler, happens)()
    world.settle()
    state = world.state()
    assert (state["state"], state["retryCount"]) == ("Retry", 1)
    assert "podSetUpdates" not in state


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
@pytest.mark.parametrize(
    ("happens", "want"), [("expire", "Ready"), ("fail", "Ready"), ("revoke", "Retry")]
)
def test_for_a_started_unit_only_a_revocation_counts(phase: str, happens: str, want: str) -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.move("unit", phase)
    world.settle()
    getattr(world.autoscaler, happens)()
    world.settle()
    assert world.state()["state"] == want
    assert world.made()["provisioningrequests"] == 1


def test_a_revocation_beyond_the_limit_rejects() -> None:
    world = ready_world(retryStrategy={"backoffLimitCount": 0})
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.move("unit", "Running")
    world.autoscaler.revoke()
    world.settle()
    assert world.state()["state"] == "Rejected"


@pytest.mark.parametrize("phase", ["Enqueued", "TimeoutBackoff", "Succeed", "Failed"])
def test_a_unit_that_ends_or_releases_its_quota_leaves_nothing_behind(phase: str) -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.move("unit", phase)
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_unit_requeued_while_no_controller_ran_leaves_nothing_behind() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.patch_status("unit", phase="Enqueued", admissionChecks=[])
    world.run()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_new_leader_clears_what_its_predecessor_left() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.patch_status("unit", phase="Enqueued", admissionChecks=[])
    replica = Follower()
    world.run(leadership=replica)
    assert world.made()["provisioningrequests"] == 1
    replica.leads = True
    assert world.controller is not None
    world.controller.on_started_leading()
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_deleted_unit_leaves_nothing_behind() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.direct.delete("queueunits", "unit", "default")
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_unit_whose_objects_were_detached_leaves_nothing_behind() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.direct.delete("queueunits", "unit", "default", propagation="Orphan")
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_another_demand_gets_a_new_request() -> None:
    world = ready_world()
    world.add_gpu_unit("unit", "check", "slow")
    world.settle()
    first = world.autoscaler.provision()
    world.settle()
    assert world.state()["state"] == "Ready"
    world.direct.patch(
        "queueunits", "unit", {"spec": {"podSet": [pod_set("worker", 5, GPU)]}}, namespace="default"
    )
    world.settle()
    second = world.autoscaler.the_request()
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert [each["count"] for each in second["spec"]["podSets"]] == [5]
    assert world.state()["state"] == "Pending"
    assert world.made()["podtemplates"] == 1


def test_a_placement_that_pods_may_no_longer_use_is_another_demand() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    first = world.autoscaler.the_request()["metadata"]["name"]
    moved = pod_set("worker", 2, GPU)
    moved["template"]["spec"]["nodeSelector"] = {"zone": "b"}
    world.direct.patch("queueunits", "unit", {"spec": {"podSet": [moved]}}, namespace="default")
    world.settle()
    assert world.autoscaler.the_request()["metadata"]["name"] != first


def test_another_edit_of_the_unit_changes_nothing() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    first = world.autoscaler.the_request()["metadata"]["uid"]
    world.direct.patch("queueunits", "unit", {"spec": {"priority": 9}}, namespace="default")
    world.settle()
    assert world.autoscaler.the_request()["metadata"]["uid"] == first


def test_an_estimate_is_passed_on_at_intervals() -> None:
    world = ready_world(class_name="queued-provisioning.gke.io")
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.accept()
    world.autoscaler.estimate("expected time is 10:30")
    world.settle(70.0)
    assert world.state()["message"] == "expected time is 10:30"
    world.autoscaler.estimate("expected time is 10:31")
    world.settle(10.0)
    assert world.state()["message"] == "expected time is 10:30"
    world.settle(60.0)
    assert world.state()["message"] == "expected time is 10:31"


def test_details_of_the_class_become_node_labels() -> None:
    updates = [
        {"key": "pool", "valueFromProvisioningClassDetail": "NodePool"},
        {"key": "other", "valueFromProvisioningClassDetail": "Nothing"},
        {"key": "long", "valueFromProvisioningClassDetail": "Prose"},
    ]
    world = ready_world(podSetUpdates={"nodeSelector": updates})
    world.add_unit()
    world.settle()
    world.autoscaler.provision(NodePool="p7", Prose="x" * 64)
    world.settle()
    (update,) = world.state()["podSetUpdates"]
    assert update["nodeSelector"] == {"pool": "p7"}
    assert "no detail for the node label long, other" in world.state()["message"]


def test_two_checks_of_one_unit_have_a_request_each() -> None:
    world = ready_world()
    world.add_config("d", "queued-provisioning.gke.io")
    world.add_provisioning_check("second", "d")
    world.add_unit("unit", "check", "second")
    world.settle()
    classes = {each["spec"]["provisioningClassName"] for each in world.autoscaler.requests()}
    assert classes == {CLASS, "queued-provisioning.gke.io"}
    assert len(world.autoscaler.requests()) == 2


def test_a_second_replica_creates_nothing() -> None:
    world = ready_world()
    replica = ProvisioningWorld.__new__(ProvisioningWorld)
    replica.__dict__.update(world.__dict__)
    replica.run(leadership=Follower())
    world.add_gpu_unit()
    replica.settle()
    assert world.made()["provisioningrequests"] == 0


def test_a_unit_in_retry_is_left_to_the_scheduler() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.autoscaler.fail()
    world.settle(30.0)
    assert world.state()["retryCount"] == 1
    assert world.made()["provisioningrequests"] == 1, "the failure can be inspected until then"
