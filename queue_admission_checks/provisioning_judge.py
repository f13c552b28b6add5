"""The judge of provisioning checks: reads caches, decides, writes, says what became of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import structlog
from msgspec.structs import replace

from queue_admission_checks.check_settings import (
    CONFIG_KIND,
    CheckSettings,
    InvalidCheck,
    RetryRule,
    config_name,
    is_known_class,
    read_settings,
)
from queue_admission_checks.provisioning_decision import (
    Granted,
    clear_unneeded,
    decide_check,
    hold,
    judge_admitted,
    retries_of,
    retry_or_reject,
    unchanged,
    without_nodes,
)
from queue_admission_checks.provisioning_writes import ProvisioningWrites
from queue_admission_checks.request_plan import (
    KIND,
    PlannedPods,
    build_plan,
    check_of,
    controller_label,
    plan_pods,
    unit_key_in,
)
from shared_api.admission_check_kit.judging import ACTIVE, Activity, CheckContext
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict, find_state
from shared_api.client.errors import BadRequest, Conflict, Forbidden, Invalid
from shared_api.client.resource_types import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIG_VERSIONS,
    PROVISIONING_REQUEST_VERSIONS,
    OnlyMetadata,
)
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import InformerSettings
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.provisioning_request_config import ProvisioningRequestConfig
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import CHECK_CONTROLLER

BY_UNIT: Final = "unit"

OLDER_VERSION: Final = "v1beta1"
"""Autoscalers that serve no later one may know the older annotations alone."""

CACHE_SECONDS: Final = 1.0
"""When a unit is judged again that waits for a cache which is being filled."""

DELETE_AGAIN_SECONDS: Final = 10.0
"""When it is tried again to delete what met a conflict; the verdict does not wait for that."""

FORBIDDEN_SECONDS: Final = 60.0
"""When a forbidden request is tried again: an administrator has to grant a right first."""

log = structlog.get_logger("provisioning_judge")


class ProvisioningJudge:
    """A `Judge` with all optional capabilities.

    Args:
        controller_name: of the checks that are carried out.
    """

    def __init__(self, controller_name: str) -> None:
        self._controller_name = controller_name
        self._configs: IndexedStore[ProvisioningRequestConfig] = IndexedStore()
        self._requests: IndexedStore[ProvisioningRequest] = IndexedStore(
            indexes={BY_UNIT: lambda each: (unit_key_in(each.metadata),)}
        )
        self._templates: IndexedStore[OnlyMetadata] = IndexedStore(
            indexes={BY_UNIT: lambda each: (unit_key_in(each.metadata),)}
        )
        # Digests of units' pod sets, by the generation at which they were read. Written only
        # by the holder of the unit's key; what is lost is read again.
        self._demands: dict[str, tuple[Uid, int, str]] = {}

    def attach(self, context: CheckContext) -> None:
        """Follow configs, and the objects that were made here."""
        self._context = context
        made_here = InformerSettings(
            label_selector=f"{CHECK_CONTROLLER}={controller_label(self._controller_name)}"
        )
        self._config_kind: KindWatch[ProvisioningRequestConfig] = context.follow(
            PROVISIONING_REQUEST_CONFIG_VERSIONS, self._on_config, store=self._configs
        )
        self._request_kind: KindWatch[ProvisioningRequest] = context.follow(
            PROVISIONING_REQUEST_VERSIONS, self._on_made, store=self._requests, settings=made_here
        )
        self._template_kind: KindWatch[OnlyMetadata] = context.follow(
            (POD_TEMPLATES,), self._on_made, store=self._templates, settings=made_here
        )
        self._writes = ProvisioningWrites(
            context.client,
            context,
            self._requests,
            self._templates,
            lambda: self._request_kind.resource_type,
        )

    # --- the judge ------------------------------------------------------------------------------

    def judge_check(self, check: AdmissionCheck) -> Activity:
        """Return whether the check has a valid config, and requests are served."""
        settings = self._settings_of(check)
        if isinstance(settings, InvalidCheck):
            return Activity(is_active=False, reason=settings.reason, message=settings.message)
        if not is_known_class(settings):
            words = f"The class {settings.class_name} is not known here, and passed on as it is"
            return Activity(reason="UnknownClass", message=words)
        return ACTIVE

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        """Return whether the unit has its nodes, and request them if not."""
        state = find_state(unit, check.metadata.name)
        assert state is not None, "the unit has the check"
        if not self._are_caches_filled():
            return unchanged(state, CACHE_SECONDS)
        settings = self._settings_of(check)
        if isinstance(settings, InvalidCheck):
            return hold(state, settings.message)
        try:
            pods = plan_pods(unit, settings.managed_resources)
        except QuantityError as error:
            return CheckVerdict(CheckState.REJECTED, f"The demand cannot be read: {error}")
        if not pods:
            made = [(check.metadata.name, self._granted(unit, check))]
            refusal = self._writes.carry_out(clear_unneeded(unit, frozenset(), made), unit)
            return _soon_again(without_nodes(unit, settings), refusal)
        return self._provision(unit, check, state, settings, pods)

    def judge_admitted(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict | None:
        """Return whether the nodes of a unit that has started are taken away."""
        state = find_state(unit, check.metadata.name)
        if state is None or not self._are_caches_filled():
            return None
        settings = self._settings_of(check)
        retry = settings.retry if isinstance(settings, CheckSettings) else RetryRule()
        return judge_admitted(unit, state, retry, self._granted(unit, check).requests)

    def units_to_clean_up(self) -> Collection[str]:
        """Return the units that requests or templates were made for."""
        made: list[ApiObject] = [*self._requests.list(), *self._templates.list()]
        return {key for each in made if (key := unit_key_in(each.metadata))}

    def clean_up(self, key: str, unit: QueueUnit | None, checks: Collection[str]) -> None:
        """Take away the requests of units that have ended, or lost their place or the check."""
        if unit is None or not checks or not occupies_quota(unit):
            self._demands.pop(key, None)
        made: dict[str, Granted] = {}
        for name in self._checks_with_objects(key):
            granted = self._granted_to(key, name, None if unit is None else unit.metadata.uid)
            made[name] = granted
        actions = clear_unneeded(unit, frozenset(checks), made.items())
        refusal = self._writes.carry_out(actions, None)
        if refusal is not None:
            raise refusal

    # --- inside ---------------------------------------------------------------------------------

    def _provision(
        self,
        unit: QueueUnit,
        check: AdmissionCheck,
        state: AdmissionCheckState,
        settings: CheckSettings,
        pods: tuple[PlannedPods, ...],
    ) -> CheckVerdict:
        plan = build_plan(
            unit,
            state,
            settings,
            pods,
            controller_name=self._controller_name,
            demand=self._demand_of(unit),
        )
        version = self._request_kind.resource_type
        decision = decide_check(
            unit,
            state,
            plan,
            settings,
            self._granted(unit, check),
            older_spelling=version is not None and version.version == OLDER_VERSION,
        )
        try:
            refused = self._writes.carry_out(decision.actions, unit)
        except (Invalid, BadRequest) as refusal:
            log.warning(
                "a request for nodes is refused", unit=unit.metadata.key, error=str(refusal)
            )
            words = f"The API server refuses the {KIND}: {refusal.message}"
            return retry_or_reject(retries_of(unit, state), settings.retry, words)
        except Forbidden as refusal:
            log.warning(
                "a request for nodes is forbidden", unit=unit.metadata.key, error=str(refusal)
            )
            words = f"The request for nodes needs a right: {refusal.message}"
            return CheckVerdict(CheckState.PENDING, words, recheck_seconds=FORBIDDEN_SECONDS)
        return _soon_again(decision.verdict, refused)

    def _settings_of(self, check: AdmissionCheck) -> CheckSettings | InvalidCheck:
        name = config_name(check)
        if isinstance(name, InvalidCheck):
            return name
        if not self._request_kind.is_served():
            return InvalidCheck("KindNotServed", f"The cluster has no CRD of {KIND}")
        if not self._config_kind.is_served():
            return InvalidCheck("KindNotServed", f"The cluster has no CRD of {CONFIG_KIND}")
        config = self._configs.get(name)
        if config is None:
            return InvalidCheck("ConfigMissing", f"There is no {CONFIG_KIND} {name}")
        return read_settings(config)

    def _are_caches_filled(self) -> bool:
        """Return whether what is not in a cache is not there; an unserved kind has none."""
        kinds = (self._config_kind, self._request_kind, self._template_kind)
        return all(kind.is_ready() for kind in kinds)

    def _demand_of(self, unit: QueueUnit) -> str:
        meta = unit.metadata
        known = self._demands.get(meta.key)
        if known is not None and known[:2] == (meta.uid, meta.generation):
            return known[2]
        digest = self._writes.read_demand_of(unit).digest
        self._demands[meta.key] = (meta.uid, meta.generation, digest)
        return digest

    def _granted(self, unit: QueueUnit, check: AdmissionCheck) -> Granted:
        meta = unit.metadata
        return self._granted_to(meta.key, check.metadata.name, meta.uid)

    def _granted_to(self, key: str, check: str, uid: Uid | None) -> Granted:
        """Return what was made for the unit of this uid; None for any unit that had the key."""
        # While requests are not served, the cache shows the last there were.
        served = self._request_kind.is_served()
        requests = [
            each
            for each in self._requests.by_index(BY_UNIT, key)
            if served and check_of(each.metadata) == check and _is_for(each.metadata, uid)
        ]
        owners = {each.metadata.uid for each in requests}
        templates = [
            each.metadata
            for each in self._templates.by_index(BY_UNIT, key)
            if check_of(each.metadata) == check
            and (_is_for(each.metadata, uid) or _owner_uid(each.metadata) in owners)
        ]
        return Granted(tuple(requests), tuple(templates))

    def _checks_with_objects(self, key: str) -> list[str]:
        made: list[ApiObject] = [
            *self._requests.by_index(BY_UNIT, key),
            *self._templates.by_index(BY_UNIT, key),
        ]
        return sorted({check_of(each.metadata) for each in made})

    # --- news -----------------------------------------------------------------------------------

    def _on_config(
        self, _old: ProvisioningRequestConfig | None, _new: ProvisioningRequestConfig | None
    ) -> None:
        self._context.recheck_all()

    def _on_made(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Look at the unit of a request or template that came, changed or went."""
        made = new if new is not None else old
        if made is not None and (key := unit_key_in(made.metadata)):
            self._context.recheck_unit(key)


def _owner_uid(meta: ObjectMeta) -> Uid | None:
    owner = meta.controller_owner
    return None if owner is None else owner.uid


def _is_for(meta: ObjectMeta, uid: Uid | None) -> bool:
    """Return whether an object belongs to a unit by its uid; None if unknown."""
    return uid is None or _owner_uid(meta) == uid


def _soon_again(verdict: CheckVerdict, refusal: Conflict | None) -> CheckVerdict:
    """Return a verdict beside which something could not be deleted yet."""
    if refusal is None:
        return verdict
    seconds = min(verdict.recheck_seconds or DELETE_AGAIN_SECONDS, DELETE_AGAIN_SECONDS)
    return replace(verdict, recheck_seconds=seconds)
