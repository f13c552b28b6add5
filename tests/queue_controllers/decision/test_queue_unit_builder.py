"""The fields of a job's unit, and which changes of the job it follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.queue_unit_builder import (
    build_sync,
    build_unit,
    choose_unit_name,
    priority_of_job,
    why_other_priority,
)
from queue_controllers.jobframework.generic_job import (
    JobFacts,
    JobPodSet,
    PrioritySource,
)
from queue_controllers.jobframework.pod_set_names import pod_set_name
from shared_api.objects.meta import Timestamp, Uid
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.well_known_labels import (
    CHECKPOINTED_AT,
    GATED_BY,
    KUEUE_GATED_BY,
    PRIORITY_BOOST,
    RELEASED_AT,
    SUSPEND,
    TOUCHED_AT,
)
from tests.job_situations import CONTEXT, JOB, facts, made, pod_set

QUOTA = "quota.scheduling.koordinator.sh/name"
PRIORITY = "scheduling.x-k8s.io/priority"


def job(*pod_sets: JobPodSet, suffix: str = "", **changes: Any) -> JobFacts:
    """Return a job whose units' names end with this suffix."""
    kind = msgspec.structs.replace(JOB, name_suffix=suffix)
    uid, created = Uid("0a1b2c3d-4e5f"), Timestamp("2026-11-01T10:00:00Z")
    return facts(*pod_sets, kind=kind, uid=uid, creation_timestamp=created, **changes)


def sync(of: JobFacts, unit: QueueUnit, *, waiting: bool = True) -> dict[str, Any]:
    return build_sync(of, unit, CONTEXT, waiting=waiting)


def test_a_unit_has_all_that_the_queue_needs() -> None:
    of = job(
        labels={QUOTA: "gold", "controller-uid": "x", "team": "a"},
        annotations={
            PRIORITY: "5",
            SUSPEND: "true",
            RELEASED_AT: "x",
            TOUCHED_AT: "x",
            "koord-queue/adopted": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        priority=PrioritySource("high"),
    )
    body = build_unit(of, CONTEXT, name="main")
    annotations = body["metadata"]["annotations"]
    assert body["metadata"]["labels"] == {QUOTA: "gold", "team": "a"}
    assert annotations.pop("koord-queue/pod-sets-hash")
    assert annotations == {
        "koord-queue/managed-by": "koord-queue-controllers",
        "koord-queue/job-created-at": "2026-11-01T10:00:00Z",
        "koord-queue/copied-labels": "team",
        PRIORITY: "5",
    }
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "main", "uid": "0a1b2c3d-4e5f"}
    assert body["metadata"]["ownerReferences"] == [ref]
    assert msgspec.json.decode(msgspec.json.encode(body["spec"])) == {
        "consumerRef": {**ref, "namespace": "team"},
        "queue": "gold",
        "podSet": [{"name": "main", "count": 2, "template": template}],
        "request": {"cpu": "2"},
        "priorityClassName": "high",
        "priority": 5,
    }


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({GATED_BY: "argo"}, "argo", id="one gate"),
        pytest.param({"kube-queue/gated-by": "argo"}, "argo", id="the old prefix"),
        pytest.param({KUEUE_GATED_BY: "example.com/flow"}, "example.com/flow", id="Kueue's key"),
        pytest.param({GATED_BY: " a, b,,a ", KUEUE_GATED_BY: "b,c"}, "a,b,c", id="each once"),
        pytest.param({GATED_BY: ""}, None, id="an empty value"),
        pytest.param({GATED_BY: ","}, None, id="no name"),
        pytest.param({GATED_BY: "x" * 318}, None, id="longer than a name can be"),
        pytest.param({GATED_BY: ",".join("abcdefghij")}, "a,b,c,d,e,f,g,h", id="more than eight"),
    ],
)
def test_the_gates_of_a_job_are_those_of_its_unit(
    annotations: dict[str, str], want: str | None
) -> None:
    of = job(annotations=annotations)
    assert made(of).metadata.annotations.get(GATED_BY) == want
    running = build_unit(of, CONTEXT, name="main", runs=True)
    assert GATED_BY not in running["metadata"]["annotations"], "a job that runs is not held back"


@pytest.mark.parametrize(
    ("later", "want"),
    [
        pytest.param("a,b", {}, id="nothing has changed"),
        pytest.param("b,a", {}, id="another order"),
        pytest.param("b", {GATED_BY: "b"}, id="one is open"),
        pytest.param("", {GATED_BY: None}, id="all are open"),
        pytest.param("b,c", {GATED_BY: "b"}, id="a later one is none"),
        pytest.param("c", {GATED_BY: None}, id="only a later one is left"),
    ],
)
def test_gates_only_become_fewer(later: str, want: dict[str, str | None]) -> None:
    unit = made(job(annotations={GATED_BY: "a,b"}))
    patch = sync(job(annotations={GATED_BY: later}), unit)
    assert patch.get("metadata", {}).get("annotations", {}) == want


def test_edit_cannot_boost_by_a_job_and_what_a_unit_has_stays() -> None:
    boosted = job(annotations={PRIORITY_BOOST: "1000"})
    assert PRIORITY_BOOST not in made(boosted).metadata.annotations
    unit = made(job())
    said = unit.metadata.annotations | {PRIORITY_BOOST: "5"}
    meta = msgspec.structs.replace(unit.metadata, annotations=said)
    unit = msgspec.structs.replace(unit, metadata=meta)
    assert sync(boosted, unit) == {}


def test_edit_cannot_gate_a_job_that_is_queued() -> None:
    assert sync(job(annotations={GATED_BY: "a"}), made(job())) == {}


@pytest.mark.parametrize(
    ("known", "told", "want"),
    [
        pytest.param("", "2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z", id="the first"),
        pytest.param("", "2026-11-01T13:00:00+01:00", "2026-11-01T12:00:00Z", id="of a time zone"),
        pytest.param("2026-11-01T12:00:00Z", "2026-11-01T12:00:59Z", None, id="within a minute"),
        pytest.param(
            "2026-11-01T12:00:00Z", "2026-11-01T12:01:00Z", "2026-11-01T12:01:00Z", id="a later one"
        ),
        pytest.param("2026-11-01T12:00:00Z", "", None, id="what was saved stays so"),
        pytest.param("", "yesterday", None, id="no time"),
    ],
)
def test_a_running_unit_follows_the_checkpoints_of_its_job(
    known: str, told: str, want: str | None
) -> None:
    of = job(annotations={CHECKPOINTED_AT: told} if told else {})
    unit = made(job(annotations={CHECKPOINTED_AT: known} if known else {}))
    running = msgspec.structs.replace(unit, status=QueueUnitStatus(phase="Running"))
    patch = sync(of, running, waiting=False)
    assert patch == ({"metadata": {"annotations": {CHECKPOINTED_AT: want}}} if want else {})


def test_a_job_cannot_adopt_itself_by_annotation() -> None:
    unit = made(job(annotations={"koord-queue/adopted": "true", "kube-queue/adopted": "true"}))
    assert not [key for key in unit.metadata.annotations if key.endswith("adopted")]


def test_a_quota_that_only_the_template_names_becomes_the_units_label() -> None:
    of = job(pod_set(quota="silver"), labels={})
    body = build_unit(of, CONTEXT, name="main")
    assert body["metadata"]["labels"] == {QUOTA: "silver"}
    assert body["spec"]["queue"] == "silver"


@pytest.mark.parametrize(
    ("of", "taken", "want"),
    [
        pytest.param(job(), False, ("main", False), id="Job: its own name"),
        pytest.param(job(suffix="tf-qu"), False, ("main-tf-qu", False), id="others: a suffix"),
        pytest.param(job(), True, ("main-0a1b2c3d", True), id="taken"),
        pytest.param(job(suffix="py-qu"), True, ("main-py-qu-0a1b2c3d", True), id="taken, suffix"),
        pytest.param(
            job(name="a" * 250, suffix="tf-qu"), False, ("a" * 244 + "-0a1b2c3d", True), id="long"
        ),
        pytest.param(
            job(name="a" * 243 + ".bcdefghi", suffix="tf-qu"),
            False,
            ("a" * 243 + "-0a1b2c3d", True),
            id="never cut right after a dot",
        ),
    ],
)
def test_names(of: JobFacts, taken: bool, want: tuple[str, bool]) -> None:
    assert choose_unit_name(of, is_taken=taken) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [("main", "main"), ("a.b", "a-b"), ("x" * 62 + ".y", "x" * 62), ("...", "main")],
)
def test_pod_set_names_are_labels(name: str, want: str) -> None:
    assert pod_set_name(name) == want


@pytest.mark.parametrize(
    ("source", "annotation", "want"),
    [
        pytest.param(PrioritySource(), "", ("", None), id="ctl-29 none"),
        pytest.param(PrioritySource("high", 5), "", ("high", 1000), id="the class's value wins"),
        pytest.param(
            PrioritySource("gone", 5), "", ("gone", 5), id="ctl-43 unknown class: the number"
        ),
        pytest.param(PrioritySource("high"), "99", ("high", 99), id="ctl-30 the annotation wins"),
        pytest.param(PrioritySource("high"), "-5", ("high", -5), id="ctl-29 it may be negative"),
        pytest.param(PrioritySource("high"), "+5", ("high", 5), id="with a plus, as in Go"),
        pytest.param(
            PrioritySource("high"), "abc", ("high", 1000), id="ctl-30 not a number: ignored"
        ),
        pytest.param(PrioritySource("high"), "5_0", ("high", 1000), id="Python's underscore"),
        pytest.param(PrioritySource("high"), " 5", ("high", 1000), id="a blank"),
        pytest.param(PrioritySource("high"), "5\n", ("high", 1000), id="a newline"),
        pytest.param(PrioritySource("high"), "\u0665", ("high", 1000), id="an Arabic five"),
        pytest.param(PrioritySource("high"), "9" * 5000, ("high", 1000), id="5000 digits"),
        pytest.param(PrioritySource("", 7), "9999999999", ("", 7), id="not an int32: ignored"),
    ],
)
def test_priority(source: PrioritySource, annotation: str, want: tuple[str, int | None]) -> None:
    annotations = {PRIORITY: annotation} if annotation else {}
    assert priority_of_job(job(annotations=annotations, priority=source), CONTEXT) == want


@pytest.mark.parametrize(
    ("source", "annotation", "most", "only_classes", "want"),
    [
        pytest.param(PrioritySource(), "2147483647", 10, False, 10, id="an annotation"),
        pytest.param(PrioritySource("high"), "", 10, False, 10, id="a class"),
        pytest.param(PrioritySource("", 99), "", 10, False, 10, id="a literal"),
        pytest.param(PrioritySource(), "9", 10, False, 9, id="what is below"),
        pytest.param(PrioritySource(), "", 10, False, None, id="nothing"),
        pytest.param(PrioritySource(), "", -1, False, -1, id="none counts as 0, which is above"),
        pytest.param(PrioritySource("high"), "99", None, True, 1000, id="only classes: the class"),
        pytest.param(PrioritySource("", 99), "99", None, True, None, id="only classes: none"),
        pytest.param(PrioritySource("gone", 5), "", None, True, None, id="only classes: unknown"),
        pytest.param(PrioritySource("high"), "99", 10, True, 10, id="both"),
    ],
)
def test_what_bounds_a_priority(
    source: PrioritySource, annotation: str, most: int | None, only_classes: bool, want: int | None
) -> None:
    annotations = {PRIORITY: annotation} if annotation else {}
    of = job(annotations=annotations, priority=source)
    context = msgspec.structs.replace(CONTEXT, max_priority=most, only_classes=only_classes)
    assert priority_of_job(of, context)[1] == want
    reported = why_other_priority(of, context)
    wanted = priority_of_job(of, CONTEXT)[1]
    if only_classes and annotation:
        assert "only PriorityClasses count" in reported
    elif most is not None and (wanted or 0) > most:
        assert f"priority {wanted or 0} is above {most}" in reported
    else:
        assert reported == ""


@pytest.mark.parametrize(
    ("unread", "want"),
    [
        pytest.param("'high'", "'high' is not a whole number", id="not read"),
        pytest.param("", "", id="not known yet, for a moment"),
    ],
)
def test_an_invalid_ceiling_is_reported_where_it_can_be_fixed(unread: str, want: str) -> None:
    context = msgspec.structs.replace(CONTEXT, max_priority=0, unread_ceiling=unread)
    reported = why_other_priority(job(annotations={PRIORITY: "9"}), context)
    assert want in reported
    assert bool(reported) == bool(want)


def test_without_class_and_number_the_clusters_default_counts() -> None:
    context = ClusterContext(default_priority=3)
    assert priority_of_job(job(), context) == ("", 3)
    assert priority_of_job(job(priority=PrioritySource("", 0)), context) == ("", 0)


def test_no_priority_and_0_are_the_same() -> None:
    """The API server writes 0 into a unit without a priority: that needs no patch."""
    unit = made(job())
    assert unit.spec.priority == 0
    for of in (job(), job(annotations={PRIORITY: "0"})):
        assert "priority" not in sync(of, unit).get("spec", {})


@pytest.mark.parametrize(
    ("before", "now", "annotation", "want"),
    [
        pytest.param(("high", 10), ("high", 10), "", {}, id="ctl-22 the same"),
        pytest.param(
            ("low", 10),
            ("med", 20),
            "",
            {"priorityClassName": "med", "priority": 20},
            id="ctl-23 class and number",
        ),
        pytest.param(
            ("low", 10),
            ("med", 20),
            "99",
            {"priorityClassName": "med", "priority": 99},
            id="ctl-24 the annotation's number",
        ),
        pytest.param(("", None), ("", None), "", {}, id="ctl-25 none"),
        pytest.param(
            ("low", 10), ("med", 10), "", {"priorityClassName": "med"}, id="ctl-26 class only"
        ),
        pytest.param(
            ("", None),
            ("test", 5),
            "",
            {"priorityClassName": "test", "priority": 5},
            id="ctl-27 from none",
        ),
        pytest.param(
            ("test", 5),
            ("", None),
            "",
            {"priorityClassName": None, "priority": 0},
            id="ctl-28 to none",
        ),
    ],
)
def test_priority_follows(
    before: tuple[str, int | None],
    now: tuple[str, int | None],
    annotation: str,
    want: dict[str, Any],
) -> None:
    context = ClusterContext()
    unit = msgspec.convert(
        build_unit(job(priority=PrioritySource(*before)), context, name="main"),
        QueueUnit,
    )
    annotations = {PRIORITY: annotation} if annotation else {}
    changed = job(priority=PrioritySource(*now), annotations=annotations)
    assert build_sync(changed, unit, context, waiting=False).get("spec", {}) == want


def test_without_its_class_an_admitted_unit_keeps_its_priority() -> None:
    """A class's value cannot be changed: the class has to be deleted first."""
    of = job(priority=PrioritySource("high", 5))
    gone, again = ClusterContext(), ClusterContext(priority_classes={"high": 7})

    def priority(phase: str, context: ClusterContext, now: JobFacts = of) -> Any:
        patch = build_sync(now, made(of, phase=phase), context, waiting=phase == "Enqueued")
        return patch.get("spec", {}).get("priority", "kept")

    for phase in ("Reserved", "Dequeued", "Running"):
        assert priority(phase, gone) == "kept"
        assert priority(phase, again) == 7
        assert priority(phase, gone, job(priority=PrioritySource("other", 5))) == 5
        assert priority(phase, gone, job(annotations={PRIORITY: "3"}, priority=of.priority)) == 3
    for phase in ("Enqueued", "TimeoutBackoff"):
        assert priority(phase, gone) == 5
    assert build_sync(job(priority=PrioritySource("high")), made(of), gone, waiting=True) == {
        "spec": {"priority": 0}
    }


# --- following ----------------------------------------------------------------------------------


def test_an_unchanged_job_needs_no_patch() -> None:
    of = job(annotations={PRIORITY: "5"}, priority=PrioritySource("high"))
    assert sync(of, made(of)) == {}


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(
            job(labels={QUOTA: "silver"}),
            {"metadata": {"labels": {QUOTA: "silver"}}, "spec": {"queue": "silver"}},
            id="another quota: label and queue",
        ),
        pytest.param(
            job(labels={}),
            {"metadata": {"labels": {QUOTA: None}}, "spec": {"queue": None}},
            id="no quota any more",
        ),
        pytest.param(
            job(annotations={"koord-queue/queue-name": "q"}),
            {"metadata": {"annotations": {"koord-queue/queue-name": "q"}}, "spec": {"queue": "q"}},
            id="a queue of its own choice",
        ),
        pytest.param(
            job(priority=PrioritySource("high")),
            {"spec": {"priorityClassName": "high", "priority": 1000}},
            id="a priority class",
        ),
    ],
)
def test_a_waiting_unit_follows(now: JobFacts, want: dict[str, Any]) -> None:
    assert sync(now, made(job())) == want


@pytest.mark.parametrize(
    ("before", "now", "update"),
    [
        pytest.param({"a": 2, "b": 3}, {"a": 2, "b": 3}, False, id="ctl-1 the same"),
        pytest.param({"a": 2, "b": 3}, {"a": 4, "b": 3}, True, id="ctl-2 another count"),
        pytest.param({"a": 2}, {"a": 2, "b": 3}, True, id="ctl-3 a set more"),
        pytest.param({"a": 2, "b": 3}, {"a": 2}, True, id="ctl-4 a set less"),
    ],
)
def test_pod_sets_follow(before: dict[str, int], now: dict[str, int], update: bool) -> None:
    old = job(*(pod_set(count, name=name) for name, count in before.items()))
    new = job(*(pod_set(count, name=name) for name, count in now.items()))
    patch = sync(new, made(old))
    assert bool(patch) is update
    if update:
        got = {each["name"]: each["count"] for each in patch["spec"]["podSet"]}
        assert got == now


def test_larger_pods_of_the_same_count_are_noticed() -> None:
    patch = sync(job(pod_set(cpu="2")), made(job()))
    assert patch["spec"]["request"] == {"cpu": "4"}


def test_a_count_that_was_edited_on_the_unit_is_corrected() -> None:
    unit = made(job())
    spec = msgspec.structs.replace(
        unit.spec, pod_set=(msgspec.structs.replace(unit.spec.pod_set[0], count=1),)
    )
    patch = sync(job(), msgspec.structs.replace(unit, spec=spec))
    assert patch["spec"]["podSet"][0]["count"] == 2


def test_an_admitted_unit_follows_only_what_may_still_change() -> None:
    now = job(
        pod_set(5),
        labels={QUOTA: "silver"},
        annotations={PRIORITY: "5", "scheduling.x-k8s.io/active": "false"},
    )
    patch = sync(now, made(job()), waiting=False)
    assert patch == {"spec": {"priority": 5, "active": False}}


def test_a_missing_active_annotation_leaves_a_deactivation_alone() -> None:
    unit = made(job())
    spec = msgspec.structs.replace(unit.spec, active=False)
    assert sync(job(), msgspec.structs.replace(unit, spec=spec)) == {}


def test_an_edited_minimum_of_a_pending_unit_is_corrected() -> None:
    """Admitted with it, the job could not run with the granted pods."""
    unit = made(job(pod_set(4)))
    (whole,) = unit.spec.pod_set
    assert sync(job(pod_set(4)), unit) == {}
    edited = (msgspec.structs.replace(whole, min_count=1),)
    unit = msgspec.structs.replace(unit, spec=msgspec.structs.replace(unit.spec, pod_set=edited))
    (fixed,) = sync(job(pod_set(4)), unit)["spec"]["podSet"]
    assert "minCount" not in fixed
