"""Why a unit waits, as the debug API explains it: one sentence, and everything in its way."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.insight.explain import scarcest_first
from queue_scheduler.debug_api.hiding import OF_OTHERS, hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from shared_api.well_known_labels import MAX_DEPTH, STOP_POLICY
from tests.properties.engine_kit import wall_time
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit
from tests.reserved_world import build_reservation, build_spec, schedules_at

NOW = wall_time(1_800_000_000)
NEEDS = "needs more cpu than the max of quota team leaves: missing 1 (limit 4, used 3, requested 2)"


@pytest.fixture
def api(kit: ShellKit) -> Answers:
    return Answers(StateAnswers(kit.shared, lambda: True, lambda: NOW))


def reasons(view: ExplainView) -> list[tuple[str, str, str]]:
    return [(each.reason, each.quota, each.resource) for each in view.blockers]


def edit_queue(kit: ShellKit, body: dict[str, Any]) -> None:
    kit.direct.patch("queues", "team", body, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")


def test_a_unit_that_does_not_fit(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    got = api.explain("default", "big")
    assert (got.verdict, got.never_starts, got.position) == ("waiting", False, 1)
    assert reasons(got) == [("OverQuotaMax", "team", "cpu")]
    assert got.summary == f"It waits in queue team, at position 1: {NEEDS}."
    assert got.blockers[0].missing == "1"


def test_all_limits_are_named_not_only_the_first(kit: ShellKit, api: Answers) -> None:
    kit.add_quota("org", 5, is_parent=True)
    kit.add_quota("sub", 4, parent="org")
    kit.add_unit("run", "sub", cpu=3)
    kit.dequeue("sub")
    kit.add_unit("big", "sub", cpu=3)
    got = api.explain("default", "big")
    assert reasons(got) == [("OverQuotaMax", "sub", "cpu"), ("OverParentMax", "org", "cpu")]
    assert got.summary.endswith("(1 more reason).")


def test_a_unit_that_is_larger_than_its_quota_never_starts(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("huge", cpu=9)
    got = api.explain("default", "huge")
    assert (got.verdict, got.never_starts) == ("waiting", True)
    assert reasons(got) == [("ExceedsQuota", "team", "cpu")]
    assert got.summary.endswith("Waiting does not help.")


def reserve(kit: ShellKit, rrule: str = "") -> None:
    """Reserve an hour, an hour from now."""
    reservation = build_reservation(spec=build_spec("2027-01-15T09:00", duration="1h", rrule=rrule))
    schedules = schedules_at(reservation, int(NOW.timestamp()))
    kit.shared.apply(Engine.on_schedules, schedules)
    kit.shared.apply(Engine.on_reservation, reservation)


def test_a_window_is_named_with_the_time_that_would_start(kit: ShellKit, api: Answers) -> None:
    reserve(kit)
    kit.add_unit("long", maximumExecutionTimeSeconds=7200)
    got = api.explain("default", "long")
    assert (got.verdict, got.never_starts) == ("waiting", False)
    assert reasons(got) == [("ReservedFor", "team", "")]
    assert "it would start now if it declares at most 50 min" in got.blockers[0].message


@pytest.mark.parametrize(("hours", "never"), [(22, False), (23, True)])
def test_a_unit_that_is_longer_than_every_gap_never_starts(
    kit: ShellKit, api: Answers, hours: int, *, never: bool
) -> None:
    reserve(kit, "FREQ=DAILY")
    kit.add_unit("long", maximumExecutionTimeSeconds=hours * 3600)
    got = api.explain("default", "long")
    assert got.never_starts is never
    assert got.summary.endswith("Waiting does not help.") is never


def test_the_order_of_a_queue_is_named_beside_the_limits(kit: ShellKit, api: Answers) -> None:
    edit_queue(kit, {"spec": {"queuePolicy": "Block"}})
    kit.add_unit("huge", cpu=5, priority=9)
    kit.add_unit("run", cpu=3, priority=5)
    kit.decide()
    got = api.explain("default", "run")
    assert got.position == 2
    assert reasons(got) == [("BehindRefusedUnit", "team", "")]
    assert got.blockers[0].other == "default/huge"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({STOP_POLICY: "Hold"}, ["StoppedQueue", "OverQuotaMax"], id="stopped"),
        pytest.param({MAX_DEPTH: "1"}, ["OverQuotaMax", "BeyondMaxDepth"], id="beyond its depth"),
    ],
)
def test_what_its_queue_does_is_named_beside_the_limits(
    kit: ShellKit, api: Answers, annotations: dict[str, str], want: list[str]
) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("first", cpu=2, priority=9)
    kit.add_unit("then", cpu=2)
    edit_queue(kit, {"metadata": {"annotations": annotations}})
    assert [each.reason for each in api.explain("default", "then").blockers] == want


@pytest.mark.parametrize(
    ("more", "want", "begin"),
    [
        pytest.param(
            {"active": False}, ["Inactive", "OverQuotaMax"], "It is on hold: is not active",
            id="not active, and it would not fit",
        ),
        pytest.param(
            {"quota": "gone"}, ["NoQuota"], "It is on hold: no quota: gone", id="without a quota",
        ),
        pytest.param(
            {"quota": "gone", "active": False}, ["Inactive", "NoQuota"], "It is on hold: is not",
            id="for two reasons",
        ),
        pytest.param(
            {"quota": "", "queue": "gone"}, ["NoQueue", "NoQuota"],
            "It is on hold: queue gone does not exist in namespace", id="it names a queue alone",
        ),
        pytest.param(
            {"quota": "gone", "queue": "lost"}, ["NoQuota", "NoQueue"],
            "It is on hold: no quota: gone", id="it names both, and neither exists",
        ),
        pytest.param(
            {"quota": "gone", "queue": "gone"}, ["NoQuota"],
            "It is on hold: no quota: gone", id="the queue of its quota is not a second reason",
        ),
    ],
)  # fmt: skip
def test_a_unit_on_hold_has_all_its_reasons(
    kit: ShellKit, api: Answers, more: dict[str, Any], want: list[str], begin: str
) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("held", **{"cpu": 2, **more})
    got = api.explain("default", "held")
    assert (got.verdict, got.position) == ("held", 0)
    assert [each.reason for each in got.blockers] == want
    assert got.summary.startswith(begin)


def test_a_missing_queue_is_named_with_its_namespace_as_a_second_reason_too(
    kit: ShellKit, api: Answers
) -> None:
    kit.add_unit("held", quota="gone", queue="lost")
    kit.add_unit("off", queue="lost", active=False)
    words = f"queue lost does not exist in namespace {QUEUE_NAMESPACE}, or cannot be read"
    for name in ("held", "off"):
        got = api.explain("default", name)
        assert [each.message for each in got.blockers if each.reason == "NoQueue"] == [words]


def test_nothing_in_its_way(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("fits")
    got = api.explain("default", "fits")
    assert got.blockers == []
    assert got.summary == ("It waits in queue team, at position 1, and starts when it is its turn.")


def test_an_admitted_unit_and_the_checks_that_it_waits_for(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("u")
    entry = {"state": "Pending", "message": "", "lastTransitionTime": "2026-11-01T09:00:00Z"}
    entries = [{**entry, "name": "nodes"}, {**entry, "name": "budget", "state": "Ready"}]
    status = {"status": {"phase": "Reserved", "admissionChecks": entries}}
    kit.direct.patch("queueunits", "u", status, namespace="default", subresource="status")
    kit.learn("u")
    got = api.explain("default", "u")
    assert (got.verdict, got.state, got.checks) == (
        "admitted",
        "reserved",
        {"nodes": "Pending"},
    )
    want = "It is reserved: queue team, quota team; admission checks are not ready: nodes."
    assert got.summary == want


def test_a_finished_unit(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("u")
    status = {"status": {"phase": "Succeed"}}
    kit.direct.patch("queueunits", "u", status, namespace="default", subresource="status")
    kit.learn("u")
    got = api.explain("default", "u")
    assert (got.verdict, got.summary) == ("finished", "It has finished.")


def test_units_of_others_are_not_named_to_strangers(kit: ShellKit, api: Answers) -> None:
    edit_queue(kit, {"spec": {"queuePolicy": "Block"}})
    kit.add_unit("huge", cpu=5, priority=9)
    kit.add_unit("run", priority=5)
    kit.decide()
    got = api.explain("default", "run").model_copy(update={"namespace": "theirs"})
    assert "default/huge" in got.summary
    shown = hide(got, lambda namespace: namespace != "default")
    assert "huge" not in shown.model_dump_json()
    assert OF_OTHERS in shown.summary
    assert hide(got, lambda _: True) == got


def test_changes_are_answered_where_they_are_asked_for(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    assert api.explain("default", "big").changes is None
    got = api.explain_with_changes("default", "big", "ann")
    assert got.changes_complete
    assert got.changes is not None
    first = got.changes[0]
    assert (first.kind, first.sufficient) == ("quotaMax", True)
    assert first.patches[0].patch == {"spec": {"max": {"cpu": "5"}}}


def test_a_unit_that_runs_needs_no_change(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    got = api.explain_with_changes("default", "run", "ann")
    assert (got.verdict, got.changes, got.changes_complete) == ("admitted", [], True)


def test_units_of_other_namespaces_are_counted_in_changes(kit: ShellKit, api: Answers) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    got = api.explain_with_changes("default", "big", "ann")
    assert got.changes is not None
    ended = next(each for each in got.changes if each.kind == "unitsEnd")
    assert ended.units == ["default/run"]
    change = ended.model_copy(update={"units": ["default/run", "other/secret"]})
    view = got.model_copy(update={"changes": [change]})
    shown = hide(view, lambda namespace: namespace == "default")
    assert shown.changes is not None
    assert (shown.changes[0].units, shown.changes[0].other_units) == (["default/run"], 1)
    assert "secret" not in shown.model_dump_json()


def short(resource: str, *, left: int, asked: int, reason: Reason | None = None) -> Refusal:
    """Return a refusal for a resource of which a part is left."""
    return Refusal(
        reason=reason or Reason.OVER_QUOTA_MAX,
        quota="a",
        resource=resource,
        limit=10,
        used=10 - left,
        requested=asked,
    )


def test_the_scarcest_resource_comes_first() -> None:
    behind = Refusal(reason=Reason.BEHIND_REFUSED_UNIT, other="ns/x")
    given = (
        short("cpu", left=4, asked=5),
        short("nvidia.com/gpu", left=0, asked=1),
        behind,
        short("memory", left=1, asked=4),
    )
    want = ["nvidia.com/gpu", "memory", "", "cpu"]
    assert [each.resource for each in scarcest_first(given)] == want


def test_what_is_larger_than_a_limit_comes_before_what_is_scarce() -> None:
    given = (
        short("nvidia.com/gpu", left=0, asked=1),
        short("cpu", left=9, asked=11, reason=Reason.EXCEEDS_QUOTA),
    )
    assert [each.resource for each in scarcest_first(given)] == ["cpu", "nvidia.com/gpu"]
