"""Caches of what the API server applies to pods: limits, runtimes, classes, accounts.

Only rights to read are needed. A kind that may not be read is reported (log, readiness check) and
counts as unknown: it changes no template, and no job is held for it. If the right is revoked after
a kind was read, the kind still changes templates as it last did: to forget a LimitRange would be to
admit too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from queue_controllers.decision.pod_admission import DEFAULT_ACCOUNT, AdmissionObjects
from shared_api.client.resource_types import OnlyMetadata
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.runtime_class import RuntimeClass

BY_NAMESPACE: Final = "namespace"

Check = Callable[[], tuple[bool, str]]

ObjectT = TypeVar("ObjectT", bound=ApiObject)


class AdmissionInformers(msgspec.Struct, frozen=True, kw_only=True):
    """The informers of these kinds."""

    limit_ranges: SharedInformer[LimitRange]
    """Its store has the index `BY_NAMESPACE`."""
    runtime_classes: SharedInformer[RuntimeClass]
    service_accounts: SharedInformer[OnlyMetadata]
    priority_classes: SharedInformer[PriorityClass]

    def by_name(self) -> dict[str, SharedInformer[Any]]:
        """Return all of them, by the plural of the kind."""
        return {
            "limitranges": self.limit_ranges,
            "runtimeclasses": self.runtime_classes,
            "serviceaccounts": self.service_accounts,
            "priorityclasses": self.priority_classes,
        }


class AdmissionCaches:
    """Answers what applies in a namespace; reports which jobs a change concerns.

    Args:
        informers: The informers; their creator starts them.
        on_demand_changed: Called with the namespace, "" for all, whose jobs may ask for something
            else.
        on_names_changed: Called with the namespace in which something that templates name was
            created or deleted.
    """

    def __init__(
        self,
        informers: AdmissionInformers,
        *,
        on_demand_changed: Callable[[str], None],
        on_names_changed: Callable[[str], None],
    ) -> None:
        self._informers = informers
        self._on_demand_changed = on_demand_changed
        self._on_names_changed = on_names_changed
        self._runtimes = _ByName(informers.runtime_classes.store)
        self._classes = _NamesIn(informers.priority_classes.store)
        informers.limit_ranges.add_handler(self.on_limit_range)
        informers.runtime_classes.add_handler(self.on_runtime_class)
        informers.service_accounts.add_handler(self.on_service_account)

    def __call__(self, namespace: str) -> AdmissionObjects:
        """Return what applies in a namespace."""
        informers = self._informers
        ranges = informers.limit_ranges.store.by_index(BY_NAMESPACE, namespace)
        known_accounts = _is_known(informers.service_accounts)
        accounts = _NamesIn(informers.service_accounts.store, f"{namespace}/")
        return AdmissionObjects(
            limit_ranges=tuple(sorted(ranges, key=_name_of)) if ranges else (),
            runtime_classes=self._runtimes if _is_known(informers.runtime_classes) else None,
            priority_classes=self._classes if _is_known(informers.priority_classes) else None,
            service_accounts=accounts if known_accounts else None,
        )

    # --- handlers -------------------------------------------------------------------------------

    def on_limit_range(self, old: LimitRange | None, new: LimitRange | None) -> None:
        """Handle a change of a LimitRange."""
        if (old and old.spec) != (new and new.spec) and (either := new or old):
            self._on_demand_changed(either.metadata.namespace)

    def on_runtime_class(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        """Handle a change of a RuntimeClass."""
        if _effect_of(old) != _effect_of(new):
            self._on_demand_changed("")

    def on_service_account(self, old: OnlyMetadata | None, new: OnlyMetadata | None) -> None:
        """Handle that an account was created or deleted; default accounts do not matter."""
        either = new or old
        is_there_before, is_there = old is not None, new is not None
        if either is None or is_there_before == is_there:
            return
        # The first list has one for each namespace: jobs are reconciled when all caches are
        # complete.
        if (
            either.metadata.name != DEFAULT_ACCOUNT
            and self._informers.service_accounts.has_synced()
        ):
            self._on_names_changed(either.metadata.namespace)

    # --- readiness ------------------------------------------------------------------------------

    def are_ready(self) -> bool:
        """Return whether nothing more can be known now: each is complete, or may not be read."""
        return all(
            each.has_synced() or each.is_forbidden() for each in self._informers.by_name().values()
        )

    def readable(self) -> list[SharedInformer[Any]]:
        """Return the informers that are complete and can be refreshed."""
        return [each for each in self._informers.by_name().values() if _is_known(each)]

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache; one that may not be read is reported, and delays nothing."""
        return {
            f"{name}-synced": _check_of(each) for name, each in self._informers.by_name().items()
        }


def slim_account(account: OnlyMetadata, _before: OnlyMetadata | None = None) -> OnlyMetadata:
    """Return an account as it is kept: there are one or more in each namespace."""
    return OnlyMetadata(metadata=account.metadata.identity())


def namespace_index(found: LimitRange) -> tuple[str, ...]:
    """Return the values of `BY_NAMESPACE`."""
    return (found.metadata.namespace,)


class _NamesIn(Generic[ObjectT]):
    """The names of what is in a store, below a namespace; as a container."""

    def __init__(self, store: IndexedStore[ObjectT], prefix: str = "") -> None:
        self._store, self._prefix = store, prefix

    def __contains__(self, name: object) -> bool:
        return self._store.get(f"{self._prefix}{name}") is not None


class _ByName(Mapping[str, RuntimeClass]):
    """The runtime classes by name, as they are now."""

    def __init__(self, store: IndexedStore[RuntimeClass]) -> None:
        self._store = store

    def __getitem__(self, name: str) -> RuntimeClass:
        found = self._store.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter([each.metadata.name for each in self._store.list()])

    def __len__(self) -> int:
        return len(self._store)


def _is_known(informer: SharedInformer[Any]) -> bool:
    return informer.has_synced() and not informer.is_forbidden()


def _check_of(informer: SharedInformer[Any]) -> Check:
    def check() -> tuple[bool, str]:
        is_synced, detail = informer.check_synced()
        if informer.is_forbidden():
            return True, f"{detail}; jobs go on without what it would say"
        return is_synced, detail

    return check


def _name_of(found: LimitRange) -> str:
    return found.metadata.name


def _effect_of(runtime: RuntimeClass | None) -> tuple[object, ...] | None:
    return None if runtime is None else (runtime.overhead, runtime.scheduling)
