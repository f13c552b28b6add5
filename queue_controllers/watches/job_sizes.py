"""How many pods jobs have that are made of pods: watched, where an object of another kind says it.

A StatefulSet that waits is scaled, and none of its pods changes: its controller creates the second
when the first one runs. So the objects are watched, all of a kind where its extension is on, and
kept as uid, generation and size. Their kinds may be missing, or come and go. Where one is not
watched, or may not be, it is read with a job (`related_objects`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from queue_controllers.job_families.gated_pods import Sizer, SizingKind
from queue_controllers.watches.informers import InformerFactory
from queue_controllers.watches.owner_lookup import Remembered
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import POLL_SECONDS, KindWatch
from shared_api.informer.shared_informer import SharedInformer

Check = Callable[[], tuple[bool, str]]

FORBIDDEN: Final = "; they are read one by one, and a change of size is seen within a minute"


class JobSizes:
    """The objects by which jobs are sized; reads from any thread.

    Args:
        informers: Creates and starts the watches.
        kinds: Their kinds.
        on_resized: Called with an object that is new, is gone, or says another size, and with its
            namespace.
    """

    def __init__(
        self,
        informers: InformerFactory,
        kinds: Iterable[SizingKind],
        *,
        on_resized: Callable[[Sizer, str], None],
    ) -> None:
        self._on_resized = on_resized
        self._stores: dict[SizingKind, IndexedStore[Any]] = {
            kind: IndexedStore(transform=slim_size) for kind in kinds
        }
        self._watches = {
            kind: self._follow(informers, kind, store) for kind, store in self._stores.items()
        }
        # An object that was deleted says the size of what is left of its job.
        self._gone: Remembered[tuple[SizingKind, str], Any] = Remembered()

    @property
    def watches(self) -> tuple[KindWatch[Any], ...]:
        """The watches, one for each kind."""
        return tuple(self._watches.values())

    def __len__(self) -> int:
        return sum(map(len, self._stores.values()))

    def get(self, sizer: Sizer, namespace: str) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the object as it was seen last; None: it is not watched (yet), or is not there."""
        watch = self._watches.get(sizer.kind)
        if watch is None or watch.informer is None or not watch.informer.has_synced():
            return None
        key = f"{namespace}/{sizer.name}"
        found = self._stores[sizer.kind].get(key)
        return self._gone.get((sizer.kind, key)) if found is None else found

    def step(self) -> float:
        """Check which of the kinds are served; return seconds to the next check."""
        return min([each.step() for each in self.watches], default=POLL_SECONDS)

    # --- readiness ------------------------------------------------------------------------------

    def are_ready(self) -> bool:
        """Return whether nothing more can be known now: each is complete, missing, or forbidden."""
        return all(each.is_ready() or _is_forbidden(each) for each in self.watches)

    def readable(self) -> list[SharedInformer[Any]]:
        """Return the informers that are complete and can be refreshed."""
        found = (each.informer for each in self.watches if not _is_forbidden(each))
        return [each for each in found if each is not None and each.has_synced()]

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per kind; one that may not be read is reported, and delays nothing."""
        return {
            f"sizes-{kind.plural}.{kind.group}-synced": _check_of(watch)
            for kind, watch in self._watches.items()
        }

    # --- changes --------------------------------------------------------------------------------

    def _follow(
        self, informers: InformerFactory, kind: SizingKind, store: IndexedStore[Any]
    ) -> KindWatch[Any]:
        def on_change(old: Any | None, new: Any | None) -> None:  # noqa: ANN401 - of any kind
            self._on_change(kind, old, new)

        resource_type: ResourceType[Any] = ResourceType(
            kind.group,
            kind.version,
            kind.plural,
            kind.kind,
            namespaced=True,
            object_type=kind.object_type,
        )
        return informers.follow(
            resource_type,
            store,
            on_made=lambda informer: informer.add_handler(on_change),
        )

    def _on_change(self, kind: SizingKind, old: Any | None, new: Any | None) -> None:  # noqa: ANN401 - of any kind
        either = new if new is not None else old
        if either is None:
            return
        if new is None:
            self._gone.put((kind, either.metadata.key), either)
        if old is not None and new is not None:
            is_same = bool(old.metadata.uid == new.metadata.uid)
            if is_same and old.spec == new.spec:
                return
        self._on_resized(Sizer(kind, either.metadata.name), either.metadata.namespace)


def slim_size(found: Any, _before: Any | None = None) -> Any:  # noqa: ANN401 - of any kind
    """Return an object as it is kept: there may be very many that no queue knows of."""
    return msgspec.structs.replace(found, metadata=found.metadata.identity())


def _is_forbidden(watch: KindWatch[Any]) -> bool:
    return watch.informer is not None and watch.informer.is_forbidden()


def _check_of(watch: KindWatch[Any]) -> Check:
    def check() -> tuple[bool, str]:
        is_synced, detail = watch.check()
        return (True, detail + FORBIDDEN) if _is_forbidden(watch) else (is_synced, detail)

    return check
