"""Reading and writing objects of the fake API server straight, for arranging and checking tests.

It goes through the same rules as requests (defaults, validation, versions, watches), but not
through faults, and it is not counted. Kinds are named by their plural: "jobs", "queueunits", or
"events.events.k8s.io" where two groups have the same.
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
    """One call per wish; refusals raise the errors of `shared_api.client.errors`."""

    def __init__(
        self, carry_out: Callable[[Request], Response], registry: ResourceRegistry
    ) -> None:
        self._carry_out = carry_out
        self._registry = registry

    def create(self, body: Mapping[str, JsonValue]) -> Body:
        """Create an object and return it. Without a namespace it goes to "default".

        Raises:
            ApiError: it is refused.
        """
        resource = self._registry.of_kind(body["apiVersion"], body["kind"])
        assert resource is not None, f"{body['apiVersion']} {body['kind']} is not served"
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
        return self._ask("POST", _path(resource, namespace), body)

    def create_all(self, bodies: Iterable[Mapping[str, JsonValue]]) -> list[Body]:
        """Create many.

        Raises:
            ApiError: one is refused; those before it are there.
        """
        return [self.create(body) for body in bodies]

    def create_from(self, manifest: Path) -> list[Body]:
        """Create what a YAML file holds, or all `*.yaml` of a folder.

        Raises:
            ApiError: one is refused; those before it are there.
        """
        files = sorted(manifest.glob("*.yaml")) if manifest.is_dir() else [manifest]
        documents = [one for file in files for one in yaml.safe_load_all(file.read_text())]
        return self.create_all(document for document in documents if document)

    def get(self, plural: str, name: str, namespace: str = "") -> Body:
        """Return an object.

        Raises:
            NotFound: there is none.
        """
        return self._ask("GET", self._place(plural, name, namespace))

    def exists(self, plural: str, name: str, namespace: str = "") -> bool:
        """Whether there is such an object."""
        try:
            self.get(plural, name, namespace)
        except NotFound:
            return False
        return True

    def list(self, plural: str, namespace: str = "") -> list[Body]:
        """Return all objects of a kind (in a namespace), sorted by key."""
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
        """Merge a patch into an object and return it.

        Raises:
            ApiError: it is refused, or there is no such object.
        """
        path = self._place(plural, name, namespace)
        path = f"{path}/{subresource}" if subresource else path
        return self._ask("PATCH", path, patch, "application/merge-patch+json")

    def delete(self, plural: str, name: str, namespace: str = "", propagation: str = "") -> None:
        """Delete an object; "" is the kind's own propagation policy.

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
