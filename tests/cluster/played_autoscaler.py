"""The autoscaler's part in ProvisioningRequests, class by class, as its API documents it.

check-capacity: accepts and looks at what there is, in one write. Found: Provisioned, and kept for
ten minutes, then BookingExpired. Not found: Provisioned False, to be tried again; with the
parameter `noRetry` Failed at once.

best-effort-atomic-scale-up: the same, but it makes nodes; what it could not make is tried again
until `ValidUntilSeconds` have passed, then it is Failed.

queued-provisioning (Google's): all conditions are there from the beginning, False; the details of
the class follow, then Accepted, and Provisioned when the nodes come. BookingExpired ten minutes
later; CapacityRevoked, after that, when the nodes are taken away.

Every answer is an update of the status under the version that was read, of the whole list of
conditions; a condition that is there is replaced. Nothing is accepted whose templates are missing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from shared_api.timestamps import rfc3339
from tests.controlplane.api_client import ApiClient, ApiError

Json = dict[str, Any]

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
QUEUED: Final = "queued-provisioning.gke.io"
NODE_POOL: Final = "NodePoolName"
"""A detail of the queued class."""

REQUESTS: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES: Final = "/api/v1/namespaces/default/podtemplates"

_FOUND: Final = "Capacity is found in the cluster"
_LATER: Final = "Capacity is not found, CA will try to find it later."

_EXPIRED: Final = (
    "BookingExpired",
    "True",
    "CapacityReservationTimeExpired",
    "Capacity reservation time is expired",
)


class PlayedAutoscaler:
    """Answers requests, one word at a time."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def requests_of(self, unit: Json) -> list[Json]:
        """Return the requests that a unit owns, {} none; without those that are being deleted."""
        uid = unit.get("metadata", {}).get("uid")
        return [
            each
            for each in self._api.request("GET", REQUESTS)["items"]
            if each["metadata"]["ownerReferences"][0]["uid"] == uid
            and "deletionTimestamp" not in each["metadata"]
        ]

    def templates_of(self, request: Json) -> list[Json]:
        """Return the pod templates of a request, in order.

        Raises:
            ApiError: One is not there.
        """
        names = (each["podTemplateRef"]["name"] for each in request["spec"]["podSets"])
        return [self._api.request("GET", f"{TEMPLATES}/{name}") for name in names]

    def take_up(self, request: Json, **details: str) -> None:
        """Read what is asked for, and say that it is being worked on."""
        self.templates_of(request)
        if request["spec"]["provisioningClassName"] != QUEUED:
            words = "ProvisioningRequest is accepted by ClusterAutoscaler"
            self._say(request, ("Accepted", "True", "Accepted", words))
            return
        types = ("Accepted", "Provisioned", "Failed")
        self._say(request, *((each, "False", "Initialized", "") for each in types))
        self._say(request, details=details)
        self._say(request, ("Accepted", "True", "SuccessfullyQueued", "It is in the queue"))

    def find_nothing_yet(self, request: Json) -> None:
        """Say that there are no nodes, and that they are looked for again."""
        self._say(request, ("Provisioned", "False", "CapacityIsNotFound", _LATER))

    def provision(self, request: Json) -> None:
        """Say that there are nodes, which are kept from here on."""
        name = request["spec"]["provisioningClassName"]
        reasons = {CHECK_CAPACITY: "CapacityIsFound", ATOMIC_SCALE_UP: "CapacityIsProvisioned"}
        self._say(request, ("Provisioned", "True", reasons.get(name, "Provisioned"), _FOUND))

    def give_up(self, request: Json) -> None:
        """Say that there will be no nodes."""
        if request["spec"].get("parameters", {}).get("noRetry") == "true":
            got = ("CapacityIsNotFound", "CA could not find requested capacity")
        else:
            got = ("Expired", "ProvisioningRequest is expired")
        self._say(request, ("Failed", "True", *got))

    def expire(self, request: Json) -> None:
        """Keep the nodes no longer for pods that have not come."""
        self._say(request, _EXPIRED)

    def revoke(self, request: Json) -> None:
        """Take the nodes away, whoever runs there; nobody's booking outlives that."""
        self._say(request, _EXPIRED, ("CapacityRevoked", "True", "CapacityRevoked", "Reclaimed"))

    def _say(
        self,
        request: Json,
        *said: tuple[str, str, str, str],
        details: dict[str, str] | None = None,
    ) -> None:
        """Replace conditions (type, status, reason, message); again where others have written."""
        path = f"{REQUESTS}/{request['metadata']['name']}"
        while True:
            body = self._api.request("GET", path)
            status = body.setdefault("status", {})
            for each in said:
                _replace(status.setdefault("conditions", []), each, body["metadata"]["generation"])
            if details:
                status["provisioningClassDetails"] = details
            try:
                self._api.request("PUT", f"{path}/status", body)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
            else:
                return


def _replace(conditions: list[Json], said: tuple[str, str, str, str], generation: int) -> None:
    names = ("type", "status", "reason", "message")
    new = {
        **dict(zip(names, said, strict=True)),
        "observedGeneration": generation,
        "lastTransitionTime": rfc3339(datetime.now(UTC)),
    }
    for number, old in enumerate(conditions):
        if old["type"] == new["type"]:
            if [old[name] for name in names] != list(said):
                conditions[number] = new
            return
    conditions.append(new)
