"""The complete controller: when it starts, what it watches, what it keeps."""

from __future__ import annotations

from shared_api.admission_check_kit.check_controller import slim_unit
from shared_api.admission_check_kit.judging import CheckContext
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import OnlyMetadata
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import queue_unit, queue_unit_body, to_struct, with_status
from tests.follower import Follower
from tests.shared_api.admission_check_kit.check_world import CheckWorld
from tests.shared_api.admission_check_kit.scripted_judge import ScriptedJudge

CONFIG_MAPS = ResourceType(
    "", "v1", "configmaps", "ConfigMap", namespaced=True, object_type=OnlyMetadata
)


def test_a_follower_judges_nothing_until_it_leads() -> None:
    world = CheckWorld()
    world.add_check()
    world.add_unit()
    follower, judge = Follower(), ScriptedJudge()
    world.start(judge, leadership=follower)
    world.settle(5.0)
    assert judge.asked == []
    assert world.controller is not None
    assert all(check()[0] for check in world.controller.ready_checks().values())
    follower.leads = True
    world.controller.on_started_leading()
    world.settle()
    assert world.state()["state"] == "Ready"


def test_no_writes_after_the_end_of_the_lease() -> None:
    world = CheckWorld()
    world.add_check()
    leader = Follower()
    leader.leads = True
    world.start(ScriptedJudge(), leadership=leader)
    leader.leads = False
    world.add_unit()
    world.settle()
    assert world.state()["state"] == "Pending"


def test_checks_whose_kind_is_installed_later_are_found() -> None:
    world = CheckWorld("provisioningrequests")
    world.add_unit()
    judge = ScriptedJudge()
    world.start(judge)
    assert world.controller is not None
    ready, detail = world.controller.ready_checks()["admissionchecks-synced"]()
    assert (ready, "not served" in detail) == (True, True)
    served = world.host.metrics.registry.get_sample_value
    gauge = "koord_queue_admission_check_kind_served"
    assert served(gauge, {"kind": "AdmissionCheck"}) == 0.0
    world.install("admissionchecks")
    world.settle(6.0)
    world.add_check()
    world.settle()
    assert world.state()["state"] == "Ready"
    assert served(gauge, {"kind": "AdmissionCheck"}) == 1.0


def test_a_check_that_is_created_after_its_units_is_performed() -> None:
    world = CheckWorld()
    world.start(ScriptedJudge())
    world.add_unit()
    world.settle()
    assert world.state()["state"] == "Pending"
    world.add_check()
    world.settle()
    assert world.state()["state"] == "Ready"


class ConfigMapJudge:
    """Admits units while a ConfigMap with the name of the check exists."""

    def __init__(self) -> None:
        self.store: IndexedStore[OnlyMetadata] = IndexedStore()

    def attach(self, context: CheckContext) -> None:
        def on_change(_old: OnlyMetadata | None, _new: OnlyMetadata | None) -> None:
            context.recheck_all()

        context.follow((CONFIG_MAPS,), on_change, store=self.store)

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        there = self.store.get(f"default/{check.metadata.name}") is not None
        return CheckVerdict(CheckState.READY if there else CheckState.PENDING)


def test_a_judge_may_watch_further_kinds() -> None:
    world = CheckWorld()
    world.add_check()
    world.add_unit()
    world.start(ConfigMapJudge())
    assert world.state()["state"] == "Pending"
    world.direct.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "check", "namespace": "default"},
        }
    )
    world.settle()
    assert world.state()["state"] == "Ready"


def test_units_without_checks_are_kept_small() -> None:
    unit = queue_unit("a", quota="q", requests={"cpu": "1"})
    slim = slim_unit(unit, None)
    assert (slim.spec.pod_set, slim.metadata.labels, slim.metadata.key) == ((), {}, "default/a")
    waiting = to_struct(
        QueueUnit,
        with_status(queue_unit_body("a"), admissionChecks=[{"name": "c", "state": "Pending"}]),
    )
    assert slim_unit(waiting, None) is waiting
