"""The provisioning check with obstacles: settings, kinds, writes, other writers."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_admission_checks.provisioning_world import (
    CLASS,
    CONSUME,
    REFERENCE,
    ProvisioningWorld,
    ready_world,
)


def test_an_edited_config_counts_for_waiting_units_but_not_for_those_with_nodes() -> None:
    world = ready_world()
    world.add_gpu_unit("has", "check", "slow")
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.add_gpu_unit("waits")
    world.settle()
    world.edit_config(parameters={"a": "b"})
    world.settle()
    parameters = {
        each["metadata"]["annotations"]["koord-queue/related-queueunit"]: each["spec"].get(
            "parameters"
        )
        for each in world.autoscaler.requests()
    }
    assert parameters == {"default/has": None, "default/waits": {"a": "b"}}
    assert world.state("has")["state"] == "Ready"


@pytest.mark.parametrize(
    ("check", "config", "want"),
    [
        ({}, {}, "ParametersMissing"),
        ({"parameters": {**REFERENCE, "apiGroup": "other.io"}}, {}, "BadParametersRef"),
        ({"parameters": {**REFERENCE, "kind": "Other"}}, {}, "BadParametersRef"),
        ({"parameters": {**REFERENCE, "name": "none"}}, {}, "ConfigMissing"),
    ],
)
def test_an_invalid_check_says_so_and_holds_its_units(
    check: dict[str, Any], config: dict[str, Any], want: str
) -> None:
    world = ProvisioningWorld()
    world.add_config(**config)
    world.add_check(**check)
    world.add_gpu_unit()
    world.run()
    assert world.activity() == ("False", want)
    assert world.state()["state"] == "Pending"
    assert world.state()["message"]
    assert ("check", want) in world.events()
    assert world.made()["provisioningrequests"] == 0


def test_a_config_created_later_is_used() -> None:
    world = ProvisioningWorld()
    world.add_provisioning_check()
    world.add_gpu_unit()
    world.run()
    assert world.activity() == ("False", "ConfigMissing")
    world.add_config()
    world.settle()
    assert world.activity() == ("True", "Active")
    assert world.made()["provisioningrequests"] == 1


def test_a_deleted_config_holds_waiting_units_but_not_those_with_nodes() -> None:
    world = ready_world()
    world.add_gpu_unit("unit", "check", "slow")
    world.settle()
    world.autoscaler.provision()
    world.settle()
    world.direct.delete("provisioningrequestconfigs", "c")
    world.add_gpu_unit("late")
    world.settle()
    assert world.activity() == ("False", "ConfigMissing")
    assert world.state()["state"] == "Ready"
    assert world.state("late")["state"] == "Pending"


def test_an_unknown_class_is_passed_on_and_reported() -> None:
    world = ready_world(class_name="private.example.com")
    world.add_gpu_unit()
    world.settle()
    assert world.activity() == ("True", "UnknownClass")
    request = world.autoscaler.the_request()
    assert request["spec"]["provisioningClassName"] == "private.example.com"


def test_without_the_autoscaler_crd_units_wait_until_it_exists() -> None:
    world = ProvisioningWorld("admissionchecks", "provisioningrequestconfigs")
    world.add_config()
    world.add_provisioning_check()
    world.add_gpu_unit()
    world.run()
    assert world.activity() == ("False", "KindNotServed")
    assert "no CRD of ProvisioningRequest" in world.state()["message"]
    world.install("provisioningrequests")
    world.settle(10.0)
    assert world.activity() == ("True", "Active")
    assert world.made()["provisioningrequests"] == 1


def test_an_older_autoscaler_gets_the_older_annotations_too() -> None:
    world = ProvisioningWorld("admissionchecks", "provisioningrequestconfigs")
    world.install("provisioningrequests")
    name = "provisioningrequests.autoscaling.x-k8s.io"
    versions = world.direct.get("customresourcedefinitions", name)["spec"]["versions"]
    for version in versions:
        version["served"] = version["storage"] = version["name"] == "v1beta1"
    world.direct.patch("customresourcedefinitions", name, {"spec": {"versions": versions}})
    world.add_config()
    world.add_provisioning_check()
    world.add_unit()
    world.run()
    request = world.autoscaler.provision()
    assert request["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"
    world.settle()
    (update,) = world.state()["podSetUpdates"]
    older = "cluster-autoscaler.kubernetes.io/"
    assert (
        update["annotations"][f"{older}consume-provisioning-request"]
        == update["annotations"][CONSUME]
    )
    assert update["annotations"][f"{older}provisioning-class-name"] == CLASS


def test_a_refused_request_counts_as_an_attempt() -> None:
    world = ready_world()
    world.server.faults.fail(422, match=Match(verb="create", plural="provisioningrequests"))
    world.add_gpu_unit()
    world.settle()
    state = world.state()
    assert (state["state"], state["retryCount"]) == ("Retry", 1)
    assert "invalid by a fault" in state["message"]
    world.evict()
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_forbidden_request_is_reported_and_retried() -> None:
    world = ready_world()
    world.server.faults.fail(403, match=Match(verb="create", plural="provisioningrequests"))
    world.add_gpu_unit()
    world.settle()
    assert world.state()["state"] == "Pending"
    assert "forbidden by a fault" in world.state()["message"]
    world.settle(61.0)
    assert world.made()["provisioningrequests"] == 1


@pytest.mark.parametrize("plural", ["podtemplates", "provisioningrequests"])
def test_a_write_with_a_lost_answer_is_made_once(plural: str) -> None:
    world = ready_world(managedResources=["nvidia.com/gpu"])
    world.server.faults.lose_answer(times=1, match=Match(verb="create", plural=plural))
    world.add_gpu_unit()
    world.settle(10.0)
    assert world.made() == {"provisioningrequests": 1, "podtemplates": 1}
    world.autoscaler.provision()
    world.settle()
    assert world.state()["state"] == "Ready"


def test_a_delete_with_a_conflict_is_repeated() -> None:
    """A webhook may answer so; without a repeat the nodes would stay charged to no unit."""
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    world.server.faults.fail(409, match=Match(plural="provisioningrequests", verb="delete"))
    world.move("unit", "TimeoutBackoff")
    world.settle()
    assert world.server.faults.armed_count == 0
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_deletes_with_conflicts_do_not_delay_the_answer_of_a_check() -> None:
    world = ready_world(managedResources=["nvidia.com/gpu"])
    world.add_gpu_unit()
    world.settle()
    refused = Match(plural="provisioningrequests", verb="delete")
    world.server.faults.fail(409, times=EVERY_TIME, match=refused)
    world.edit_config(managedResources=["example.com/none"])
    world.settle(30.0)
    assert world.state()["state"] == "Ready"
    assert world.made()["provisioningrequests"] == 1
    world.server.faults.clear()
    world.settle(30.0)
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_process_that_ends_between_two_writes_leaves_nothing_behind() -> None:
    world = ready_world()
    world.server.faults.fail(
        503, times=100, match=Match(verb="create", plural="provisioningrequests")
    )
    world.add_gpu_unit()
    world.settle()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 2}
    world.server.faults.clear()
    world.evict()
    world.run()
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}


def test_a_request_deleted_by_hand_is_created_again() -> None:
    world = ready_world()
    world.add_gpu_unit("unit", "check", "slow")
    world.settle()
    request = world.autoscaler.provision()
    world.settle()
    world.direct.delete("provisioningrequests", request["metadata"]["name"], "default")
    world.settle()
    assert world.state()["state"] == "Pending"
    assert world.autoscaler.the_request()["metadata"]["uid"] != request["metadata"]["uid"]
    assert world.made()["podtemplates"] == 2


def test_a_template_deleted_by_hand_is_created_again() -> None:
    world = ready_world(managedResources=["nvidia.com/gpu"])
    world.add_gpu_unit()
    world.settle()
    (template,) = world.direct.list("podtemplates")
    world.direct.delete("podtemplates", template["metadata"]["name"], "default")
    world.settle()
    assert world.made() == {"provisioningrequests": 1, "podtemplates": 1}


def hide_requests(world: ProvisioningWorld) -> None:
    """Let the server know no ProvisioningRequests, until faults are cleared."""
    group = "/apis/autoscaling.x-k8s.io/"
    versions = Match(when=lambda info: info.path.startswith(group) and info.path.count("/") == 3)
    world.server.faults.fail(404, times=EVERY_TIME, match=versions)
    world.settle(15.0)
    assert world.activity() == ("False", "KindNotServed")


def test_an_unfilled_cache_decides_nothing() -> None:
    world = ready_world()
    world.add_gpu_unit("unit", "check", "slow")
    world.settle()
    request = world.autoscaler.provision()
    world.settle()
    hide_requests(world)
    world.run()
    world.server.faults.clear()
    lists = Match(verb="list", plural="provisioningrequests")
    world.server.faults.fail(503, times=EVERY_TIME, match=lists)
    world.settle(15.0)
    assert world.state()["state"] == "Ready", "what exists is not known yet"
    world.server.faults.clear()
    world.settle(30.0)
    assert world.state()["state"] == "Ready"
    assert world.autoscaler.the_request()["metadata"]["uid"] == request["metadata"]["uid"]


def test_objects_of_a_released_unit_are_deleted_once_requests_are_served() -> None:
    world = ready_world()
    world.add_gpu_unit()
    world.settle()
    hide_requests(world)
    world.evict()
    world.settle()
    counts = world.host.metrics.registry.get_sample_value
    assert counts("koord_queue_admission_check_errors_total") == 0.0
    world.server.faults.clear()
    world.settle(15.0)
    assert world.made() == {"provisioningrequests": 0, "podtemplates": 0}
