"""What other programs say about a job in events: read once if a job has no pods.

What refuses a job's pods (admission, a missing service account, a quota of the namespace) answers
only the controller that creates them, which records an event on the job. Events are many and mostly
irrelevant, so they are not watched: the newest warning is read by the job's uid when it is needed.
The server scans all events of the namespace for it; the request is one of low priority, and asks
for few.

Operators that create their pods by a job of another kind (a JobSet by Jobs) have the event on that
one. So if a job has none, its children are read, as far as the caches know them, and theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

import structlog

from shared_api.client.errors import ApiFailure, Forbidden
from shared_api.client.flow_control import Lane
from shared_api.client.resource_client import Page, ResourceType
from shared_api.objects.meta import NO_TIME, ObjectMeta, Timestamp, WireStruct
from shared_api.timestamps import MAX_CLOCK_SKEW, read_time

MAX_EVENTS: Final = 100
"""About one job in an hour; client-go's spam filter lets 25 in a row pass for each program."""

MAX_CHILDREN: Final = 3
"""Children whose events are read in addition: a TrainJob has a JobSet, and that a Job. The first of
many equal children say the same as the others."""

MAX_WHY_CHARS: Final = 300
"""How much is reported of an event: it begins with what is refused, and by what."""

OURS: Final = "koord-queue/"
"""How the programs of this project name themselves in events."""

NOT_TO_BE_READ: Final = (
    'why stands in its events, which the controllers may not read: they need the right to "list"'
    " events"
)

log = structlog.get_logger("event_lookup")


class EventSeries(WireStruct, frozen=True):
    """How often an event was seen."""

    last_observed_time: Timestamp = NO_TIME


class JobEvent(WireStruct, frozen=True):
    """An event (core/v1), as far as it is read; those of events.k8s.io/v1 are the same objects."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    reason: str = ""
    message: str = ""
    reporting_component: str = ""
    last_timestamp: Timestamp | None = None
    event_time: Timestamp | None = None
    series: EventSeries | None = None

    @property
    def seen_at(self) -> str:
        """When it was last seen."""
        series = "" if self.series is None else self.series.last_observed_time
        times = (series, self.last_timestamp, self.event_time, self.metadata.creation_timestamp)
        return max(each or "" for each in times)


JOB_EVENTS: Final = ResourceType("", "v1", "events", "Event", namespaced=True, object_type=JobEvent)
"""Only in this group can they be selected by the uid of the object that they are about."""


class EventClient(Protocol):
    """What is used of the `ResourceClient`."""

    def list_page(
        self,
        resource_type: ResourceType[JobEvent],
        *,
        namespace: str = "",
        field_selector: str = "",
        limit: int = MAX_EVENTS,
        lane: Lane = Lane.LOW,
    ) -> Page[JobEvent]:
        """Return one page of a list; raises ApiFailure."""


class EventReader:
    """Reads events for the reconcilers; called on all of their threads.

    Args:
        client: Reads them.
        children_of: The jobs that a job controls, each as (kind, job), by name.
    """

    def __init__(
        self,
        client: EventClient,
        children_of: Callable[[ObjectMeta], Sequence[tuple[str, ObjectMeta]]] = lambda _: (),
    ) -> None:
        self._client = client
        self._children_of = children_of

    def __call__(self, job: ObjectMeta, since: datetime | None) -> str:
        """Return the newest warning of others about a job, "" without one; never raises.

        If the job has none, that of the first of its children that has one, with its name.

        Args:
            job: What it is about.
            since: The job's release; None: of any time. Clocks of other programs may be behind.
        """
        if why := self._newest(job, since):
            return why
        children = [*self._children_of(job)[:MAX_CHILDREN]]
        for kind, child in children:  # grows by their children
            if why := self._newest(child, since):
                return shorten(f"{kind} {child.name}: {why}")
            room = MAX_CHILDREN - len(children)
            children += self._children_of(child)[:room] if room > 0 else ()
        return ""

    def _newest(self, job: ObjectMeta, since: datetime | None) -> str:
        selector = f"involvedObject.uid={job.uid},type=Warning"
        try:
            page = self._client.list_page(
                JOB_EVENTS,
                namespace=job.namespace,
                field_selector=selector,
                limit=MAX_EVENTS,
                lane=Lane.LOW,
            )
        except Forbidden:
            log.warning("events may not be read", job=job.key)
            return NOT_TO_BE_READ
        except ApiFailure as failure:
            log.warning("events could not be read", job=job.key, error=str(failure))
            return ""
        read = (each for each in page.items if isinstance(each, JobEvent))
        found = [each for each in read if _counts(each, since)]
        if not found:
            return ""
        newest = max(found, key=lambda each: (each.seen_at, each.metadata.name))
        return shorten(f"{newest.reason}: {newest.message}")


def _counts(event: JobEvent, since: datetime | None) -> bool:
    """Return whether an event is another program's, and about this release of its job."""
    if event.reporting_component.startswith(OURS):
        return False
    seen_at = read_time(event.seen_at)
    return since is None or seen_at is None or seen_at >= since - MAX_CLOCK_SKEW


def shorten(text: str) -> str:
    """Return a text in one line of at most `MAX_WHY_CHARS`."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_WHY_CHARS else text[: MAX_WHY_CHARS - 3] + "..."
