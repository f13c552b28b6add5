"""The kinds of the aggregated API: their fields, and how they are read from what is known.

Each answer is what the debug API answers, in the form of an object.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from pydantic import Field

from queue_insight.api_registration.api_service import GROUP, VERSION
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.forecast_routes import ForecastView, Start
from queue_insight.debug_api.try_views import TryView
from queue_scheduler.debug_api.views import ConsumerView, RefusalView, UnitView
from shared_api.debug_api.views import View

API_VERSION: Final = f"{GROUP}/{VERSION}"


def _described(text: str, **more: Any) -> Any:  # noqa: ANN401 - pydantic's own type
    return Field(description=text, **more)


class ObjectMetaView(View):
    """Name and namespace of a unit are those of its QueueUnit."""

    name: str = _described("Name of the object.", default="")
    namespace: str = _described("Its namespace.", default="")
    uid: str = _described("UID of the QueueUnit.", default="")
    creation_timestamp: str | None = _described("When the QueueUnit was created.", default=None)


class ListMetaView(View):
    """What is said of a page."""

    continue_: str = _described(
        "Asks for the next page, for two minutes; empty on the last one.",
        default="",
        alias="continue",
    )
    remaining_item_count: int | None = _described("How many units follow this page.", default=None)


class KindView(View):
    """An object; `KIND` is its kind."""

    KIND: ClassVar[str] = ""

    kind: str = _described("The kind of the object.")
    api_version: str = _described("Group and version of the kind.", default=API_VERSION)


class PendingUnitSpec(View):
    """What a unit waits for."""

    queue: str = _described("The queue that the unit waits in, or names.")
    quota: str = _described("The quota that it will be charged to; empty if that is not known.")
    priority: int = _described("The priority that counts in its queue.")
    job: ConsumerView = _described("The job behind the unit.")
    demand: dict[str, str] = _described("What it requests in all, by resource.")


class PendingUnitStatus(View):
    """Where a unit stands."""

    position: int = _described("Its place in its queue, from 1; 0: it is on hold, and in no queue.")
    scheduler_state: str = _described("Its state in the scheduler: waiting, held or conflict.")
    refusal: RefusalView | None = _described("Why it waits, with the numbers.", default=None)
    start_p50: str | None = _described(
        "When it starts by the last forecast (median); null without one.", default=None
    )
    no_start: str = _described("Why no start is told although it waits; else empty.", default="")


class PendingUnit(KindView):
    """A unit that waits: the claim of one job that has not started."""

    KIND = "PendingUnit"

    kind: str = _described("The kind of the object.", default=KIND)
    metadata: ObjectMetaView = _described("Which unit this is.")
    spec: PendingUnitSpec = _described("What it waits for.")
    status: PendingUnitStatus = _described("Where it stands.")

    @classmethod
    def build(cls, view: UnitView, start: Start) -> PendingUnit:
        """Return a unit as the debug API has it; `start`: its median start, or why none."""
        return cls(
            metadata=ObjectMetaView(
                name=view.name,
                namespace=view.namespace,
                uid=view.uid,
                creation_timestamp=view.created or None,
            ),
            spec=PendingUnitSpec(
                queue=view.queue,
                quota=view.quota,
                priority=view.priority,
                job=view.job,
                demand=view.demand,
            ),
            status=PendingUnitStatus(
                position=view.position,
                scheduler_state=view.scheduler_state,
                refusal=view.refusal,
                start_p50=start.p50,
                no_start=start.none,
            ),
        )


class PendingUnitList(KindView):
    """A page of units that wait: by queue, in the order of each, then those on hold by name."""

    KIND = "PendingUnitList"

    kind: str = _described("The kind of the object.", default=KIND)
    metadata: ListMetaView = _described("What follows this page.")
    items: list[PendingUnit] = _described("The units.")
    others: int = _described(
        "How many units of a queue's line are left out, in namespaces that you may not read. A "
        "field selector does not change it.",
        default=0,
    )


class UnitExplanation(KindView):
    """Why a unit waits, or what it was admitted on."""

    KIND = "UnitExplanation"

    kind: str = _described("The kind of the object.", default=KIND)
    metadata: ObjectMetaView = _described("Which unit this is about.")
    status: ExplainView = _described("The explanation.")


class UnitForecast(KindView):
    """When a unit that waits starts and ends."""

    KIND = "UnitForecast"

    kind: str = _described("The kind of the object.", default=KIND)
    metadata: ObjectMetaView = _described("Which unit this is about.")
    status: ForecastView = _described("The forecast.")


class Try(KindView):
    """What becomes of a manifest, were it submitted now. Nothing is created."""

    KIND = "Try"

    kind: str = _described("The kind of the object.", default=KIND)
    metadata: ObjectMetaView = _described("The namespace of objects that name none.")
    status: TryView = _described("What becomes of each job.")


class ApiResource(NamedTuple):
    """One resource, or subresource, of the group.

    Attributes:
        name: Plural name; with a subresource, both with a slash.
        kind: What is answered.
        verbs: What can be asked.
        singular: Singular name; "" for a subresource.
        short_names: Short names for kubectl.
        is_namespaced: Whether it is in namespaces.
    """

    name: str
    kind: type[KindView]
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    is_namespaced: bool = True


PENDING_UNITS: Final = "pendingunits"
QUEUES: Final = "queues"
TRIES: Final = "tries"

RESOURCES: Final = (
    ApiResource(
        PENDING_UNITS,
        PendingUnit,
        ("get", "list"),
        singular="pendingunit",
        short_names=("pu",),
    ),
    ApiResource(f"{PENDING_UNITS}/explain", UnitExplanation, ("get",)),
    ApiResource(f"{PENDING_UNITS}/forecast", UnitForecast, ("get",)),
    # Without `queues` itself: `kubectl get queues` is to find the Queue objects.
    ApiResource(f"{QUEUES}/{PENDING_UNITS}", PendingUnitList, ("get",), is_namespaced=False),
    ApiResource(TRIES, Try, ("create",), singular="try"),
)
