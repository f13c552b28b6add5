"""The APIService of a test: in memory, with versions, and with writes that others make first."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from queue_insight.api_registration.api_service import (
    ApiService,
    ApiServices,
    ApiServiceSpec,
    ApiServiceStatus,
    Condition,
    ServiceReference,
)
from shared_api.client.errors import ApiFailure, Conflict, NotFound
from shared_api.objects.meta import ObjectMeta, Uid

SERVICE = ServiceReference(namespace="queue", name="insight", port=443)


class FakeApiServices(ApiServices):
    """The one APIService; None: there is none.

    Attributes:
        now: The object.
        writes: What was written.
        failure: Raised by every call, if set.
        before_write: Called once before the next write.
    """

    def __init__(self, now: ApiService | None = None) -> None:
        self.now = now
        self.writes: list[str] = []
        self.failure: ApiFailure | None = None
        self.before_write: Callable[[], None] | None = None
        self._version = 0

    def put(
        self, service: ServiceReference | None, ca_bundle: str = "", *, is_down: bool = False
    ) -> None:
        """Store an object in a new version."""
        self._version += 1
        found = (Condition(type="Available", status="False", reason="Down"),) if is_down else ()
        self.now = ApiService(
            metadata=ObjectMeta(uid=Uid("u"), resource_version=str(self._version)),
            spec=ApiServiceSpec(service=service, ca_bundle=ca_bundle),
            status=ApiServiceStatus(conditions=found),
        )

    def read(self) -> ApiService:
        if self.failure is not None:
            raise self.failure
        if self.now is None:
            raise NotFound(404, "NotFound", "no apiservice")
        return self.now

    def update(self, seen: ApiService, service: ServiceReference, ca_bundle: str) -> None:
        self._check(seen)
        self.writes.append("update")
        down = seen.unavailable is not None
        self.put(service, ca_bundle, is_down=down)

    def create(self, service: ServiceReference, ca_bundle: str) -> None:
        self.writes.append("create")
        self.put(service, ca_bundle)

    def delete(self, seen: ApiService) -> None:
        self._check(seen)
        self.writes.append("delete")
        self.now = None

    def _check(self, seen: ApiService) -> None:
        act, self.before_write = self.before_write, None
        if act is not None:
            act()
        if self.now is None:
            raise NotFound(404, "NotFound", "no apiservice")
        if seen.metadata.resource_version != self.now.metadata.resource_version:
            raise Conflict(409, "Conflict", "it has changed")

    def touch(self) -> None:
        """Change the version, as another writer would."""
        self._version += 1
        if self.now is not None:
            meta = ObjectMeta(uid=Uid("u"), resource_version=str(self._version))
            self.now = replace(self.now, metadata=meta)
