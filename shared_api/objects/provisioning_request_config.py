"""ProvisioningRequestConfig (`kueue.x-k8s.io`): parameters of a check that requests nodes."""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import ObjectMeta, WireStruct

DEFAULT_BACKOFF_LIMIT: Final = 3
DEFAULT_BACKOFF_BASE_SECONDS: Final = 60
DEFAULT_BACKOFF_MAX_SECONDS: Final = 1800
"""The CRD's own defaults, for servers with an older CRD, which has no retryStrategy."""


class RetryStrategy(WireStruct, frozen=True):
    """How a request is retried when the autoscaler cannot provide the nodes."""

    backoff_limit_count: int | None = None
    backoff_base_seconds: int | None = None
    backoff_max_seconds: int | None = None


class NodeSelectorUpdate(WireStruct, frozen=True):
    """A node label for the pods' node selector; its value is a class detail of the request."""

    key: str = ""
    value_from_provisioning_class_detail: str = ""


class ConfigPodSetUpdates(WireStruct, frozen=True):
    """What the pods get in addition to the annotations that name their request."""

    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class ProvisioningRequestConfigSpec(WireStruct, frozen=True):
    """`spec`."""

    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: tuple[str, ...] = ()
    """Only pod sets that request one of these resources need nodes; empty: all do."""
    retry_strategy: RetryStrategy = RetryStrategy()
    pod_set_updates: ConfigPodSetUpdates = ConfigPodSetUpdates()


class ProvisioningRequestConfig(WireStruct, frozen=True):
    """Settings of a provisioning check; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestConfigSpec = ProvisioningRequestConfigSpec()
