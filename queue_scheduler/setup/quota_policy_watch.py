"""The cache of QuotaPolicies, while the cluster serves the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from shared_api.client.discovery import RawReader, served_version
from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import QUOTA_POLICIES
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.process.clock import Clock

Handler = Callable[[QuotaPolicy | None, QuotaPolicy | None], None]
UndecodableHandler = Callable[[DecodeFailure], None]

NAME: Final = "QuotaPolicy (scheduling.x-k8s.io)"


class QuotaPolicyWatch:
    """Follows the QuotaPolicies of the namespace of queues (`WritersCache`).

    Without the kind the program works as before; it is found once its CRD is installed.

    Args:
        client: Asked whether the kind is served.
        make_informer: Makes a new informer of the kind.
        start: Starts it.
        clock: The time between two looks.

    Attributes:
        watch: Looks for the kind.
    """

    def __init__(
        self,
        client: RawReader,
        make_informer: Callable[[ResourceType[QuotaPolicy]], SharedInformer[QuotaPolicy]],
        start: Callable[[SharedInformer[QuotaPolicy]], None],
        clock: Clock,
    ) -> None:
        self._make_informer = make_informer
        self._handlers: list[Handler] = []
        self._undecodable_handlers: list[UndecodableHandler] = []
        self.watch: KindWatch[QuotaPolicy] = KindWatch(
            NAME,
            find=lambda: served_version(client, (QUOTA_POLICIES,)),
            make_informer=self._make,
            clock=clock,
            start=start,
            is_expected=False,
        )

    @property
    def informer(self) -> SharedInformer[QuotaPolicy] | None:
        """The present informer; None while the kind is not served."""
        return self.watch.informer

    def add_handler(self, handler: Handler) -> None:
        """Register a handler of policies; call it before the first look."""
        self._handlers.append(handler)

    def add_undecodable_handler(self, handler: UndecodableHandler) -> None:
        """Register a handler of policies that cannot be read; call it before the first look."""
        self._undecodable_handlers.append(handler)

    def undecodable(self) -> Mapping[str, DecodeFailure]:
        """Return the policies whose newest version cannot be read, by key."""
        informer = self.informer
        return {} if informer is None else informer.undecodable()

    def is_readable(self, key: str) -> bool:
        """Return whether the newest version of a policy can be read."""
        informer = self.informer
        return informer is not None and informer.is_readable(key)

    def note_written(self, written: QuotaPolicy) -> object:
        """Store the policy that the server returned."""
        informer = self.informer
        return None if informer is None else informer.note_written(written)

    def check(self) -> tuple[bool, str]:
        """Return (ok, detail) for `/readyz`: limits count from the first decision on."""
        return self.watch.check()

    def _make(self, kind: ResourceType[QuotaPolicy]) -> SharedInformer[Any]:
        informer = self._make_informer(kind)
        for handler in self._handlers:
            informer.add_handler(handler)
        for undecodable_handler in self._undecodable_handlers:
            informer.add_undecodable_handler(undecodable_handler)
        return informer
