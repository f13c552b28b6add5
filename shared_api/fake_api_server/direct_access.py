"""Direct reads and writes of the fake API server's objects, to set up and check tests.

The same rules apply as to requests (defaults, validation, versions, watches), but no faults happen
and nothing is counted. A kind is given by its plural: "jobs", "queueunits", or
"events.events.k8s.io" where two groups have the same plural. An empty namespace stands for
"default", except in `list`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

from shared_api.client.errors import NotFound, error_of
from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.resource_registry import ResourceRegistry, ServedResource

_FIRST_ERROR: Final = 400


class DirectAccess:
    """Calls that bypass faults; a refusal raises an error of `shared_api.client.errors`."""

    def __init__(
        self, carry_out: Callable[[Request], Response], registry: ResourceRegistry
    ) -> None:
        self._carry_out = carry_out
        self._registry = registry

    def create(self, body: Mapping[str, JsonValue]) -> Body:
        """Create an object and return it as stored.

        Args:
            body: an object with `apiVersion`, `kind`, and `metadata`.

        Raises:
            ApiError: The server refuses it.
        """
        resource = self._registry.of_kind(body["apiVersion"], body["kind"])
        assert resource is not None, f"{body['apiVersion']} {body['kind']} is not served"
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
        return self._ask("POST", _path(resource, namespace), body)

    def create_all(self, bodies: Iterable[Mapping[str, JsonValue]]) -> list[Body]:
        """Create objects in order, and return them as stored.

        Raises:
            ApiError: one is refused; those before it are there.
        """
        return [self.create(body) for body in bodies]

    def create_from(self, manifest: Path) -> list[Body]:
        """Create the objects of a YAML file, or of all `*.yaml` files of a folder, and return them.

        Raises:
            ApiError: one is refused; those before it are there.
        """
        files = sorted(manifest.glob("*.yaml")) if manifest.is_dir() else [manifest]
        documents = [
            one for file in files for one in yaml.load_all(file.read_text(), yaml.CSafeLoader)
        ]
        return self.create_all(document for document in documents if document)

    def get(self, plural: str, name: str, namespace: str = "") -> Body:
        """Return an object.

        Raises:
            NotFound: It does not exist.
        """
        return self._ask("GET", self._place(plural, name, namespace))

    def exists(self, plural: str, name: str, namespace: str = "") -> bool:
        """Return whether an object exists."""
        try:
            self.get(plural, name, namespace)
        except NotFound:
            return False
        return True

    def list(self, plural: str, namespace: str = "") -> list[Body]:
        """Return the objects of a kind by namespace and name; "" stands for all namespaces."""
        found = self._ask("GET", _path(self._resource(plural), namespace))
        items: list[Body] = found["items"]
        return items

    def patch(
        self,
        plural: str,
        name: str,
        patch: Mapping[str, JsonValue],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Body:
        """Apply a JSON merge patch to an object and return it.

        Args:
            plural: the kind.
            name: the object's name.
            patch: the merge patch (RFC 7386).
            namespace: the object's namespace.
            subresource: "status" to patch that; "" for the object.

        Raises:
            ApiError: it is refused, or there is no such object.
        """
        path = self._place(plural, name, namespace)
        path = f"{path}/{subresource}" if subresource else path
        return self._ask("PATCH", path, patch, "application/merge-patch+json")

    def delete(self, plural: str, name: str, namespace: str = "", propagation: str = "") -> None:
        """Delete an object.

        Args:
            plural: the kind.
            name: the object's name.
            namespace: the object's namespace.
            propagation: Background, Foreground, or Orphan; "" for the kind's default policy.

        Raises:
            ApiError: it is refused, or there is no such object.
        """
        body = {"propagationPolicy": propagation} if propagation else {}
        self._ask("DELETE", self._place(plural, name, namespace), body)

    def _resource(self, plural: str) -> ServedResource:
        resource = self._registry.named(plural)
        assert resource is not None, f"{plural} is not served"
        return resource

    def _place(self, plural: str, name: str, namespace: str) -> str:
        resource = self._resource(plural)
        return f"{_path(resource, namespace or 'default')}/{name}"

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, JsonValue] | None = None,
        content_type: str = "application/json",
    ) -> Body:
        encoded = b"" if body is None else msgspec.json.encode(body)
        headers = (("content-type", content_type),)
        response = self._carry_out(Request(method, path, headers=headers, body=encoded))
        if response.status >= _FIRST_ERROR:
            raise error_of(response.status, response.headers, response.body)
        answer: Body = msgspec.json.decode(response.body)
        return answer


def _path(resource: ServedResource, namespace: str) -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    where = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
    return f"{root}/{resource.version}{where}/{resource.plural}"
