"""Which changes of the cluster change what the API server makes of pods (`pod_preview`).

Only the versions of webhook configurations, policies and profiles are read. The API server alone
knows which of them are about pods: after each change it is asked again. So it is after a change
of what is watched in any case (`admission_caches`): a class that is created lets pods through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from queue_controllers.watches.informers import InformerFactory
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import OnlyMetadata
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.objects.meta import ObjectMeta

_REGISTRATION: Final = "admissionregistration.k8s.io"


def _of(group: str, version: str, plural: str, kind: str) -> ResourceType[OnlyMetadata]:
    return ResourceType(
        group,
        version,
        plural,
        kind,
        namespaced=False,
        object_type=OnlyMetadata,
        only_metadata=True,
    )


FOLLOWED: Final = (
    _of(_REGISTRATION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _of(_REGISTRATION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    _of(_REGISTRATION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    _of(_REGISTRATION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    _of(_REGISTRATION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    _of(
        _REGISTRATION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
    ),
    _of(
        "config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile"
    ),
)
"""Where they are served; the chart grants the right to read them."""

OLDER: Final = {
    "mutatingadmissionpolicies": (
        _of(_REGISTRATION, "v1beta1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    ),
    "mutatingadmissionpolicybindings": (
        _of(
            _REGISTRATION,
            "v1beta1",
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
        ),
    ),
}
"""The versions that Kubernetes before 1.36 serves, by plural."""


class PreviewChanges:
    """Watches what changes the answers.

    Args:
        informers: Creates and starts the watches.
        on_news: Called with the namespace in which answers may have changed, "" for all.
    """

    def __init__(self, informers: InformerFactory, *, on_news: Callable[[str], None]) -> None:
        self._on_news = on_news
        self.watches: tuple[KindWatch[OnlyMetadata], ...] = tuple(
            informers.follow(
                each,
                IndexedStore[OnlyMetadata](transform=slim_news),
                on_made=lambda informer: informer.add_handler(self.on_change),
                on_gone=lambda: on_news(""),
                older=OLDER.get(each.plural, ()),
            )
            for each in FOLLOWED
        )

    def step(self) -> float:
        """Check which of the kinds are served."""
        return min([each.step() for each in self.watches])

    def on_change(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Handle a change of what counts; where generations are counted, of its spec alone."""
        if _version_of(old) != _version_of(new) and (either := new or old):
            self._on_news(either.metadata.namespace)


def slim_news(found: OnlyMetadata, _before: OnlyMetadata | None = None) -> OnlyMetadata:
    """Return what is kept of an object: that it exists, and its version."""
    meta = found.metadata
    return OnlyMetadata(
        metadata=ObjectMeta(
            name=meta.name,
            uid=meta.uid,
            generation=meta.generation,
            resource_version=meta.resource_version,
        )
    )


def _version_of(found: ApiObject | None) -> tuple[object, ...] | None:
    """Return what changes with a spec: the version, for kinds that do not count generations."""
    if found is None:
        return None
    meta = found.metadata
    return (meta.uid, meta.generation or meta.resource_version)
