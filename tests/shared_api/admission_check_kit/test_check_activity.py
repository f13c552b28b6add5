"""The condition Active of AdmissionChecks."""

from __future__ import annotations

from shared_api.admission_check_kit.check_activity import activity_patch
from shared_api.admission_check_kit.judging import ACTIVE, Activity
from shared_api.fake_api_server.faults import Match
from shared_api.objects.admission_check import AdmissionCheck, AdmissionCheckStatus
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp
from tests.shared_api.admission_check_kit.check_world import CheckWorld
from tests.shared_api.admission_check_kit.scripted_judge import ScriptedJudge
from tests.stepped_host import writes_to

NOW = Timestamp("2026-11-01T10:00:00Z")
BROKEN = Activity(is_active=False, reason="Broken", message="it is")


def test_a_check_is_active_when_its_controller_runs() -> None:
    world = CheckWorld()
    world.add_check()
    world.direct.create(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "other"},
            "spec": {"controllerName": "somebody.else/check"},
        }
    )
    world.start(ScriptedJudge())
    assert world.activity() == ("True", "Active")
    assert world.activity("other") == ("", "")


def test_a_check_that_cannot_be_performed_reports_why_once() -> None:
    world = CheckWorld()
    world.add_check()
    judge = ScriptedJudge()
    judge.activity = BROKEN
    world.start(judge)
    assert world.activity() == ("False", "Broken")
    assert ("check", "Broken") in world.events()
    assert judge.context is not None
    judge.context.recheck_check("check")
    world.settle()
    assert writes_to(world.server) == ["patch admissionchecks/status"]
    judge.activity = ACTIVE
    judge.context.recheck_check("check")
    world.settle()
    assert world.activity() == ("True", "Active")


def test_the_condition_is_written_in_the_served_version() -> None:
    world = CheckWorld()
    crd = world.direct.get("customresourcedefinitions", "admissionchecks.kueue.x-k8s.io")
    versions = crd["spec"]["versions"]
    for version in versions:
        version["served"] = version["storage"] = version["name"] == "v1beta1"
    world.direct.patch(
        "customresourcedefinitions",
        "admissionchecks.kueue.x-k8s.io",
        {"spec": {"versions": versions}},
    )
    world.direct.create(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "AdmissionCheck",
            "metadata": {"name": "check"},
            "spec": {"controllerName": world.controller_name},
        }
    )
    world.add_unit()
    world.start(ScriptedJudge())
    assert world.activity() == ("True", "Active")
    assert world.state()["state"] == "Ready"


def test_conditions_of_other_writers_stay() -> None:
    foreign = Condition(type="Foreign", status="True", reason="R", last_transition_time=NOW)
    check = AdmissionCheck(
        metadata=ObjectMeta(name="check", resource_version="3", generation=2),
        status=AdmissionCheckStatus(conditions=(foreign,)),
    )
    patch = activity_patch(check, BROKEN, NOW)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "3"}
    assert [each["type"] for each in patch["status"]["conditions"]] == ["Foreign", "Active"]
    assert patch["status"]["conditions"][1]["observedGeneration"] == 2


def test_a_write_that_fails_is_repeated() -> None:
    world = CheckWorld()
    world.add_check()
    world.server.faults.fail(500, times=6, match=Match(plural="admissionchecks", verb="patch"))
    world.start(ScriptedJudge())
    world.settle(10.0)
    assert world.activity() == ("True", "Active")
