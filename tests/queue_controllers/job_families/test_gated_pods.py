"""Facts about jobs that consist of pods."""

from __future__ import annotations

import pytest

from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.job_families.gated_pods import (
    MAX_SPEC_BYTES,
    _shape_of_text,
    in_order,
    is_candidate,
    pod_to_admit,
    shape_of,
    template_of_pod,
    unparking_patch,
)
from queue_controllers.jobframework.pod_template import ScheduledPod
from tests.queue_controllers.pod_kit import GATE, QUEUE, build_pod

GROUPS = PodGroupAdapter()
BY = "koord-queue/submitted-by"


class TestWhoTakesPart:
    def test_held(self) -> None:
        assert is_candidate(build_pod("p", labels={QUEUE: ""}))

    def test_named(self) -> None:
        assert is_candidate(build_pod("p", gated=False))

    def test_released(self) -> None:
        released = {"koord-queue/released-at": "2026-01-01T00:00:00Z"}
        pod = build_pod("p", gated=False, labels={QUEUE: ""}, annotations=released)
        assert is_candidate(pod)

    def test_neither(self) -> None:
        quota = {QUEUE: "", "quota.scheduling.koordinator.sh/name": "gold"}
        assert not is_candidate(build_pod("p", gated=False, labels=quota))


def test_active_pods_precede_ended_ones_and_older_ones_younger() -> None:
    pods = [
        build_pod("old", second=1, phase="Failed"),
        build_pod("going", second=2, deleted=True),
        build_pod("w-10", second=4),
        build_pod("w-9", second=4),
        build_pod("late", second=5),
    ]
    assert [each.metadata.name for each in in_order(pods)] == [
        "w-9",
        "w-10",
        "late",
        "old",
        "going",
    ]


def test_a_group_is_as_old_as_its_oldest_pod_and_has_the_first_ones_labels() -> None:
    first = build_pod("a", second=3, labels={"x": "1"})
    ended = build_pod("b", second=1, phase="Succeeded")
    group = GROUPS.gather("g", [ended, first])
    assert group.first == first
    assert group.metadata.creation_timestamp == "2026-01-01T00:00:01Z"
    assert group.metadata.labels == {QUEUE: "gold", "x": "1"}
    assert group.metadata.generation == 2
    assert group.metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    ("others", "want"),
    [
        pytest.param([{BY: "ann"}], "ann", id="all of one user"),
        pytest.param([{BY: "ann"}, {BY: "bob"}], None, id="one of another user"),
        pytest.param([{}], None, id="one of nobody"),
    ],
)
def test_who_submitted_a_group_is_whoever_created_all_its_pods(
    others: list[dict[str, str]], want: str | None
) -> None:
    pods = [build_pod(f"p-{at}", second=at, annotations=each) for at, each in enumerate(others, 1)]
    group = GROUPS.gather("g", [build_pod("p-0", second=0, annotations={BY: "ann"}), *pods])
    assert group.metadata.annotations.get(BY) == want


def test_the_uid_of_a_group_is_its_names() -> None:
    one, two = GROUPS.gather("g", [build_pod("a")]), GROUPS.gather("g", [build_pod("b")])
    assert one.metadata.uid == two.metadata.uid
    assert one.metadata.uid != GROUPS.gather("h", [build_pod("a")]).metadata.uid
    assert [len(part) for part in one.metadata.uid.split("-")] == [8, 4, 4, 4, 12]


def test_annotations_of_a_release_are_not_the_users() -> None:
    quota = "quota.scheduling.koordinator.sh/name"
    stamps = {
        "koord-queue/related-queueunit": "team/u",
        "kube-queue/related-podset-name": "main",
        "koord-queue/stamped-quota": "gold",
        "koord-queue/released-at": "2026-01-01T00:00:00Z",
        "mine": "1",
    }
    pod = build_pod("a", gated=False, labels={quota: "gold"}, annotations=stamps, nodeName="n")
    template = template_of_pod(pod)
    assert template.metadata.labels == {QUEUE: "gold"}
    assert template.metadata.annotations == {"mine": "1"}
    assert template.spec.node_name == ""
    assert GROUPS.gather("g", [pod]).metadata.labels == {QUEUE: "gold"}
    own = build_pod("a", labels={quota: "gold"})
    assert template_of_pod(own).metadata.labels[quota] == "gold", "that one was set by the user"


def test_the_gates_label_is_not_the_users() -> None:
    label = "alibabacloud.com/schedule-admission"
    for value, gated in (("false", True), ("true", False)):
        pod = build_pod("a", gated=gated, labels={label: value})
        assert template_of_pod(pod).metadata.labels == {QUEUE: "gold"}
        assert GROUPS.gather("g", [pod]).metadata.labels == {QUEUE: "gold"}


def test_shapes() -> None:
    one = shape_of(build_pod("a"))
    assert one == shape_of(build_pod("b", gated=False, priority=3, nodeName="n"))
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c-a"}}
    assert one == shape_of(build_pod("c", volumes=[claim])), "each has a claim of its own"
    assert one != shape_of(build_pod("d", cpu="2"))
    assert one != shape_of(build_pod("e", nodeSelector={"zone": "a"}))


def test_only_shapes_of_specs_of_usual_length_are_remembered() -> None:
    usual, long = build_pod("a"), build_pod("a", nodeSelector={"zone": "x" * MAX_SPEC_BYTES})
    shape_of(usual)
    before = _shape_of_text.cache_info()
    assert shape_of(long) == shape_of(long) != shape_of(usual)
    after = _shape_of_text.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def test_a_pod_created_without_the_gate_is_named() -> None:
    held = build_pod("a")
    assert GROUPS.why_not_suspendable(GROUPS.gather("g", [held])) == ""
    loose = build_pod("b", gated=False)
    assert GROUPS.why_not_suspendable(GROUPS.gather("g", [held, loose])) == (
        f"pod b came without the scheduling gate {GATE}"
    )
    released = {"koord-queue/released-at": "2026-01-01T00:00:00Z"}
    ours = build_pod("c", gated=False, annotations=released)
    ended = build_pod("d", gated=False, phase="Failed")
    going = build_pod("e", gated=False, deleted=True)
    assert GROUPS.why_not_suspendable(GROUPS.gather("g", [held, ours, ended, going])) == ""


RUNS = build_pod("runs", gated=False)
MUCH = build_pod("much", gated=False, cpu="9")
HELD = build_pod("held")
LARGE = build_pod("large", cpu="3")
GPU = build_pod("gpu", containers=[{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}])
UNREADABLE = build_pod("unreadable", cpu="many")


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([RUNS], "runs", id="none is held"),
        pytest.param([RUNS, HELD], "held", id="what is held waits to be admitted"),
        pytest.param([MUCH, HELD], "held", id="a larger one runs"),
        pytest.param([HELD, LARGE, build_pod("other")], "large", id="the largest"),
        pytest.param([HELD, build_pod("going", cpu="9", deleted=True)], "held", id="it goes"),
        pytest.param([HELD, GPU], "held", id="each asks for more of something: the first"),
        pytest.param([HELD, UNREADABLE], "held", id="one that cannot be read"),
    ],
)
def test_the_pod_that_a_set_is_admitted_with(pods: list[ScheduledPod], want: str) -> None:
    assert pod_to_admit(pods).metadata.name == want


QUOTA = "quota.scheduling.koordinator.sh/name"
PARKED = {"koord-queue/parked-in": "parked", "koord-queue/parked-from": "gold"}
RELEASED = {"koord-queue/released-at": "2026-01-01T00:00:00Z"}


class TestParkedPods:
    """Their label names the parking quota while the gate is there; a note has their own."""

    @pytest.mark.parametrize(
        ("label", "annotations", "gated", "want"),
        [
            pytest.param("parked", PARKED, True, "gold", id="the noted quota is its own"),
            pytest.param("parked", PARKED, False, "gold", id="so it is once others take the gate"),
            pytest.param("silver", PARKED, True, "silver", id="a label set since is its own"),
            pytest.param("silver", {}, True, "silver", id="a pod that is not parked"),
            pytest.param("parked", RELEASED, False, "parked", id="nothing is noted"),
            pytest.param(
                "parked",
                PARKED | RELEASED,
                True,
                "gold",
                id="a time that a user wrote changes nothing",
            ),
            pytest.param(
                "parked",
                PARKED | RELEASED,
                False,
                "parked",
                id="after its release a note is forged",
            ),
            pytest.param(
                "gold",
                {"koord-queue/parked-from": "silver"},
                True,
                "gold",
                id="a note without the parking quota is forged",
            ),
        ],
    )
    def test_which_quota_is_its_own(
        self, label: str, annotations: dict[str, str], gated: bool, want: str
    ) -> None:
        pod = build_pod("a", gated=gated, labels={QUOTA: label}, annotations=annotations)
        template = template_of_pod(pod).metadata
        assert template.labels[QUOTA] == want
        assert not template.annotations.keys() & PARKED.keys(), "a new pod would be parked anew"
        assert GROUPS.gather("g", [pod]).metadata.labels[QUOTA] == want
        assert not GROUPS.gather("g", [pod]).metadata.annotations.keys() & PARKED.keys()

    def test_one_without_a_label_has_none(self) -> None:
        own = {**PARKED, "koord-queue/parked-from": ""}
        pod = build_pod("a", labels={QUOTA: "parked"}, annotations=own)
        assert QUOTA not in template_of_pod(pod).metadata.labels
        restored = {"annotations": dict.fromkeys(sorted(PARKED)), "labels": {QUOTA: None}}
        assert unparking_patch(pod) == {"metadata": restored}

    def test_a_note_without_both_labels_says_nothing(self) -> None:
        pod = build_pod("a", annotations={"koord-queue/parked-from": "gold"})
        assert QUOTA not in template_of_pod(pod).metadata.labels
        note = {"annotations": {"koord-queue/parked-from": None}}
        assert unparking_patch(pod) == {"metadata": note}, "the note goes, no label comes"

    def test_other_pods_are_left_alone(self) -> None:
        assert unparking_patch(build_pod("a", labels={QUOTA: "gold"})) == {}
