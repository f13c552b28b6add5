"""What an engine is built from, beside its plugins: as flags and configuration say it."""

from __future__ import annotations

import msgspec

from queue_scheduler.configuration import KoordQueueConfiguration
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What an engine is built from. A dump has it, with these fields in camel case.

    Attributes:
        configuration: The configuration file of the program.
        oversell_rate: The factor on limits, as a fraction: "5/4".
        checks_available_quota: The gate ElasticQuotaTreeCheckAvailableQuota.
        checks_namespaces: Whether quota or namespace must list the other.
        names_are_proved: Whether the API server proves who submits jobs.
        strict: Which queues are strict.
        queue_namespace: The namespace of the queues.
    """

    configuration: KoordQueueConfiguration = KoordQueueConfiguration()
    oversell_rate: str = "1"
    checks_available_quota: bool = False
    checks_namespaces: bool = False
    names_are_proved: bool = False
    strict: StrictMode = NOT_STRICT
    queue_namespace: str = DEFAULT_QUEUE_NAMESPACE
