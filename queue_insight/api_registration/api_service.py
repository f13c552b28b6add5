"""The APIService of the aggregated API (apiregistration.k8s.io/v1)."""

from __future__ import annotations

from typing import Any, Final

from shared_api.client.resource_client import PatchType, ResourceClient, ResourceType
from shared_api.objects.meta import ObjectMeta, WireStruct

GROUP: Final = "visibility.koord-queue"
VERSION: Final = "v1alpha1"
NAME: Final = f"{VERSION}.{GROUP}"

GROUP_PRIORITY: Final = 100
"""Far below built-in groups and CRDs (1000): a short name of theirs comes first."""
HTTPS_PORT: Final = 443
VERSION_PRIORITY: Final = 10
"""The first alpha version, as the chart has it."""


class ServiceReference(WireStruct, frozen=True):
    """The Service that answers for the group."""

    namespace: str = ""
    name: str = ""
    port: int = HTTPS_PORT

    def as_written(self) -> dict[str, Any]:
        """Return all fields: in a merge patch, one that is left out keeps its value."""
        return {"namespace": self.namespace, "name": self.name, "port": self.port}


class ApiServiceSpec(WireStruct, frozen=True):
    """Where the group is served; without a service nothing is asked for it."""

    service: ServiceReference | None = None
    ca_bundle: str = ""
    """Authorities that sign the Service's certificates: PEM in base64."""


class Condition(WireStruct, frozen=True):
    """A condition of an APIService."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ApiServiceStatus(WireStruct, frozen=True):
    """What the aggregator has found."""

    conditions: tuple[Condition, ...] = ()


class ApiService(WireStruct, frozen=True):
    """An APIService."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ApiServiceSpec = ApiServiceSpec()
    status: ApiServiceStatus = ApiServiceStatus()

    @property
    def unavailable(self) -> Condition | None:
        """The condition that says that the Service does not answer; None if it does."""
        if self.spec.service is None:
            return None
        for each in self.status.conditions:
            if each.type == "Available" and each.status == "False":
                return each
        return None


API_SERVICES: Final = ResourceType(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    namespaced=False,
    object_type=ApiService,
)


class ApiServices:
    """Reads and writes the one APIService, by its name.

    Args:
        client: The client of the API server.
    """

    def __init__(self, client: ResourceClient) -> None:
        self._client = client

    def read(self) -> ApiService:
        """Return it.

        Raises:
            NotFound: There is none.
            ApiFailure: The API server refuses, or does not answer.
        """
        return self._client.get(API_SERVICES, "", NAME)

    def update(self, seen: ApiService, service: ServiceReference, ca_bundle: str) -> None:
        """Write where the group is served, and the CA of its certificate.

        Raises:
            Conflict: It has changed since it was read.
            ApiFailure: As `read`.
        """
        version = {"resourceVersion": seen.metadata.resource_version}
        spec = {"service": service.as_written(), "caBundle": ca_bundle}
        self._client.patch(API_SERVICES, "", NAME, {"metadata": version, "spec": spec})

    def create(self, service: ServiceReference, ca_bundle: str) -> None:
        """Create it, or take it over.

        It is applied, not posted: the right to create can be restricted to a name only there.

        Raises:
            ApiFailure: As `read`.
        """
        spec: dict[str, Any] = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
            "service": service.as_written(),
            "caBundle": ca_bundle,
        }
        body = {
            "apiVersion": API_SERVICES.api_version,
            "kind": API_SERVICES.kind,
            "metadata": {"name": NAME},
            "spec": spec,
        }
        self._client.patch(API_SERVICES, "", NAME, body, patch_type=PatchType.APPLY)

    def delete(self, seen: ApiService) -> None:
        """Delete it as it was read.

        Raises:
            Conflict: It has changed since it was read.
            NotFound: It is gone.
            ApiFailure: As `read`.
        """
        meta = seen.metadata
        self._client.delete(API_SERVICES, "", NAME, uid=meta.uid, version=meta.resource_version)
