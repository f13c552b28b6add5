"""Reads the namespaces that a manifest names, from the API server."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from queue_insight.visibility.statuses import StatusError
from shared_api.client.errors import ApiFailure, NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import NAMESPACES
from shared_api.objects.namespace import Namespace


def namespace_reader(client: ResourceClient) -> Callable[[str], Namespace | None]:
    """Return a function that reads a namespace; None if there is none of this name.

    It raises StatusError (503) if the API server does not say.
    """

    def read(name: str) -> Namespace | None:
        try:
            return client.get(NAMESPACES, "", name)
        except NotFound:
            return None
        except ApiFailure as failure:
            message = f"namespace {name} could not be read: {failure}"
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, message) from failure

    return read
