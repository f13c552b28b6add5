"""The settings in an AdmissionCheck and its ProvisioningRequestConfig, or why they are invalid."""

from __future__ import annotations

from typing import Final

import msgspec

from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.objects.provisioning_request_config import (
    DEFAULT_BACKOFF_BASE_SECONDS,
    DEFAULT_BACKOFF_LIMIT,
    DEFAULT_BACKOFF_MAX_SECONDS,
    NodeSelectorUpdate,
    ProvisioningRequestConfig,
    RetryStrategy,
)

CONFIG_GROUP: Final = "kueue.x-k8s.io"
CONFIG_KIND: Final = "ProvisioningRequestConfig"

KNOWN_CLASSES: Final = frozenset(
    (
        "check-capacity.autoscaling.x-k8s.io",
        "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        "queued-provisioning.gke.io",
    )
)
"""The classes documented by the cluster-autoscaler and by Google. Others are passed on unchanged,
since only the autoscaler knows which classes it serves."""

MAX_PARAMETERS: Final = 100
MAX_PARAMETER_CHARS: Final = 255
"""Limits of the ProvisioningRequest's CRD, checked here because older CRDs of the config have
none."""

MAX_DOUBLINGS: Final = 32
"""One second doubled this often is above any `backoffMaxSeconds`, which is an int32."""


class RetryRule(msgspec.Struct, frozen=True):
    """How often a failed request is retried, and after how long.

    Attributes:
        limit: The number of retries.
        base_seconds: The pause before the first retry; each later one is twice as long.
        max_seconds: The longest pause.
    """

    limit: int = DEFAULT_BACKOFF_LIMIT
    base_seconds: int = DEFAULT_BACKOFF_BASE_SECONDS
    max_seconds: int = DEFAULT_BACKOFF_MAX_SECONDS

    def seconds(self, retries: int) -> int:
        """Return the pause in seconds after an attempt that `retries` retries preceded.

        It is at least 1: object times have whole seconds, so an attempt that began in the same
        second could not be told from the one before it.
        """
        grown = self.base_seconds << min(retries, MAX_DOUBLINGS)
        return max(min(grown, self.max_seconds), 1)


class CheckSettings(msgspec.Struct, frozen=True):
    """The settings of a valid check; the fields are those of the config's spec."""

    class_name: str
    parameters: dict[str, str]
    managed_resources: frozenset[str]
    retry: RetryRule
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class InvalidCheck(msgspec.Struct, frozen=True):
    """Why a check cannot be performed: the reason and the message of its condition Active."""

    reason: str
    message: str


def config_name(check: AdmissionCheck) -> str | InvalidCheck:
    """Return the name of the config that the check refers to, or why it refers to none."""
    parameters = check.spec.parameters
    if parameters is None:
        message = f"spec.parameters must name a {CONFIG_KIND}"
        return InvalidCheck("ParametersMissing", message)
    if (parameters.api_group, parameters.kind) != (CONFIG_GROUP, CONFIG_KIND):
        given = f"{parameters.kind}.{parameters.api_group}"
        message = f"spec.parameters must name a {CONFIG_KIND}.{CONFIG_GROUP}, not a {given}"
        return InvalidCheck("BadParametersRef", message)
    return parameters.name


def read_settings(config: ProvisioningRequestConfig) -> CheckSettings | InvalidCheck:
    """Return the settings in a config, or why they are invalid."""
    name, spec = config.metadata.name, config.spec
    if not 0 < len(spec.provisioning_class_name) <= SUBDOMAIN_LENGTH:
        return _invalid(name, "provisioningClassName is missing or too long")
    if len(spec.parameters) > MAX_PARAMETERS:
        return _invalid(name, f"more than {MAX_PARAMETERS} parameters")
    for key, value in sorted(spec.parameters.items()):
        if len(value) > MAX_PARAMETER_CHARS:
            message = f"the parameter {key[:SUBDOMAIN_LENGTH]} has more than {MAX_PARAMETER_CHARS}"
            return _invalid(name, f"{message} characters")
    return CheckSettings(
        class_name=spec.provisioning_class_name,
        parameters=spec.parameters,
        managed_resources=frozenset(spec.managed_resources),
        retry=_retry_rule(spec.retry_strategy),
        node_selector=spec.pod_set_updates.node_selector,
    )


def is_known_class(settings: CheckSettings) -> bool:
    """Return whether the class is one of `KNOWN_CLASSES`."""
    return settings.class_name in KNOWN_CLASSES


def _invalid(name: str, message: str) -> InvalidCheck:
    return InvalidCheck("InvalidConfig", f"{CONFIG_KIND} {name}: {message}")


def _retry_rule(strategy: RetryStrategy) -> RetryRule:
    def given(value: int | None, default: int) -> int:
        return default if value is None else max(value, 0)

    return RetryRule(
        limit=given(strategy.backoff_limit_count, DEFAULT_BACKOFF_LIMIT),
        base_seconds=given(strategy.backoff_base_seconds, DEFAULT_BACKOFF_BASE_SECONDS),
        max_seconds=given(strategy.backoff_max_seconds, DEFAULT_BACKOFF_MAX_SECONDS),
    )
