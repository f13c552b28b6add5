"""Where the objects of a kind are in the API, by discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing, NotServed
from shared_api.client import resource_types

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster
    from shared_api.client.resource_client import ResourceType

ObjectT = TypeVar("ObjectT")


class ItemList(msgspec.Struct, Generic[ObjectT]):
    """A list of objects, or a page of one."""

    items: list[ObjectT] = []


class Resource(NamedTuple):
    """A kind that the server has.

    Attributes:
        group: "" for the core group.
        plural: As in paths.
    """

    group: str
    version: str
    plural: str
    is_namespaced: bool = True

    def shown(self, kind: str, name: str) -> str:
        """Return an object as kubectl prints it: `job.batch/train`."""
        group = f".{self.group}" if self.group else ""
        return f"{kind.lower()}{group}/{name}"

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of all without a name."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [base + where, self.plural, name, subresource]
        return "/".join(part for part in parts if part)


def _of(known: ResourceType[Any]) -> Resource:
    """Return a kind that the programs read as well; its paths are escaped when they are sent."""
    return Resource(known.group, known.version, known.plural, known.namespaced)


QUEUE_UNITS: Final = _of(resource_types.QUEUE_UNITS)
QUEUES: Final = _of(resource_types.QUEUES)
QUOTA_POLICIES: Final = _of(resource_types.QUOTA_POLICIES)
QUEUE_RESERVATIONS: Final = _of(resource_types.QUEUE_RESERVATIONS)
ELASTIC_QUOTAS: Final = _of(resource_types.ELASTIC_QUOTAS)
ELASTIC_QUOTA_TREES: Final = _of(resource_types.ELASTIC_QUOTA_TREES)
RESOURCE_QUOTAS: Final = _of(resource_types.RESOURCE_QUOTAS)
NODES: Final = _of(resource_types.NODES)
NAMESPACES: Final = _of(resource_types.NAMESPACES)
LEASES: Final = _of(resource_types.LEASES)
PODS: Final = _of(resource_types.PODS)


class _Served(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True


class _List(msgspec.Struct):
    resources: list[_Served] = []


class Resources:
    """What a server has; each group is asked for once.

    Attributes:
        cluster: The API server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._served: dict[str, list[_Served]] = {}

    def find(self, api_version: str, kind: str) -> Resource:
        """Return where the objects of a kind are.

        Raises:
            Missing: The server has no such kind.
            CommandError: It could not be asked.
        """
        group, _, version = api_version.rpartition("/")
        if api_version not in self._served:
            path = f"/apis/{api_version}" if group else f"/api/{version}"
            self._served[api_version] = self._ask(path)
        for each in self._served[api_version]:
            if each.kind == kind and "/" not in each.name:
                return Resource(group, version, each.name, each.namespaced)
        raise Missing(
            f"the server has no kind {kind} in {api_version}",
            "Is its CRD installed? `kubectl api-resources` lists all kinds.",
        )

    def _ask(self, path: str) -> list[_Served]:
        try:
            body = self.cluster.get(path)
            return msgspec.json.decode(body, type=_List).resources
        except (Missing, NotServed):
            return []
        except msgspec.DecodeError as error:
            raise CommandError(f"the answer to discovery cannot be read: {error}") from error
