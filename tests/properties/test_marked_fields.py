"""Each field of an answer that may name a unit is marked, or stands in a table with its reason.

What its marks hide, `test_hidden_names` tries; this table finds a new field that has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import get_annotations
from typing import Final, get_args

from fastapi.routing import APIRoute

from queue_insight.visibility.resources import RESOURCES
from queue_scheduler.debug_api.hiding import marks_of, views_in
from shared_api.debug_api.views import View
from tests.properties.hidden_world import HiddenWorld, open_doors

MAY_NAME: Final = re.compile(
    "(^|_)(names?|namespace|units?|jobs?|pods?|runs?|owner|user|uid|other|victims?|evicts|spared|"
    "behind|starts|head|reason|message|summary|description|detail|text|problems?|next)(_|$)"
)
"""Names of fields that may name units, jobs, namespaces or users, or say something about them."""

UNMARKED: Final = {
    "of the unit that the view is about, and hidden with it": """
        AccountView.user
        EvictorView.name ExplainView.name ExplainView.pods_not_ready ForecastView.name
        JobRow.job JobRow.name JobRow.starts JobRow.user RunningIntoView.name
        UnitAhead.name UnitRun.user UnitView.name UnitView.pods_not_ready UnitView.uid
        UpstreamUnit.name VictimView.name
    """,
    "of the unit that the view stands in": """
        ConsumerView.name PodOnNode.name PodSetView.name ObjectMetaView.name
        ObjectMetaView.namespace ObjectMetaView.uid
    """,
    "of the API server, which answers the caller's own token": """
        EventView.message EventView.reason EventsView.problem ManifestView.problem PodView.message
        PodView.name PodView.reason PodsView.problem
    """,
    "of the unit that the caller asks about, and of queues and quotas": """
        ChangeView.description PatchView.name PatchView.namespace QueueName.name
        QueueName.namespace QuotaName.name QuotaName.namespace SparedView.message
    """,
    "of a manifest that the caller sends": """
        TriedError.message TriedJob.message TriedJob.name TriedJob.unit TriedPodSet.name
        TriedProblem.message
    """,
    "of queues and quotas, which namespaces share": """
        ObjectName.name ObjectName.namespace
        PlaceView.name QueueView.name QueueView.problems QuotaNodeView.name
        QuotaNodeView.namespace QuotaNodeView.problems RefusalView.quota_namespace
    """,
    "of a user or group of whose units the caller may read all": "UserLimitView.name",
    "of accounts whose namespaces the caller may read": """
        BarsView.name FairAccountView.name ReportRow.names
    """,
    "of reservations, which are in the namespace of the queues": """
        ReservationView.name ReservationView.message ReservationView.reason
    """,
    "of policies, which are named to who may read everything": """
        PolicyName.name PolicyName.namespace PolicyValue.text
    """,
    "built of units that the visitor may read": "PageProblem.message PageProblem.next",
    "of a program, a plugin, a queue, a quota, or a reason": """
        PageProblem.name QuotaTreePage.problems RecordSpan.reason RecordView.reason
    """,
    "a word of a fixed list": """
        EvictedView.reason EvictorView.reason JobRow.reason LogEntryView.reason
        RefusalView.reason
        SparedView.reason TriedJob.reason TriedProblem.reason WouldPreemptView.reason
    """,
    "a time": "UnitRow.starts",
    "the caller itself": "SessionView.user",
}
"""Fields without a mark, by the reason for which they need none."""


def reachable_views() -> set[type[View]]:
    """Return the views that an answer of some door may have in it."""
    doors = open_doors(HiddenWorld(0))
    routes = [*doors.debug.routes, *doors.page.routes]
    models = [each.response_model for each in routes if isinstance(each, APIRoute)]
    found: set[type[View]] = set()
    rest: list[object] = [*models, *(each.kind for each in RESOURCES)]
    while rest:
        new = {*views_in(rest.pop())} - found
        found |= new
        rest += [field.annotation for view in new for field in view.model_fields.values()]
    return found


def unmarked_fields() -> Iterator[str]:
    """Yield the fields with texts that may name units and have no mark, by the declaring view."""
    for view in reachable_views():
        marks = marks_of(view)
        for name, field in view.model_fields.items():
            if MAY_NAME.search(name) and has_text(field.annotation) and name not in marks:
                bases = [each for each in view.__mro__ if name in get_annotations(each)]
                yield f"{bases[-1].__name__}.{name}"


def has_text(annotation: object) -> bool:
    """Return whether a value of a type may have a text in it, other views left aside."""
    return annotation is str or any(map(has_text, get_args(annotation)))


def test_every_field_that_may_name_a_unit_is_marked() -> None:
    known = {field for fields in UNMARKED.values() for field in fields.split()}
    found = {*unmarked_fields()}
    assert found - known == set(), "mark these fields, or give a reason in the table"
    assert known - found == set(), "these are marked, renamed or gone"
