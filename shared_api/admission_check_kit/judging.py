"""The rule of an admission check, as its controller sees it: one method, and more where wanted.

A judge is called on the controller's worker threads, for different units at once, and may take its
time (other units wait that long for the worker): it may ask a service, or the API server. It is
called again whenever the unit or its AdmissionCheck changes, after every restart, and when a
verdict has asked for it; so it answers by what is now, and an answer that is no news writes
nothing. It may raise `ApiFailure` to be asked again, ever more slowly; any other exception is
logged, counted, and repeated likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from shared_api.admission_check_kit.verdicts import Verdict
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import Handler, InformerSettings
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock


class Activity(msgspec.Struct, frozen=True):
    """Whether a check can be carried out; becomes the condition Active of the AdmissionCheck."""

    is_active: bool = True
    reason: str = "Active"
    """One CamelCase word for programs."""
    message: str = "The admission check is active"


ACTIVE: Final = Activity()


@runtime_checkable
class Judge(Protocol):
    """A rule."""

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> Verdict:
        """Return whether a unit may start.

        Asked while the unit is Reserved and its check Pending or Ready: a check that was Ready may
        be Pending again while the unit waits for others. Two checks of one controller are two
        calls. The unit's pod templates hold what `shared_api.objects.pod` reads, and no more.

        Raises:
            ApiFailure: Nothing is known now; ask again.
        """
        ...


@runtime_checkable
class JudgesAdmitted(Protocol):
    """A judge that can take back what it has granted."""

    def judge_admitted(self, unit: QueueUnit, check: AdmissionCheck) -> Verdict | None:
        """Return whether a unit that was let start may go on; asked while its check is Ready.

        Retry or Rejected makes the scheduler evict it; None and all else change nothing.
        """
        ...


@runtime_checkable
class JudgesChecks(Protocol):
    """A judge whose checks have parameters that may be wrong."""

    def judge_check(self, check: AdmissionCheck) -> Activity:
        """Return whether a check can be carried out; only read, from caches."""
        ...


@runtime_checkable
class LooksAfterUnits(Protocol):
    """A judge that makes objects for units, and has to take them away."""

    def looked_after(self) -> Collection[str]:
        """Return the keys (`namespace/name`) of the units that there are objects for.

        Asked when this process begins to judge, for those of units that need none any more.
        """
        ...

    def look_after(self, key: str, unit: QueueUnit | None, checks: Collection[str]) -> None:
        """Take away what a unit does not need any more.

        Called last in every look at a unit, of units that are no longer there as well.

        Args:
            key: `namespace/name`.
            unit: None: it is gone.
            checks: The names of its checks that are this controller's, in whatever state.

        Raises:
            ApiFailure: It was not done; call again.
        """
        ...


class Surroundings(Protocol):
    """What a controller offers to its judge: further kinds to follow, and news of them."""

    @property
    def client(self) -> ResourceClient:
        """The way to the API server; each write must be covered by `may_write`."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""
        ...

    def follow(
        self,
        versions: Sequence[ResourceType[Any]],
        on_change: Handler[Any],
        *,
        store: IndexedStore[Any] | None = None,
        settings: InformerSettings | None = None,
    ) -> KindWatch[Any]:
        """Keep a cache of a kind, in the first of these versions that is served.

        Nothing is judged until it is complete, or the kind known not to be served.

        Args:
            versions: The best first.
            on_change: Told of each change, on the cache's thread; must be quick: it says which
                units or checks are to be looked at.
            store: The cache; give one to read it.
            settings: Namespace and selectors.
        """
        ...

    def look_at_unit(self, key: str) -> None:
        """Have a unit judged again, by `namespace/name`."""
        ...

    def look_at_check(self, name: str) -> None:
        """Have an AdmissionCheck judged again, and all units that need it."""
        ...

    def look_at_all(self) -> None:
        """Have all units and checks judged again."""
        ...


@runtime_checkable
class NeedsSurroundings(Protocol):
    """A judge that follows further kinds, or writes."""

    def attach(self, around: Surroundings) -> None:
        """Learn what is there; called once, before anything starts."""
        ...
