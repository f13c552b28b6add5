"""One step for a unit: the judge is asked, a verdict is written, or neither."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.client.errors import ServerError
from shared_api.fake_api_server.faults import Match
from tests.shared_api.admission_check_kit.check_world import CheckWorld
from tests.shared_api.admission_check_kit.scripted_judge import ScriptedJudge
from tests.stepped_host import writes_to

STATUS = Match(plural="queueunits", subresource="status")


@pytest.fixture
def world() -> CheckWorld:
    world = CheckWorld()
    world.add_check()
    return world


def test_a_verdict_is_written_once(world: CheckWorld) -> None:
    world.start(ScriptedJudge())
    world.add_unit()
    world.settle()
    assert world.state() == {
        "name": "check",
        "state": "Ready",
        "message": "yes",
        "lastTransitionTime": world.state()["lastTransitionTime"],
    }
    assert world.controller is not None
    world.controller.recheck_all()
    world.settle()
    assert writes_to(world.server).count("patch queueunits/status") == 1


@pytest.mark.parametrize("times", [1, 9], ids=["repeated at once", "no answer"])
def test_a_verdict_whose_answer_is_lost_is_reported_once(world: CheckWorld, times: int) -> None:
    judge = ScriptedJudge()
    judge.verdict = CheckVerdict(CheckState.REJECTED, "never")
    world.start(judge)
    world.server.faults.lose_answer(times=times, match=STATUS)
    world.add_unit()
    world.settle()
    world.server.faults.clear()
    world.settle(30.0)
    assert world.state()["state"] == "Rejected"
    counts = world.host.metrics.registry.get_sample_value
    labels = {"check": "check", "state": "Rejected"}
    assert counts("koord_queue_admission_check_verdicts_total", labels) == 1.0
    assert ("unit", "AdmissionCheckRejected") in world.events()


def test_all_verdicts_on_a_unit_are_written_together(world: CheckWorld) -> None:
    world.add_check("second")
    judge = ScriptedJudge()
    judge.of_check["second"] = CheckVerdict(CheckState.REJECTED, "never")
    world.start(judge)
    world.add_unit("unit", "check", "second", "somebody-elses")
    world.settle()
    got = {each["name"]: each["state"] for each in world.states()}
    assert got == {"check": "Ready", "second": "Rejected", "somebody-elses": "Pending"}
    assert writes_to(world.server).count("patch queueunits/status") == 1


@pytest.mark.parametrize("phase", ["Enqueued", "Dequeued", "TimeoutBackoff", "Succeed"])
def test_units_that_do_not_wait_are_not_judged(world: CheckWorld, phase: str) -> None:
    judge = ScriptedJudge()
    world.add_unit()
    world.move("unit", phase)
    world.start(judge)
    assert judge.asked == []
    assert world.state()["state"] == "Pending"


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_state_that_requeues_a_unit_is_left_to_the_scheduler(
    world: CheckWorld, state: str
) -> None:
    judge = ScriptedJudge()
    world.add_unit()
    world.set_state("unit", "check", state=state)
    world.start(judge)
    assert judge.asked == []
    assert world.state()["state"] == state


def test_ready_may_be_revoked_while_the_unit_waits_for_other_checks(world: CheckWorld) -> None:
    judge = ScriptedJudge()
    world.start(judge)
    world.add_unit("unit", "check", "slow")
    world.settle()
    judge.verdict = CheckVerdict(CheckState.PENDING, "not any more")
    assert judge.context is not None
    judge.context.recheck_unit("default/unit")
    world.settle()
    assert world.state()["state"] == "Pending"


@pytest.mark.parametrize(
    ("verdict", "want"),
    [
        (CheckVerdict(CheckState.RETRY, "revoked", requeue_after_seconds=9), "Retry"),
        (CheckVerdict(CheckState.REJECTED, "revoked"), "Rejected"),
        (CheckVerdict(CheckState.PENDING, "hm"), "Ready"),
        (None, "Ready"),
    ],
)
def test_a_started_unit_can_only_be_requeued(
    world: CheckWorld, verdict: CheckVerdict | None, want: str
) -> None:
    judge = ScriptedJudge()
    world.start(judge)
    world.add_unit()
    world.settle()
    world.move("unit", "Running")
    judge.of_admitted = verdict
    assert judge.context is not None
    judge.context.recheck_unit("default/unit")
    world.settle()
    assert world.state()["state"] == want


def test_after_a_conflict_the_new_unit_is_judged(world: CheckWorld) -> None:
    judge = ScriptedJudge()

    def interfere() -> None:
        if len(judge.asked) == 1:
            world.set_state("unit", "other", state="Ready", message="mine")

    judge.on_ask = interfere
    world.start(judge)
    world.add_unit("unit", "check", "other")
    world.settle()
    got = {each["name"]: (each["state"], each["message"]) for each in world.states()}
    assert got == {"check": ("Ready", "yes"), "other": ("Ready", "mine")}
    assert len(judge.asked) >= 2


def test_a_refused_write_is_retried_without_a_change(world: CheckWorld) -> None:
    world.start(ScriptedJudge())
    world.server.faults.fail(409, times=2, match=STATUS)
    world.add_unit()
    world.settle(5.0)
    assert world.state()["state"] == "Ready"


def test_a_judge_without_a_verdict_is_asked_again(world: CheckWorld) -> None:
    judge = ScriptedJudge(ServerError(503))
    world.start(judge)
    world.add_unit()
    world.settle()
    assert world.state()["state"] == "Pending"
    judge.verdict = CheckVerdict(CheckState.READY)
    world.settle(10.0)
    assert world.state()["state"] == "Ready"
    counts = world.host.metrics.registry.get_sample_value
    assert (counts("koord_queue_admission_check_errors_total") or 0) > 1


def test_a_judge_with_a_bug_is_asked_again(world: CheckWorld) -> None:
    judge = ScriptedJudge(ValueError("a bug"))
    world.start(judge)
    world.add_unit()
    with capture_logs() as logs:
        world.settle()
    assert [each["failures"] for each in logs if each["log_level"] == "error"] == [1, 2, 4]
    judge.verdict = CheckVerdict(CheckState.READY)
    world.settle()
    assert world.state()["state"] == "Ready"


def test_a_change_of_the_message_alone_is_written_once_a_minute(world: CheckWorld) -> None:
    judge = ScriptedJudge(CheckVerdict(CheckState.PENDING, "in 10 minutes", recheck_seconds=1.0))
    world.start(judge)
    world.add_unit()
    world.settle()
    assert world.state()["message"] == "in 10 minutes"
    judge.verdict = CheckVerdict(CheckState.PENDING, "in 9 minutes", recheck_seconds=1.0)
    world.settle(30.0)
    assert world.state()["message"] == "in 10 minutes"
    world.settle(31.0)
    assert world.state()["message"] == "in 9 minutes"
    judge.verdict = CheckVerdict(CheckState.READY, "there")
    world.settle()
    assert world.state()["state"] == "Ready", "a new state does not wait for the minute"


def test_the_judge_looks_after_a_unit_until_it_is_gone(world: CheckWorld) -> None:
    judge = ScriptedJudge()
    world.start(judge)
    world.add_unit()
    world.settle()
    assert judge.cared_for == [("default/unit", True, ("check",))] * 2, "and after the write"
    world.direct.delete("queueunits", "unit", "default")
    world.settle()
    assert judge.cared_for[2:] == [("default/unit", False, ())]


def test_requeuing_a_unit_is_reported(world: CheckWorld) -> None:
    world.start(ScriptedJudge(CheckVerdict(CheckState.RETRY, "no nodes")))
    world.add_unit()
    world.settle()
    assert ("unit", "AdmissionCheckRetry") in world.events()
    counts = world.host.metrics.registry.get_sample_value
    labels = {"check": "check", "state": "Retry"}
    assert counts("koord_queue_admission_check_verdicts_total", labels) == 1.0
