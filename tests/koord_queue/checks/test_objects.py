from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.facts import Answer
from koord_queue.checks.objects import QUOTA_GROUP_VERSION
from tests.koord_queue.checks.healthy import (
    Json,
    ago,
    condition,
    deployment,
    finding_texts,
    found,
    listed,
    named,
)


def kinds(*plurals: str) -> dict[str, Answer]:
    return {QUOTA_GROUP_VERSION: Answer({"resources": [{"name": each} for each in plurals]})}


OPEN = "; any namespace may name each (quotaNamespaces is open)"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, f"ok: 1 ElasticQuota{OPEN}", id="there are some"),
        pytest.param(
            {"deployments": listed(deployment("scheduler", "--quota-namespaces=listed"))},
            "ok: 1 ElasticQuota",
            id="quotas or namespaces list the other",
        ),
        pytest.param(
            {"config_maps": listed(named("c", data={"a": "x: 1\nquotaNamespaces: listed\n"}))},
            "ok: 1 ElasticQuota",
            id="a file says so",
        ),
        pytest.param(
            {"config_maps": listed(named("c", data={"a": "quotaNamespaces: open\n"}))},
            f"ok: 1 ElasticQuota{OPEN}",
            id="a file says that any may",
        ),
        pytest.param(
            {"deployments": listed()}, "ok: 1 ElasticQuota", id="a scheduler of another origin"
        ),
        pytest.param(
            {"quotas": Answer({"metadata": {"continue": "x"}, "items": [named("a")]})},
            f"ok: 1 ElasticQuotas or more{OPEN}",
            id="more than one page",
        ),
        pytest.param(
            {"quotas": listed()},
            "warning: there is no ElasticQuota: units that name none wait with NoQuota",
            id="none",
        ),
        pytest.param(
            {"quotas": Answer(right="list elasticquotas")},
            "unknown: they cannot be listed: you may not list elasticquotas",
            id="no right",
        ),
        pytest.param(
            {"served": kinds("elasticquotatrees")},
            f"ok: ElasticQuotaTrees are served{OPEN}",
            id="trees",
        ),
        pytest.param(
            {"served": kinds(), "config_maps": listed(named("c", data={"a": "- ResourceQuota"}))},
            "ok: the scheduler reads ResourceQuotas",
            id="ResourceQuotas",
        ),
        pytest.param(
            {"served": kinds()},
            "problem: neither ElasticQuota nor ElasticQuotaTree is served: every unit waits",
            id="no kind of quota",
        ),
        pytest.param({"served": {}}, "unknown: which kinds are served: not asked", id="not asked"),
    ],
)
def test_quotas_of_some_kind_are_needed(changes: dict[str, Any], want: str) -> None:
    assert finding_texts("quotas", **changes) == [want]


def queue(*conditions: Json, namespace: str = "koord-queue", created: str = "") -> Json:
    one = named("q", namespace, status={"conditions": list(conditions)})
    one["metadata"]["creationTimestamp"] = created
    return one


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(
            queue(condition("Ready", "True")), ["ok: 1 queue, none has a problem"], id="it is ready"
        ),
        pytest.param(
            queue(condition("Ready", "False", "NoQuota", "none fits")),
            ["problem: queue q is not ready: NoQuota: none fits"],
            id="it admits nothing",
        ),
        pytest.param(
            queue(condition("Ready", "False", "Stopped", "held")),
            ["warning: queue q is not ready: Stopped: held"],
            id="it was stopped, which somebody wanted",
        ),
        pytest.param(
            queue(created=ago(minutes=2)),
            ["problem: queue q has no status: no scheduler sees it"],
            id="no scheduler sees it",
        ),
        pytest.param(
            queue(created=ago(seconds=10)),
            ["ok: 1 queue, none has a problem"],
            id="it is just created",
        ),
        pytest.param(
            queue(namespace="team-a"),
            ["warning: team-a/q: queues count only in namespace koord-queue"],
            id="in another namespace",
        ),
    ],
)
def test_queues_that_admit_nothing_are_named(one: Json, want: list[str]) -> None:
    assert finding_texts("queues", queues=listed(one)) == want


def policy(*conditions: Json, namespace: str = "koord-queue") -> Json:
    return named("p", namespace, status={"conditions": list(conditions)})


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(
            policy(condition("Ready", "True")),
            "ok: 1 QuotaPolicy object, none has a problem",
            id="it is ready",
        ),
        pytest.param(
            policy(condition("Ready", "False", "Conflict", "quota a: another counts")),
            "warning: quota policy p is not ready: Conflict: quota a: another counts",
            id="it does not count as it says",
        ),
        pytest.param(
            policy(namespace="team-a"),
            "warning: team-a/p: quota policies count only in namespace koord-queue",
            id="in another namespace",
        ),
    ],
)
def test_policies_that_do_not_count_are_named(one: Json, want: str) -> None:
    assert finding_texts("limits", quota_policies=listed(one)) == [want]


def test_policies_that_may_not_be_listed_are_unknown() -> None:
    refused = Answer(right="list quotapolicies")
    assert finding_texts("limits", quota_policies=refused) == [
        "unknown: they cannot be listed: you may not list quotapolicies"
    ]


def test_reservations_that_do_not_count_are_named() -> None:
    bad = policy(condition("Ready", "False", "NoWindow", "its last window is over"))
    assert finding_texts("windows", queue_reservations=listed(bad)) == [
        "warning: reservation p is not ready: NoWindow: its last window is over"
    ]
    good = policy(condition("Ready", "True"))
    assert finding_texts("windows", queue_reservations=listed(good)) == [
        "ok: 1 QueueReservation object, none has a problem"
    ]


def unit(name: str, *conditions: Json) -> Json:
    status = {"conditions": list(conditions), "admissions": [{"name": "main", "replicas": 1}]}
    return named(name, "team-a", status=status)


def waiting(name: str, reason: str, status: str = "False") -> Json:
    return unit(name, condition("QuotaReserved", status, reason))


def admitted(reason: str, status: str = "False", since: str | None = None) -> Json:
    ready = condition("PodsReady", status, reason, lastTransitionTime=since or ago(minutes=6))
    return unit("u", condition("Admitted", "True"), ready)


NONE_TO_ACT = "ok: 1 unit, none waits until somebody acts"


@pytest.mark.parametrize(
    ("units", "want"),
    [
        pytest.param([waiting("u", "OverQuotaMax")], NONE_TO_ACT, id="a reason that passes"),
        pytest.param(
            [waiting("u", "NoQuota")],
            "warning: 1 unit waits with NoQuota: team-a/u",
            id="a reason to act on",
        ),
        pytest.param(
            [waiting(f"u{number}", "NoQuota") for number in range(5)],
            "warning: 5 units wait with NoQuota: team-a/u0, team-a/u1, team-a/u2 and 2 more",
            id="many with one reason",
        ),
        pytest.param([waiting("u", "NoQuota", "True")], NONE_TO_ACT, id="it waits no longer"),
        pytest.param(
            [admitted("NoPods", "True")],
            "warning: admitted for more than 5 minutes, NoPods: team-a/u",
            id="its pods are gone",
        ),
        pytest.param(
            [admitted("PodsPending")],
            "warning: admitted for more than 5 minutes, PodsPending: team-a/u",
            id="its pods do not run",
        ),
        pytest.param(
            [admitted("PodsPending", since=ago(minutes=4))], NONE_TO_ACT, id="not for long yet"
        ),
        pytest.param([admitted("PodsRunning", "True")], NONE_TO_ACT, id="its pods run"),
    ],
)
def test_units_that_need_somebody_are_named(units: list[Json], want: str) -> None:
    assert finding_texts("units", units=listed(*units)) == [want]


def test_a_unit_that_needs_somebody_is_explained() -> None:
    [got] = found("units", units=listed(waiting("u", "NoQuota")))
    assert got.fix.startswith("koord-queue explain unit/u -n team-a;")


def test_units_that_were_not_looked_at_are_said_to_be_unknown() -> None:
    cut = Answer({"metadata": {"continue": "x"}, "items": [waiting("u", "NoQuota")]})
    assert finding_texts("units", units=cut)[1] == "unknown: only the first 1 were looked at"
    assert finding_texts("units", units=Answer(right="list queueunits"))[0].startswith("unknown")


def event(reason: str, by: str = "koord-queue/scheduler") -> Json:
    about = {"kind": "Queue", "namespace": "koord-queue", "name": "q"}
    return {"reason": reason, "note": "no", "regarding": about, "reportingController": by}


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param(
            [event("UnreadableAnnotation"), event("UnreadableAnnotation")],
            "warning: Queue koord-queue/q: UnreadableAnnotation: no",
            id="one of Koord-Queue, told twice",
        ),
        pytest.param(
            [event("UnreadableAnnotation", by="other")],
            "ok: the last hour has no event of an object that cannot be read",
            id="one of another program",
        ),
        pytest.param(
            [event("Preempted")],
            "ok: the last hour has no event of an object that cannot be read",
            id="one about something else",
        ),
    ],
)
def test_objects_that_cannot_be_read_have_events(events: list[Json], want: str) -> None:
    assert finding_texts("objects", events=listed(*events)) == [want]
