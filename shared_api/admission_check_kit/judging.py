"""The protocol of an admission check's rule: one required method, and optional ones.

A judge is called on the controller's worker threads, for different units at once, and may block
(other units wait that long for the worker): it may call a service, or the API server. It is called
again whenever the unit or its AdmissionCheck changes, after every restart, and when a verdict
requests it; so it judges the current state, and an unchanged verdict causes no write. It may raise
`ApiFailure` to be called again, with growing pauses; any other exception is logged, counted, and
retried likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from shared_api.admission_check_kit.verdicts import CheckVerdict
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import Handler, InformerSettings
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock


class Activity(msgspec.Struct, frozen=True):
    """Whether a check can be performed; becomes the condition Active of the AdmissionCheck."""

    is_active: bool = True
    reason: str = "Active"
    """One CamelCase word for programs."""
    message: str = "The admission check is active"


ACTIVE: Final = Activity()


@runtime_checkable
class Judge(Protocol):
    """Decides whether units may start."""

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        """Return whether a unit may start.

        Called while the unit is Reserved and its check is Pending or Ready: a Ready check may
        become Pending again while the unit waits for other checks. Two checks of one controller are
        two calls. The unit's pod templates have only the fields that `shared_api.objects.pod`
        declares.

        Raises:
            ApiFailure: The judge cannot decide now; it is called again later.
        """


@runtime_checkable
class JudgesAdmitted(Protocol):
    """A judge that can withdraw its consent after a unit was admitted."""

    def judge_admitted(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict | None:
        """Return whether a unit that has started may continue; called while its check is Ready.

        Retry or Rejected makes the scheduler evict it; None and other verdicts change nothing.
        """


@runtime_checkable
class JudgesChecks(Protocol):
    """A judge whose checks have parameters that may be invalid."""

    def judge_check(self, check: AdmissionCheck) -> Activity:
        """Return whether a check can be performed; may only read, from caches."""


@runtime_checkable
class CleansUpUnits(Protocol):
    """A judge that creates objects for units, and must delete them."""

    def units_to_clean_up(self) -> Collection[str]:
        """Return the keys (`namespace/name`) of the units that have such objects.

        Called when this process begins to judge, to find objects that are no longer needed.
        """

    def clean_up(self, key: str, unit: QueueUnit | None, checks: Collection[str]) -> None:
        """Delete the objects that a unit no longer needs.

        Called at the end of every reconcile of a unit, including units that no longer exist.

        Args:
            key: `namespace/name` of the unit.
            unit: The unit; None if it no longer exists.
            checks: Names of its checks that belong to this controller, in any state.

        Raises:
            ApiFailure: The deletion failed; this is called again later.
        """


class CheckContext(Protocol):
    """What a controller offers to its judge: caches of further kinds, and requeueing."""

    @property
    def client(self) -> ResourceClient:
        """The client of the API server; check `may_write` before each write."""

    @property
    def clock(self) -> Clock:
        """The clock of the process."""

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""

    def follow(
        self,
        versions: Sequence[ResourceType[Any]],
        on_change: Handler[Any],
        *,
        store: IndexedStore[Any] | None = None,
        settings: InformerSettings | None = None,
    ) -> KindWatch[Any]:
        """Keep a cache of a kind, in the first of these versions that is served.

        No unit is judged until the cache is complete, or the kind is known not to be served.

        Args:
            versions: Versions of the kind, the preferred one first.
            on_change: Called for each change, on the cache's thread; must be quick: it queues the
                units or checks that are affected.
            store: The store of the cache, for the judge to read; None: a new one.
            settings: Namespace and selectors; None: all objects.
        """

    def recheck_unit(self, key: str) -> None:
        """Queue a unit, by `namespace/name`, to be judged again."""

    def recheck_check(self, name: str) -> None:
        """Queue an AdmissionCheck, and all units that need it, to be judged again."""

    def recheck_all(self) -> None:
        """Queue all units and checks to be judged again."""


@runtime_checkable
class NeedsContext(Protocol):
    """A judge that follows further kinds, or writes."""

    def attach(self, context: CheckContext) -> None:
        """Receive the context; called once, before anything starts."""
