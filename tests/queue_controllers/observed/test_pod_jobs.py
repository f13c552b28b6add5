"""Which pods are jobs in a cluster of other queues, and what these jobs are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.pod_group import PodGroupObject, PodGroupSpec
from queue_controllers.jobframework.generic_job import Outcome
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.observed.job_reading import EndingPod, ObservedJob, read_job, timed
from queue_controllers.observed.pod_jobs import PodGroups, SinglePods
from queue_controllers.watches.pod_usage import slimmer_for
from tests.queue_controllers.pod_kit import build_pod

Json = dict[str, Any]

SINGLE, GROUPS = SinglePods(), PodGroups()
KUEUE = "kueue.x-k8s.io/queue-name"
NAME = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"
NO_QUEUE = {"koord-queue/queue-name": ""}


def other_pod(name: str, **changes: Any) -> ScheduledPod:
    """Return a pod that this queue has not marked."""
    labels = {**NO_QUEUE, **changes.pop("labels", {})}
    return build_pod(name, gated=False, labels=labels, **changes)


def member(name: str, total: int = 3, **changes: Any) -> ScheduledPod:
    return other_pod(name, labels={NAME: "g"}, annotations={COUNT: str(total)}, **changes)


def on_node(name: str, **changes: Any) -> ScheduledPod:
    return member(name, nodeName="node-1", **changes)


def group(*pods: ScheduledPod) -> Any:
    return GROUPS.gather("g", pods)


def counts(*pods: ScheduledPod) -> list[int]:
    return sorted(each.count for each in GROUPS.pod_sets(group(*pods)))


@pytest.mark.parametrize(
    ("pod", "single", "of_group"),
    [
        pytest.param(other_pod("a"), "a", "", id="nothing holds it"),
        pytest.param(other_pod("a", labels={KUEUE: "main"}), "a", "", id="Kueue holds it"),
        pytest.param(build_pod("a"), "a", "", id="this queue holds it"),
        pytest.param(member("a"), "", "g", id="Kueue's group"),
        pytest.param(
            other_pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"}), "", "g", id="PodGroup"
        ),
        pytest.param(
            other_pod("a", annotations={"gang.scheduling.koordinator.sh/name": "g"}),
            "",
            "g",
            id="gang",
        ),
    ],
)
def test_pods_without_a_controller_are_jobs(pod: ScheduledPod, single: str, of_group: str) -> None:
    assert (SINGLE.group_of(pod), GROUPS.group_of(pod)) == (single, of_group)


@pytest.mark.parametrize(
    ("owner", "labels"),
    [
        pytest.param(("batch/v1", "Job", "j"), {}, id="a Job's"),
        pytest.param(("apps/v1", "ReplicaSet", "r"), {KUEUE: "main"}, id="a Deployment's"),
        pytest.param(("apps/v1", "StatefulSet", "s"), {NAME: "g"}, id="a StatefulSet's"),
        pytest.param(("apps/v1", "DaemonSet", "d"), {KUEUE: "main"}, id="a DaemonSet's"),
        pytest.param(("v1", "Node", "n"), {}, id="a static pod"),
        pytest.param(("v1", "Pod", "driver"), {}, id="a Spark driver's"),
        pytest.param(("x/v1", "Pipeline", "p"), {KUEUE: "main"}, id="an unknown controller's"),
        pytest.param(None, {"controller-uid": "u"}, id="left behind by a Job"),
        pytest.param(None, {"pod-template-hash": "5d"}, id="left behind by a ReplicaSet"),
        pytest.param(None, {"ray.io/cluster": "c"}, id="counted with a RayCluster"),
    ],
)
def test_what_controllers_have_made_is_no_job(
    owner: tuple[str, str, str] | None, labels: dict[str, str]
) -> None:
    pod = other_pod("a", owner=owner, labels=labels)
    assert (SINGLE.group_of(pod), GROUPS.group_of(pod)) == ("", "")
    in_group = other_pod("a", owner=owner, labels={**labels, NAME: "g"})
    assert (SINGLE.group_of(in_group), GROUPS.group_of(in_group)) == ("", "")


def test_a_pod_that_is_kept_without_its_labels_is_not_judged_by_them() -> None:
    slim = slimmer_for([SINGLE])
    left = other_pod("a", labels={"controller-uid": "u"})
    assert SINGLE.group_of(slim(left, None)) == ""
    assert SINGLE.group_of(slim(member("a"), None)) == "", "groups are not followed"
    assert SINGLE.group_of(slim(other_pod("a"), None)) == "a"


class TestGroups:
    def test_until_all_exist_what_it_asks_for_is_unknown(self) -> None:
        gates = [{"name": "kueue.x-k8s.io/admission"}]
        held = [member(name, schedulingGates=gates) for name in "ab"]
        assert GROUPS.why_unknown(group(*held)) == "2 of its 3 pods are there"
        assert counts(*held) == []
        assert counts(*held, member("c")) == [3]

    def test_one_that_has_started_is_known(self) -> None:
        assert counts(on_node("a"), member("b")) == [3]

    def test_it_is_submitted_when_it_is_complete(self) -> None:
        pods = [member("a", second=1), member("b", second=7), member("c", second=4)]
        assert group(*pods).metadata.creation_timestamp == "2026-01-01T00:00:07Z"

    def test_the_next_one_of_its_name_has_another_uid(self) -> None:
        one, other = group(member("a")), group(member("b"))
        assert one.metadata.uid != other.metadata.uid
        assert one.metadata.uid == group(member("a"), member("b", second=3)).metadata.uid

    def test_a_pod_group_says_how_many(self) -> None:
        found = group(other_pod("a", labels={"pod-group.scheduling.sigs.k8s.io": "g"}))
        assert GROUPS.why_unknown(found) == "there is no PodGroup g (scheduling.sigs.k8s.io)"
        assert GROUPS.other_of(found) is not None
        two = PodGroupObject(spec=PodGroupSpec(min_member=2))
        assert GROUPS.why_unknown(GROUPS.with_other(found, two)) == "1 of its 2 pods are there"

    def test_what_a_release_by_others_adds_changes_no_set(self) -> None:
        released = member("a", nodeSelector={"pool": "gpu"}, tolerations=[{"key": "gpu"}])
        assert counts(released, member("b"), member("c", cpu="2")) == [1, 2]
        assert demand_of(GROUPS.pod_sets(group(released, member("b"), member("c", cpu="2")))) == {
            "cpu": 4000
        }

    def test_what_runs_counts_and_when_nothing_does_what_ran(self) -> None:
        done = [on_node(name, phase="Succeeded") for name in "abc"]
        assert counts(*done) == [3]
        assert counts(*done[:2], on_node("c", phase="Running")) == [1]


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        pytest.param(("Succeeded", "Running", "Failed"), None, id="one lives"),
        pytest.param(("Succeeded",) * 3, Outcome(succeeded=True), id="all have succeeded"),
        pytest.param(
            ("Failed", *("Succeeded",) * 3), Outcome(succeeded=True), id="one was replaced"
        ),
        pytest.param(("Succeeded",) * 2, Outcome(succeeded=True), id="one is deleted"),
        pytest.param(("Succeeded", "Failed"), Outcome(succeeded=False), id="one has failed"),
    ],
)
def test_a_group_has_ended_with_its_last_pod(phases: tuple[str, ...], want: Outcome | None) -> None:
    pods = [on_node(f"p{number}", phase=phase) for number, phase in enumerate(phases)]
    assert GROUPS.status_of(group(*pods)).outcome == want


def single(phase: str, **changes: Any) -> Any:
    return SINGLE.gather("a", [other_pod("a", phase=phase, **changes)])


def test_how_a_pod_ends() -> None:
    assert SINGLE.status_of(single("Pending")).outcome is None
    assert SINGLE.status_of(single("Failed")).outcome == Outcome(succeeded=False)
    done = single("Succeeded")
    assert SINGLE.status_of(done).outcome == Outcome(succeeded=True)
    assert demand_of(SINGLE.pod_sets(done)) == {"cpu": 1000}, "it may be seen late"


# --- as it is recorded --------------------------------------------------------------------------


def ended(name: str, *times: str, scheduled: str, ready: str = "", **meta: Any) -> ScheduledPod:
    """Return a pod as it is kept whose containers ended at these times."""
    states = [{"state": {"terminated": {"finishedAt": f"2026-01-01T{each}Z"}}} for each in times]
    since = {"PodScheduled": ("True", scheduled)} | ({"Ready": ("False", ready)} if ready else {})
    conditions = [
        {"type": type_, "status": status, "lastTransitionTime": f"2026-01-01T{at}Z"}
        for type_, (status, at) in since.items()
    ]
    body = msgspec.to_builtins(on_node(name, total=2, **meta))
    body["status"] = {
        "phase": "Succeeded",
        "conditions": conditions,
        "containerStatuses": [*states, {"state": {"running": {}}}],
    }
    return keep(msgspec.convert(body, EndingPod))


def keep(pod: EndingPod, before: ScheduledPod | None = None) -> ScheduledPod:
    kept = timed(pod, slimmer_for([SINGLE, GROUPS])(pod, before), before)
    assert isinstance(kept, ScheduledPod)
    return kept


def read(*pods: ScheduledPod) -> ObservedJob:
    found = read_job(GROUPS, group(*pods), pods, ClusterContext(), lambda *_: None)
    assert found is not None
    return found


def test_a_group_as_it_is_recorded() -> None:
    pods = [
        ended("a", "02:00:00", "02:05:00", scheduled="01:00:00"),
        ended("b", "03:00:00", scheduled="01:30:00", second=5),
    ]
    got = read(*pods)
    assert (got.key, got.kind, got.has_object, got.outcome) == (
        "team/g",
        "podgroup",
        False,
        "succeeded",
    )
    assert got.unit is not None
    assert got.unit["spec"]["request"] == {"cpu": "2"}
    assert got.submitted.second == 5
    assert got.ended is not None
    assert (got.ended.hour, got.ended.minute) == (3, 0)
    assert [each.minute for each in got.node_since] == [0, 30]


def test_without_ends_of_containers_conditions_say_when_it_ended() -> None:
    pods = [ended(name, scheduled="01:00:00", ready="02:00:00") for name in "ab"]
    got = read(*pods)
    assert got.ended is not None
    assert got.ended.hour == 2


def lived(*states: tuple[str, bool], name: str = "a", total: int = 1) -> ScheduledPod:
    """Return a pod that was seen in these phases, deleted or not."""
    kept: ScheduledPod | None = None
    for phase, deleted in states:
        body = msgspec.to_builtins(on_node(name, total=total, phase=phase, deleted=deleted))
        kept = keep(msgspec.convert(body, EndingPod), kept)
    assert kept is not None
    return kept


@pytest.mark.parametrize(
    ("states", "has_ended"),
    [
        pytest.param((("Running", False), ("Succeeded", False)), True, id="by itself"),
        pytest.param((("Running", True), ("Succeeded", True)), False, id="deleted as it ran"),
        pytest.param((("Running", False), ("Failed", True)), False, id="both at once"),
        pytest.param((("Succeeded", False), ("Succeeded", True)), True, id="deleted afterwards"),
        pytest.param((("Failed", True),), False, id="first seen when it was deleted"),
    ],
)
def test_a_pod_that_is_stopped_has_not_run_to_its_end(
    states: tuple[tuple[str, bool], ...], has_ended: bool
) -> None:
    assert (read(lived(*states)).outcome != "") == has_ended
    other = lived(("Succeeded", False), name="b", total=2)
    assert (read(lived(*states, total=2), other).outcome != "") == has_ended
