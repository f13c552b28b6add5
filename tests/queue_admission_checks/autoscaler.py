"""The autoscaler's part, as the API of ProvisioningRequest documents it."""

from __future__ import annotations

from typing import Any, Final, Protocol

from shared_api.fake_api_server.direct_access import DirectAccess

Json = dict[str, Any]

BOOKED_MESSAGE: Final = "Capacity is found in the cluster"


class Cluster(Protocol):
    """Where the autoscaler works: the world of some test."""

    direct: DirectAccess

    def now(self) -> str:
        """The time, as objects carry it."""
        ...


class Autoscaler:
    """Answers requests, one at a time, by conditions; it reads templates when it takes one up."""

    def __init__(self, world: Cluster) -> None:
        self._world = world

    def requests(self) -> list[Json]:
        return self._world.direct.list("provisioningrequests")

    def the_request(self) -> Json:
        """Return the only request there is."""
        (found,) = self.requests()
        return found

    def templates_of(self, request: Json) -> list[Json]:
        """Return the templates of a request, in order; all must be there."""
        namespace = request["metadata"]["namespace"]
        return [
            self._world.direct.get("podtemplates", each["podTemplateRef"]["name"], namespace)
            for each in request["spec"]["podSets"]
        ]

    def accept(self) -> Json:
        """Take the only request up."""
        request = self.the_request()
        self.templates_of(request)
        self._say(request, "Accepted", message="ProvisioningRequest is accepted")
        self._say(request, "Provisioned", status="False", message="Waiting for resources")
        return request

    def estimate(self, message: str) -> None:
        """Say when the nodes may come."""
        self._say(self.the_request(), "Provisioned", status="False", message=message)

    def provision(self, **details: str) -> Json:
        """Have the nodes of the only request."""
        request = self.accept()
        self._say(request, "Provisioned", reason="CapacityIsFound", message=BOOKED_MESSAGE)
        if details:
            self._patch(request, {"provisioningClassDetails": details})
        return request

    def fail(self, message: str = "out of resources in all zones") -> None:
        """Give the only request up."""
        self._say(self.accept(), "Failed", reason="OutOfResources", message=message)

    def expire(self) -> None:
        """Keep the nodes no longer."""
        self._say(self.the_request(), "BookingExpired", message="Capacity reservation expired")

    def revoke(self) -> None:
        """Take the nodes away."""
        self._say(self.the_request(), "CapacityRevoked", message="Capacity was preempted")

    def say(self, request: Json, *condition_types: str) -> None:
        """Set conditions of a request, in this order."""
        for each in condition_types:
            self._say(request, each, message=f"{each} it is")

    def _say(
        self,
        request: Json,
        condition_type: str,
        *,
        status: str = "True",
        reason: str = "Reason",
        message: str,
    ) -> None:
        name, namespace = request["metadata"]["name"], request["metadata"]["namespace"]
        now = self._world.direct.get("provisioningrequests", name, namespace)
        conditions = now.get("status", {}).get("conditions", [])
        said = {"type": condition_type, "status": status, "reason": reason, "message": message}
        said["lastTransitionTime"] = self._world.now()
        kept = [each for each in conditions if each["type"] != condition_type]
        self._patch(request, {"conditions": [*kept, said]})

    def _patch(self, request: Json, status: Json) -> None:
        meta = request["metadata"]
        self._world.direct.patch(
            "provisioningrequests",
            meta["name"],
            {"status": status},
            namespace=meta["namespace"],
            subresource="status",
        )
