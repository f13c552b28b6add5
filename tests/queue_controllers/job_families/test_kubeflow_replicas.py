"""Jobs that list their pods by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.job_families.kubeflow_replicas import (
    MAX_ROLES_CHARS,
    RUN_POLICY,
    RUN_POLICY_SUSPEND,
    AddedContainer,
    ReplicaSpec,
    RoleStatus,
    RoleTable,
    RunPolicy,
    count_finished,
    release_by_run_policy,
)
from queue_controllers.job_families.suspend_field import ManagedByField
from queue_controllers.jobframework.generic_job import PodStamp
from queue_controllers.jobframework.pod_template import ScheduledContainer
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta, WireStruct

TABLE: Final = RoleTable(field="replicaSpecs", order=("Launcher", "Worker"))


def specs(**roles: int | None) -> dict[str, ReplicaSpec]:
    return {name: ReplicaSpec(replicas=count) for name, count in roles.items()}


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(specs(), [], id="none"),
        pytest.param(specs(Worker=2, Launcher=1), [("launcher", 1), ("worker", 2)], id="in order"),
        pytest.param(
            specs(worker=2, LAUNCHER=1), [("launcher", 1), ("worker", 2)], id="in any case"
        ),
        pytest.param(
            specs(Watcher=1, Worker=2, AIMaster=3),
            [("worker", 2), ("aimaster", 3), ("watcher", 1)],
            id="unknown ones last, by name",
        ),
        pytest.param(specs(Worker=2, worker=5), [("worker", 5)], id="two spellings are one role"),
        pytest.param(specs(Worker=None), [("worker", 1)], id="absent replicas"),
        pytest.param(specs(Worker=-3), [("worker", 0)], id="a negative number"),
    ],
)
def test_roles_become_pod_sets(of: dict[str, ReplicaSpec], want: list[tuple[str, int]]) -> None:
    found = [(each.name, each.count) for each in TABLE.pod_sets(of, {})]
    assert found == want


def test_only_lists_of_usual_length_are_remembered() -> None:
    short, long = specs(Worker=2), specs(**{"w" * MAX_ROLES_CHARS: 1}, Launcher=1)
    assert TABLE.roles_of(short) is TABLE.roles_of(short)
    assert TABLE.roles_of(long) is not TABLE.roles_of(long)
    assert list(TABLE.roles_of(long)) == ["launcher", "w" * 63]


def test_a_role_scaled_to_nothing_is_not_done() -> None:
    launcher, worker = TABLE.pod_sets(specs(Launcher=1, Worker=0), {"launcher": 2})
    assert (launcher.count, launcher.is_done) == (0, True)
    assert (worker.count, worker.is_done) == (0, False)


def test_patches_spell_roles_as_the_object_does() -> None:
    of = specs(worker=2, Launcher=1)
    assert TABLE.replicas_patch(of, {"worker": 3, "another": 4}) == {
        "spec": {"replicaSpecs": {"worker": {"replicas": 3}}}
    }
    assert TABLE.replicas_patch(of, {"another": 4}) == {}


def test_whole_templates_are_found_by_pod_set() -> None:
    added = ScheduledContainer(name="first", image="x")
    table = msgspec.structs.replace(
        TABLE, added=(AddedContainer(role="Launcher", beside="Worker", container=added),)
    )
    assert table.full_templates({}) == {}
    of = {"Launcher": {"template": {"spec": {"initContainers": [{"name": "own"}]}}}}
    assert table.full_templates({"replicaSpecs": of}) == {"launcher": of["Launcher"]["template"]}
    both = {**of, "worker": {}}
    assert table.full_templates({"replicaSpecs": both}) == {
        "launcher": {
            "spec": {"initContainers": [{"name": "own"}, {"name": "first", "image": "x"}]}
        },
        "worker": {},
    }


def test_finished_pods_are_counted_by_pod_set() -> None:
    body = {"replicaStatuses": {"PS": {"active": 2}, "Worker": {"succeeded": 3}}}
    status = msgspec.convert(body, RoleStatus)
    assert count_finished(RunPolicy(), status) == {"worker": 3}
    assert count_finished(RunPolicy(suspend=True), status) == {}


class ThingSpec(WireStruct, frozen=True):
    run_policy: RunPolicy = RunPolicy()


class Thing(WireStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ThingSpec = ThingSpec()
    status: RoleStatus = RoleStatus()


def thing(policy: RunPolicy) -> Thing:
    return Thing(spec=ThingSpec(run_policy=policy))


def test_the_run_policy_has_switch_and_manager() -> None:
    held = thing(RunPolicy(suspend=True, managed_by="x/z"))
    assert RUN_POLICY_SUSPEND.is_suspended(held)
    assert RUN_POLICY_SUSPEND.suspend_patch(held) == {"spec": {"runPolicy": {"suspend": True}}}
    manager = ManagedByField("x/y", RUN_POLICY)
    assert manager.foreign_manager(held) == "x/z"
    assert manager.foreign_manager(thing(RunPolicy(managed_by="x/y"))) == ""


def test_a_release_annotates_the_existing_roles() -> None:
    class Adapter:
        """Knows the roles."""

        release_patch = release_by_run_policy

        def update_patch(self, job: Thing, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
            return TABLE.updates_patch(specs(WORKER=1), updates)

    stamp = PodStamp(labels={"a": "b"})
    template = {"metadata": {"labels": {"a": "b"}}}
    stamps = {"worker": stamp, "another": stamp}
    assert Adapter().release_patch(thing(RunPolicy()), stamps) == {
        "spec": {
            "runPolicy": {"suspend": False},
            "replicaSpecs": {"WORKER": {"template": template}},
        }
    }
