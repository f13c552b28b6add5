r"""What a unit's provisioning check says, and what is to be made or taken away for it. Pure.

    no request that fits --> it is made --> Accepted --> Provisioned --> Ready
                                    \           \            \--> BookingExpired, CapacityRevoked
                                     \-----------\--> Failed --> Retry, at the limit Rejected

A request fits when it was made for this attempt (reservation of quota, number of retries) and this
demand. While the check is Pending its settings must be those of the config, too; what has been
granted is not given back for an edit of the config.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from queue_admission_checks.check_settings import CheckSettings, RetryRule
from queue_admission_checks.request_plan import RequestPlan, pod_set_of_template
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.evictions import backoffs_of
from shared_api.objects.field_schema import LABEL_LENGTH
from shared_api.objects.meta import Condition, ObjectMeta, find_condition
from shared_api.objects.provisioning_request import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)
from shared_api.objects.queue_unit import AdmissionCheckState, PodSetUpdate, QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import (
    CONSUME_REQUEST,
    CONSUME_REQUEST_LEGACY,
    PROVISIONING_CLASS,
    PROVISIONING_CLASS_LEGACY,
)


class MakeRequest(msgspec.Struct, frozen=True):
    """Make the pod templates of a plan, then its request."""

    plan: RequestPlan


class HandOver(msgspec.Struct, frozen=True):
    """Make a request the owner of a pod template, so that it is deleted with it."""

    template: ObjectMeta
    request: ObjectMeta


class DeleteRequest(msgspec.Struct, frozen=True):
    """Delete a request; its templates go with it."""

    request: ObjectMeta


class DeleteTemplate(msgspec.Struct, frozen=True):
    """Delete a template that no request owns."""

    template: ObjectMeta


Action = MakeRequest | HandOver | DeleteRequest | DeleteTemplate


class ProvisioningDecision(msgspec.Struct, frozen=True):
    """The verdict of the check, and the actions to carry out; the first failure ends them."""

    verdict: CheckVerdict
    actions: tuple[Action, ...] = ()


class Granted(msgspec.Struct, frozen=True):
    """What a unit has for one of its checks.

    Attributes:
        requests: Made for the unit (by its uid) and the check.
        templates: The same.
    """

    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[ObjectMeta, ...] = ()


def without_nodes(unit: QueueUnit, settings: CheckSettings) -> CheckVerdict:
    """Return the verdict on a unit none of whose pods need nodes."""
    if not unit.spec.pod_set:
        return CheckVerdict(CheckState.REJECTED, "The unit has no pod sets to ask for nodes with")
    managed = ", ".join(sorted(settings.managed_resources))
    asks_for = f"asks for {managed}" if managed else "has pods"
    return CheckVerdict(
        CheckState.READY, f"No ProvisioningRequest is needed: no pod set {asks_for}"
    )


def decide_check(
    unit: QueueUnit,
    state: AdmissionCheckState,
    plan: RequestPlan,
    settings: CheckSettings,
    granted: Granted,
    *,
    older_spelling: bool = False,
) -> ProvisioningDecision:
    """Return the verdict about a pending unit, and the actions for it.

    Args:
        unit: the unit.
        state: of the check.
        plan: the request that it needs.
        settings: of the check.
        granted: what it has.
        older_spelling: the autoscaler may know the older annotations alone.
    """
    is_ready = state.state == CheckState.READY
    current = _find_current(plan, granted.requests, settled=is_ready)
    away = tuple(_clear(granted, keep=current))
    if current is None:
        return _ask_anew(unit, plan, granted, away, is_ready=is_ready)
    verdict = _judge(unit, state, current, settings, older_spelling=older_spelling)
    is_planned = current.metadata.name == plan.name_for(unit.metadata)
    waits = verdict.state is CheckState.PENDING
    if is_planned and waits and _missing_templates(current, granted.templates):
        return ProvisioningDecision(verdict, (*away, MakeRequest(plan)))
    handed = tuple(
        HandOver(template, current.metadata)
        for template in granted.templates
        if not _belongs_to_request(template) and _is_template_of(current, template)
    )
    return ProvisioningDecision(verdict, (*away, *handed))


def judge_admitted(
    unit: QueueUnit,
    state: AdmissionCheckState,
    retry: RetryRule,
    requests: Iterable[ProvisioningRequest],
) -> CheckVerdict | None:
    """Return the verdict on a unit that has started, or None if it may continue.

    The request whose nodes its pods use counts only if these are taken away. That it no longer
    keeps them for those pods is as it should be: they run there.
    """
    used = {
        update.annotations.get(key)
        for update in state.pod_set_updates
        for key in (CONSUME_REQUEST, CONSUME_REQUEST_LEGACY)
    }
    for request in requests:
        if request.metadata.name in used and (revoked := _true(request, CAPACITY_REVOKED)):
            return retry_or_reject(retries_of(unit, state), retry, _words(request, revoked))
    return None


def retries_of(unit: QueueUnit, state: AdmissionCheckState) -> int:
    """Return how many attempts there were before this one since the unit's pods last ran.

    A check that is asked again begins with a new entry, so what counts is how often the unit gave
    its quota back, for whatever reason.
    """
    return max(state.retry_count or 0, backoffs_of(unit))


def retry_or_reject(retries: int, retry: RetryRule, message: str) -> CheckVerdict:
    """Return the verdict on an attempt that failed, after so many others."""
    if retries >= retry.limit:
        return CheckVerdict(CheckState.REJECTED, f"{message} (given up after {retries} retries)")
    return CheckVerdict(CheckState.RETRY, message, requeue_after_seconds=retry.seconds(retries))


def unchanged(state: AdmissionCheckState, recheck_seconds: float | None = None) -> CheckVerdict:
    """Return the verdict that is written already."""
    return CheckVerdict(
        CheckState(state.state),
        state.message,
        state.pod_set_updates,
        recheck_seconds=recheck_seconds,
    )


def hold(state: AdmissionCheckState, message: str) -> CheckVerdict:
    """Return the verdict of a check that cannot be carried out: units keep waiting for it."""
    if state.state == CheckState.READY:
        return unchanged(state)
    return CheckVerdict(CheckState.PENDING, message)


def clear_unneeded(
    unit: QueueUnit | None, checks: frozenset[str], granted: Iterable[tuple[str, Granted]]
) -> list[Action]:
    """Return the actions that delete what a unit has and no longer needs.

    Objects of a deleted unit are garbage-collected, except those that were detached from it.

    Args:
        unit: None if it is gone.
        checks: the unit's checks that are carried out here.
        granted: what was made for it, by check.
    """
    actions: list[Action] = []
    for check, each in granted:
        if unit is None:
            actions += _clear(
                Granted(
                    tuple(r for r in each.requests if not r.metadata.owner_references),
                    tuple(t for t in each.templates if not t.owner_references),
                )
            )
        elif not occupies_quota(unit) or check not in checks:
            actions += _clear(each)
    return actions


# --- requests ---------------------------------------------------------------------------------


def _find_current(
    plan: RequestPlan, requests: Iterable[ProvisioningRequest], *, settled: bool
) -> ProvisioningRequest | None:
    for request in sorted(requests, key=lambda each: each.metadata.name):
        if request.metadata.deletion_timestamp is not None or not plan.fits(request):
            continue
        if settled or plan.asks_the_same(request):
            return request
    return None


def _ask_anew(
    unit: QueueUnit,
    plan: RequestPlan,
    granted: Granted,
    away: tuple[Action, ...],
    *,
    is_ready: bool,
) -> ProvisioningDecision:
    name = plan.name_for(unit.metadata)
    if any(each.metadata.name == name for each in granted.requests):
        words = f"ProvisioningRequest {name} is being deleted, and made again then"
        return ProvisioningDecision(CheckVerdict(CheckState.PENDING, words), away)
    words = _waits_for_acceptance(name)
    if is_ready:
        words = f"The nodes were for another demand, or are gone; {words}"
    return ProvisioningDecision(CheckVerdict(CheckState.PENDING, words), (*away, MakeRequest(plan)))


def _clear(granted: Granted, keep: ProvisioningRequest | None = None) -> Iterable[Action]:
    for request in granted.requests:
        is_kept = keep is not None and request.metadata.uid == keep.metadata.uid
        if not is_kept and request.metadata.deletion_timestamp is None:
            yield DeleteRequest(request.metadata)
    for template in granted.templates:
        is_kept = keep is not None and _is_template_of(keep, template)
        if not (is_kept or _belongs_to_request(template) or template.deletion_timestamp):
            yield DeleteTemplate(template)


def _belongs_to_request(template: ObjectMeta) -> bool:
    owner = template.controller_owner
    return owner is not None and owner.kind == "ProvisioningRequest"


def _is_template_of(request: ProvisioningRequest, template: ObjectMeta) -> bool:
    return any(each.pod_template_ref.name == template.name for each in request.spec.pod_sets)


def _missing_templates(request: ProvisioningRequest, templates: Iterable[ObjectMeta]) -> bool:
    there = {each.name for each in templates if each.deletion_timestamp is None}
    return any(each.pod_template_ref.name not in there for each in request.spec.pod_sets)


# --- conditions -------------------------------------------------------------------------------


def _judge(
    unit: QueueUnit,
    state: AdmissionCheckState,
    request: ProvisioningRequest,
    settings: CheckSettings,
    *,
    older_spelling: bool,
) -> CheckVerdict:
    for bad in (FAILED, CAPACITY_REVOKED, BOOKING_EXPIRED):
        condition = _true(request, bad)
        if condition is not None:
            retries = retries_of(unit, state)
            return retry_or_reject(retries, settings.retry, _words(request, condition))
    if _true(request, PROVISIONED):
        return _ready(unit, request, settings, older_spelling=older_spelling)
    name = request.metadata.name
    waiting = find_condition(request.status.conditions, PROVISIONED)
    if waiting is not None and (waiting.message or waiting.reason):
        return CheckVerdict(CheckState.PENDING, waiting.message or waiting.reason)
    if _true(request, ACCEPTED):
        return CheckVerdict(CheckState.PENDING, f"ProvisioningRequest {name} is accepted")
    return CheckVerdict(CheckState.PENDING, _waits_for_acceptance(name))


def _ready(
    unit: QueueUnit, request: ProvisioningRequest, settings: CheckSettings, *, older_spelling: bool
) -> CheckVerdict:
    name, spec = request.metadata.name, request.spec
    annotations = {CONSUME_REQUEST: name, PROVISIONING_CLASS: spec.provisioning_class_name}
    if older_spelling:
        annotations[CONSUME_REQUEST_LEGACY] = name
        annotations[PROVISIONING_CLASS_LEGACY] = spec.provisioning_class_name
    details = request.status.provisioning_class_details
    found = {
        each.key: value
        for each in settings.node_selector
        # What is no value of a label is no value of a node's.
        if len(value := details.get(each.value_from_provisioning_class_detail, "")) <= LABEL_LENGTH
        and value
    }
    pod_sets = [each.name for each in unit.spec.pod_set]
    updates = [
        PodSetUpdate(name=pod_set, annotations=annotations, node_selector=found)
        for each in spec.pod_sets
        if (pod_set := pod_set_of_template(name, each.pod_template_ref.name, pod_sets))
    ]
    words = f"ProvisioningRequest {name} is provisioned"
    if missing := sorted(each.key for each in settings.node_selector if each.key not in found):
        words += f"; its class gives no detail for the node label {', '.join(missing)}"
    return CheckVerdict(CheckState.READY, words, tuple(updates))


def _waits_for_acceptance(name: str) -> str:
    return f"ProvisioningRequest {name} waits for the autoscaler to accept it"


def _true(request: ProvisioningRequest, condition_type: str) -> Condition | None:
    condition = find_condition(request.status.conditions, condition_type)
    return condition if condition is not None and condition.status == "True" else None


def _words(request: ProvisioningRequest, condition: Condition) -> str:
    """Return what the autoscaler says, with the name of the request."""
    detail = condition.message or condition.reason
    summary = f"ProvisioningRequest {request.metadata.name}: {condition.type}"
    return f"{summary}: {detail}" if detail else summary
