"""What the autoscaler's conditions mean for a unit, as a table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_admission_checks.check_settings import CheckSettings, RetryRule
from queue_admission_checks.provisioning_decision import (
    DeleteRequest,
    DeleteTemplate,
    Granted,
    HandOver,
    MakeRequest,
    clear_unneeded,
    decide_check,
    hold,
    judge_admitted,
    retries_of,
    retry_or_reject,
    unchanged,
)
from queue_admission_checks.request_plan import (
    PlannedPods,
    RequestPlan,
    build_plan,
    request_body,
)
from shared_api.admission_check_kit.verdicts import CheckState
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.queue_unit import (
    AdmissionCheckState,
    PodSetUpdate,
    QueueUnit,
    QueueUnitStatus,
    RequeueState,
)
from shared_api.testing.object_builders import pod_set, queue_unit_body

SETTINGS = CheckSettings("x.y", {}, frozenset(), RetryRule(limit=3))
PENDING = AdmissionCheckState(name="check")
PODS = (PlannedPods("main", 2),)
MADE = "waits for the autoscaler to accept it"


def the_unit(phase: str = "Reserved") -> QueueUnit:
    body = queue_unit_body("unit", podSet=[pod_set("main", 2)], metadata={"uid": "u"})
    return msgspec.convert({**body, "status": {"phase": phase}}, QueueUnit)


def plan_for(state: AdmissionCheckState = PENDING, demand: str = "d") -> RequestPlan:
    return build_plan(the_unit(), state, SETTINGS, PODS, controller_name="a.b/c", demand=demand)


def request_of(plan: RequestPlan, *conditions: str, **metadata: Any) -> ProvisioningRequest:
    """Return a request with conditions such as "Failed" or "Provisioned=False"."""
    body = request_body(the_unit(), plan, "autoscaling.x-k8s.io/v1")
    body["metadata"] |= {"uid": f"uid-of-{body['metadata']['name']}", **metadata}
    said = []
    for each in conditions:
        condition_type, _, status = each.partition("=")
        message = f"{condition_type.lower()} words"
        said.append({"type": condition_type, "status": status or "True", "message": message})
    return msgspec.convert({**body, "status": {"conditions": said}}, ProvisioningRequest)


def template_of(request: ProvisioningRequest, owner: str = "QueueUnit") -> ObjectMeta:
    reference = OwnerReference(kind=owner, uid=Uid("o"), controller=True)
    name = request.spec.pod_sets[0].pod_template_ref.name
    return ObjectMeta(name=name, owner_references=(reference,), uid=Uid(f"t-{name}"))


@pytest.mark.parametrize(
    ("conditions", "state", "message"),
    [
        ([], "Pending", MADE),
        (["Accepted"], "Pending", "is accepted"),
        (["Accepted=False"], "Pending", MADE),
        (["Accepted", "Provisioned=False"], "Pending", "provisioned words"),
        (["Accepted", "Provisioned=Unknown"], "Pending", "provisioned words"),
        (["Accepted", "Provisioned"], "Ready", "is provisioned"),
        (["Failed=False", "Provisioned"], "Ready", "is provisioned"),
        (["Accepted", "Failed"], "Retry", "Failed: failed words"),
        (["Provisioned", "Failed"], "Retry", "Failed: failed words"),
        (["Provisioned", "BookingExpired"], "Retry", "BookingExpired: bookingexpired words"),
        (["Provisioned", "CapacityRevoked"], "Retry", "CapacityRevoked: capacityrevoked words"),
        (["Provisioned", "BookingExpired=False"], "Ready", "is provisioned"),
    ],
)
@pytest.mark.parametrize("was", ["Pending", "Ready"])
def test_conditions_of_the_request(
    was: str, conditions: list[str], state: str, message: str
) -> None:
    before = AdmissionCheckState(name="check", state=was)
    plan = plan_for(before)
    request = request_of(plan, *conditions)
    granted = Granted((request,), (template_of(request, "ProvisioningRequest"),))
    got = decide_check(the_unit(), before, plan, SETTINGS, granted)
    assert got.verdict.state == state
    assert message in got.verdict.message
    assert got.actions == ()


def test_a_missing_request_is_created() -> None:
    plan = plan_for()
    got = decide_check(the_unit(), PENDING, plan, SETTINGS, Granted())
    assert got.actions == (MakeRequest(plan),)
    assert got.verdict.state is CheckState.PENDING


def test_objects_of_another_attempt_are_deleted_first() -> None:
    plan, old = plan_for(), request_of(plan_for(AdmissionCheckState(name="check", retry_count=1)))
    kept, detached = template_of(old, "ProvisioningRequest"), template_of(old)
    got = decide_check(the_unit(), PENDING, plan, SETTINGS, Granted((old,), (kept, detached)))
    want = (DeleteRequest(old.metadata), DeleteTemplate(detached), MakeRequest(plan))
    assert got.actions == want


def test_a_request_that_is_being_deleted_is_waited_for() -> None:
    plan = plan_for()
    going = request_of(plan, deletionTimestamp="2026-11-01T10:00:00Z")
    got = decide_check(the_unit(), PENDING, plan, SETTINGS, Granted((going,)))
    assert got.actions == ()
    assert "is being deleted" in got.verdict.message


def test_templates_are_handed_to_the_request() -> None:
    plan = plan_for()
    request = request_of(plan)
    mine = template_of(request)
    got = decide_check(the_unit(), PENDING, plan, SETTINGS, Granted((request,), (mine,)))
    assert got.actions == (HandOver(mine, request.metadata),)


def test_a_pending_request_without_its_template_is_completed() -> None:
    plan = plan_for()
    got = decide_check(the_unit(), PENDING, plan, SETTINGS, Granted((request_of(plan),)))
    assert got.actions == (MakeRequest(plan),)
    done = request_of(plan, "Provisioned")
    assert decide_check(the_unit(), PENDING, plan, SETTINGS, Granted((done,))).actions == ()


def test_edited_settings_count_while_the_check_is_pending() -> None:
    edited = msgspec.structs.replace(plan_for(), class_name="z")
    request = request_of(plan_for(), "Provisioned")
    waits = decide_check(the_unit(), PENDING, edited, SETTINGS, Granted((request,)))
    assert waits.actions == (DeleteRequest(request.metadata), MakeRequest(edited))
    ready = AdmissionCheckState(name="check", state="Ready")
    has = decide_check(the_unit(), ready, edited, SETTINGS, Granted((request,)))
    assert (has.verdict.state, has.actions) == (CheckState.READY, ())


def test_another_demand_revokes_ready() -> None:
    ready = AdmissionCheckState(name="check", state="Ready")
    request = request_of(plan_for(), "Provisioned")
    plan = plan_for(demand="other")
    got = decide_check(the_unit(), ready, plan, SETTINGS, Granted((request,)))
    assert got.verdict.state is CheckState.PENDING
    assert got.actions == (DeleteRequest(request.metadata), MakeRequest(plan))


@pytest.mark.parametrize(
    ("retries", "state", "seconds"),
    [(0, "Retry", 60), (2, "Retry", 240), (3, "Rejected", None)],
)
def test_retries_end_at_the_limit(retries: int, state: str, seconds: int | None) -> None:
    got = retry_or_reject(retries, RetryRule(limit=3), "no")
    assert (got.state, got.requeue_after_seconds) == (state, seconds)


@pytest.mark.parametrize(
    ("retry_count", "put_back", "want"),
    [(None, None, 0), (None, 2, 2), (3, None, 3), (1, 2, 2), (2, 1, 2)],
)
def test_evictions_since_the_pods_ran_count_as_retries(
    retry_count: int | None, put_back: int | None, want: int
) -> None:
    requeue = None if put_back is None else RequeueState(count=put_back)
    unit = msgspec.structs.replace(the_unit(), status=QueueUnitStatus(requeue_state=requeue))
    assert retries_of(unit, AdmissionCheckState(name="check", retry_count=retry_count)) == want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        (["Provisioned"], None),
        (["Provisioned", "BookingExpired"], None),
        (["Provisioned", "Failed"], None),
        (["Provisioned", "CapacityRevoked=False"], None),
        (["Provisioned", "CapacityRevoked"], CheckState.RETRY),
    ],
)
def test_for_nodes_in_use_only_a_revocation_counts(
    conditions: list[str], want: CheckState | None
) -> None:
    request = request_of(plan_for(), *conditions)
    consume = "autoscaling.x-k8s.io/consume-provisioning-request"
    update = PodSetUpdate(name="main", annotations={consume: request.metadata.name})
    state = AdmissionCheckState(name="check", state="Ready", pod_set_updates=(update,))
    got = judge_admitted(the_unit("Running"), state, RetryRule(), [request])
    assert (None if got is None else got.state) == want
    unused = AdmissionCheckState(name="check", state="Ready")
    assert judge_admitted(the_unit("Running"), unused, RetryRule(), [request]) is None


def test_a_check_that_cannot_be_carried_out_revokes_nothing() -> None:
    ready = AdmissionCheckState(name="check", state="Ready", message="m")
    assert hold(ready, "why") == unchanged(ready)
    assert hold(PENDING, "why").state is CheckState.PENDING


@pytest.mark.parametrize(
    ("phase", "checks", "want"),
    [
        ("Reserved", {"check"}, 0),
        ("Running", {"check"}, 0),
        ("Reserved", set(), 1),
        ("Running", {"other"}, 1),
        ("Enqueued", {"check"}, 1),
        ("TimeoutBackoff", {"check"}, 1),
        ("Succeed", {"check"}, 1),
    ],
)
def test_unneeded_objects_are_deleted(phase: str, checks: set[str], want: int) -> None:
    made = [("check", Granted((request_of(plan_for()),)))]
    assert len(clear_unneeded(the_unit(phase), frozenset(checks), made)) == want


def test_objects_of_a_deleted_unit_are_deleted_except_detached_ones() -> None:
    request = request_of(plan_for())
    detached = request_of(plan_for(), ownerReferences=[])
    assert clear_unneeded(None, frozenset(), [("check", Granted((request,)))]) == []
    got = clear_unneeded(None, frozenset(), [("check", Granted((detached,)))])
    assert got == [DeleteRequest(detached.metadata)]
