"""A mutating webhook for pods, over HTTPS on loopback."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.charts.render import as_manifest
from tests.controlplane.control_plane import ControlPlane
from tests.shared_api.client.scripted_server import (
    CA_PEM,
    PATIENCE_SECONDS,
    Act,
    ScriptedServer,
    Seen,
    answers,
    scripted_server,
)

Json = dict[str, Any]

CREATED_PODS: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["CREATE"],
}
"""The rule of a webhook or policy that is called for each new pod."""

_NAME: Final = "cpu.koord-queue.test"


class PodWebhook:
    """A webhook that changes the cpu request of the first container of each pod.

    Attributes:
        is_answering: While it is not set, no request is answered.
        reviews: The requests of the API server, in order.
    """

    def __init__(self, plane: ControlPlane, server: ScriptedServer) -> None:
        self.is_answering = threading.Event()
        self.reviews: list[Json] = []
        self._plane, self._url = plane, f"https://127.0.0.1:{server.port}"

    def configure(self, team: str, cpu: str, timeout_seconds: int = 30) -> None:
        """Have the API server call it for the pods of a team, which are to request this amount."""
        webhook = {
            "name": _NAME,
            "clientConfig": {"url": f"{self._url}/{cpu}", "caBundle": b64encode(CA_PEM).decode()},
            "rules": [CREATED_PODS],
            "objectSelector": {"matchLabels": {"team": team}},
            "failurePolicy": "Fail",
            "timeoutSeconds": timeout_seconds,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": _NAME},
            "webhooks": [webhook],
        }
        self._plane.kubectl("apply", "--filename", "-", input=as_manifest([body]))

    def remove(self) -> None:
        """Delete its configuration, if there is one."""
        kind = "mutatingwebhookconfiguration"
        self._plane.kubectl("delete", kind, _NAME, "--ignore-not-found")

    def answer(self, request: Seen) -> Act:
        """Return the response to a review, whose path has the amount."""
        review = json.loads(request.body)
        self.reviews.append(review["request"])
        self.is_answering.wait(PATIENCE_SECONDS)
        path, cpu = "/spec/containers/0/resources/requests/cpu", request.target[1:].split("?")[0]
        patch = json.dumps([{"op": "replace", "path": path, "value": cpu}])
        review["response"] = {
            "uid": review.pop("request")["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": b64encode(patch.encode()).decode(),
        }
        return answers(200, json.dumps(review).encode(), content_type="application/json")


@contextmanager
def pod_webhook(plane: ControlPlane) -> Iterator[PodWebhook]:
    """Serve a webhook that answers, and is called once it is configured."""
    with scripted_server(tls=True) as server:
        webhook = PodWebhook(plane, server)
        webhook.is_answering.set()
        server.otherwise = webhook.answer
        try:
            yield webhook
        finally:
            webhook.is_answering.set()
            webhook.remove()
