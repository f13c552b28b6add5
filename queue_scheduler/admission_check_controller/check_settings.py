"""What an AdmissionCheck and its ProvisioningRequestConfig ask for, or why they make no sense."""

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
"""Of the cluster-autoscaler's and Google's documentation. Others are passed on as they are: only
the autoscaler knows which it serves."""

MAX_PARAMETERS: Final = 100
MAX_PARAMETER_CHARS: Final = 255
"""Limits of the ProvisioningRequest's CRD; an older CRD of the config has none."""

MAX_DOUBLINGS: Final = 32
"""One second doubled so often is more than any int32 can cap."""


class RetryRule(msgspec.Struct, frozen=True):
    """How often a request that failed is made again, and after how long."""

    limit: int = DEFAULT_BACKOFF_LIMIT
    base_seconds: int = DEFAULT_BACKOFF_BASE_SECONDS
    max_seconds: int = DEFAULT_BACKOFF_MAX_SECONDS

    def seconds(self, retries: int) -> int:
        """Return the pause after a failure with so many retries before it; at least a second.

        Without one the next attempt could begin in the same second, and be taken for this one.
        """
        grown = self.base_seconds << min(retries, MAX_DOUBLINGS)
        return max(min(grown, self.max_seconds), 1)


class CheckSettings(msgspec.Struct, frozen=True):
    """A check that can be carried out."""

    class_name: str
    parameters: dict[str, str]
    managed_resources: frozenset[str]
    retry: RetryRule
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class Obstacle(msgspec.Struct, frozen=True):
    """Why a check cannot be carried out."""

    reason: str
    message: str


def config_name(check: AdmissionCheck) -> str | Obstacle:
    """Return the name of the check's config, or why it has none."""
    parameters = check.spec.parameters
    if parameters is None:
        words = f"spec.parameters must name a {CONFIG_KIND}"
        return Obstacle("ParametersMissing", words)
    if (parameters.api_group, parameters.kind) != (CONFIG_GROUP, CONFIG_KIND):
        given = f"{parameters.kind}.{parameters.api_group}"
        words = f"spec.parameters must name a {CONFIG_KIND}.{CONFIG_GROUP}, not a {given}"
        return Obstacle("BadParametersRef", words)
    return parameters.name


def read_settings(config: ProvisioningRequestConfig) -> CheckSettings | Obstacle:
    """Return what a config asks for, or why that cannot be done."""
    name, spec = config.metadata.name, config.spec
    if not 0 < len(spec.provisioning_class_name) <= SUBDOMAIN_LENGTH:
        return _invalid(name, "provisioningClassName is missing or too long")
    if len(spec.parameters) > MAX_PARAMETERS:
        return _invalid(name, f"more than {MAX_PARAMETERS} parameters")
    for key, value in sorted(spec.parameters.items()):
        if len(value) > MAX_PARAMETER_CHARS:
            words = f"the parameter {key[:SUBDOMAIN_LENGTH]} has more than {MAX_PARAMETER_CHARS}"
            return _invalid(name, f"{words} characters")
    return CheckSettings(
        class_name=spec.provisioning_class_name,
        parameters=spec.parameters,
        managed_resources=frozenset(spec.managed_resources),
        retry=_retry_rule(spec.retry_strategy),
        node_selector=spec.pod_set_updates.node_selector,
    )


def is_known_class(settings: CheckSettings) -> bool:
    """Return whether the class is one that is known here to be served by some autoscaler."""
    return settings.class_name in KNOWN_CLASSES


def _invalid(name: str, words: str) -> Obstacle:
    return Obstacle("InvalidConfig", f"{CONFIG_KIND} {name}: {words}")


def _retry_rule(strategy: RetryStrategy) -> RetryRule:
    def given(value: int | None, default: int) -> int:
        return default if value is None else max(value, 0)

    return RetryRule(
        limit=given(strategy.backoff_limit_count, DEFAULT_BACKOFF_LIMIT),
        base_seconds=given(strategy.backoff_base_seconds, DEFAULT_BACKOFF_BASE_SECONDS),
        max_seconds=given(strategy.backoff_max_seconds, DEFAULT_BACKOFF_MAX_SECONDS),
    )
