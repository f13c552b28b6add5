"""The ConfigMaps `koord-queue-accounts-0` and on, by number.

Their names are fixed and few, so that a Role can name them: no other ConfigMap is read or written.
"""

from __future__ import annotations

from typing import Any, Final

from shared_api.client.errors import AlreadyExists, ApiFailure, Conflict, NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import CONFIG_MAPS
from shared_api.objects.config_map import ConfigMap

PREFIX: Final = "koord-queue-accounts-"

KEY: Final = "accounts"

_UNKNOWN: Final = "?"
"""In place of a version, after a write whose outcome is unknown."""


def name_of(number: int) -> str:
    """Return the name of a ConfigMap."""
    return f"{PREFIX}{number}"


class AccountConfigMaps:
    """The texts, with the versions in which they were seen last.

    Args:
        client: The way to the API server.
        namespace: The namespace of the queues.

    Attributes:
        namespace: The same.
    """

    def __init__(self, client: ResourceClient, namespace: str) -> None:
        self.namespace = namespace
        self._client = client
        self._versions: dict[int, str] = {}

    def read(self, number: int) -> str | None:
        """Return a text; None if there is no such ConfigMap.

        Raises:
            ApiFailure: It cannot be read.
        """
        try:
            found = self._get(number)
        except NotFound:
            self._versions.pop(number, None)
            return None
        return found.data.get(KEY, "")

    def write(self, number: int, text: str) -> None:
        """Write a text over the version that was seen last.

        If somebody else has written meanwhile, the new version is looked up, and written over by
        the next call.

        Raises:
            ApiFailure: It is not written, or that is unknown.
        """
        version = self._versions.get(number, "")
        if version == _UNKNOWN:
            self.read(number)
            version = self._versions.get(number, "")
        metadata = {"name": name_of(number), "namespace": self.namespace}
        data = {KEY: text}
        body: dict[str, Any]
        # Before the request: whichever way it fails, the server may have carried it out.
        self._versions[number] = _UNKNOWN
        try:
            if version:
                metadata = {"resourceVersion": version}
                body = {"metadata": metadata, "data": data}
                written = self._client.patch(CONFIG_MAPS, self.namespace, name_of(number), body)
            else:
                body = {"metadata": metadata, "data": data, "apiVersion": "v1", "kind": "ConfigMap"}
                written = self._client.create(CONFIG_MAPS, self.namespace, body)
        except (AlreadyExists, Conflict, NotFound):
            self.read(number)
            raise
        self._versions[number] = written.metadata.resource_version

    def _get(self, number: int) -> ConfigMap:
        try:
            found = self._client.get(CONFIG_MAPS, self.namespace, name_of(number))
        except ApiFailure:
            self._versions[number] = _UNKNOWN
            raise
        self._versions[number] = found.metadata.resource_version
        return found
