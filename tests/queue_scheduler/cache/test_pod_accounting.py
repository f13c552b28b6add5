"""Attribution of pods: every living pod is counted exactly once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.pod_accounting import (
    PodAccounting,
    group_of_strays,
    is_stray,
    read_counted,
)
from queue_scheduler.framework.queue_unit_info import Occupancy
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.objects.pod import Pod, PodSchedulingGate, PodSpec
from shared_api.objects.queue_unit import Placement, QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    JOB_CREATED_AT,
    QUOTA_NAME,
    QUOTA_NAME_LEGACY,
    TREE_QUOTA_NAME,
)
from tests.properties.engine_kit import build_pod, build_unit, changed, condition, moment

NAMED = "ns/u"
STRAYS = group_of_strays(NAMED, {QUOTA_NAME: "a"})
OF_A, OF_B = (group_of_strays(NAMED, {QUOTA_NAME: each}) for each in "ab")


def unit(
    uid: str = "uid-u", *, created: int = 5, job: str = "", adopted: bool = False
) -> QueueUnit:
    of = build_unit("u", "a", uid=uid, created=created, job=job)
    if not adopted:
        return of
    return changed(of, 2, "Running", conditions=(condition("Adopted", "True"),))


class Pods(PodAccounting):
    """Pod accounting with the units that it was given, as the registry has them."""

    def __init__(self) -> None:
        self.units: dict[str, QueueUnit] = {}
        super().__init__(self.units.get)

    def apply(self, unit: QueueUnit) -> None:
        self.on_unit(unit, self.units.get(unit.metadata.key))
        self.units[unit.metadata.key] = unit

    def forget(self, key: str) -> None:
        self.on_unit_gone(self.units.pop(key))


def reported(*facts: Pod | QueueUnit) -> Pods:
    pods = Pods()
    for fact in facts:
        if isinstance(fact, Pod):
            pods.on_pod(fact)
        else:
            pods.apply(fact)
        pods.validate()
    return pods


def living(pods: PodAccounting, *groups: str) -> list[Amounts]:
    pods.validate()
    return [pods.living(group).amounts for group in groups]


class TestByName:
    POD = build_pod("p", unit=NAMED, cpu=2, created=6)

    def test_unit_first(self) -> None:
        assert living(reported(unit(), self.POD), "uid-u", STRAYS) == [{"cpu": 2000}, {}]

    def test_pod_first_it_is_a_stray_until_the_unit_arrives(self) -> None:
        pods = reported(self.POD)
        assert living(pods, STRAYS) == [{"cpu": 2000}]
        pods.apply(unit())
        assert living(pods, "uid-u", STRAYS) == [{"cpu": 2000}, {}]

    def test_it_stays_with_a_deleted_unit(self) -> None:
        pods = reported(unit(), self.POD)
        pods.forget(NAMED)
        assert living(pods, "uid-u", STRAYS) == [{"cpu": 2000}, {}]
        pods.on_pod(replace(self.POD, spec=replace(self.POD.spec, node_name="")))
        assert living(pods, "uid-u") == [{"cpu": 2000}], "whatever changes on it"

    def test_a_recreated_unit_does_not_inherit_older_pods(self) -> None:
        pods = reported(unit(), self.POD)
        pods.forget(NAMED)
        pods.apply(unit("uid-2", created=7))
        assert living(pods, "uid-u", "uid-2") == [{"cpu": 2000}, {}]

    def test_a_recreated_unit_of_the_same_job_inherits_its_pods(self) -> None:
        pods = reported(unit(), self.POD)
        pods.forget(NAMED)
        pods.apply(unit("uid-2", created=7, adopted=True))
        assert living(pods, "uid-u", "uid-2") == [{}, {"cpu": 2000}]

    @pytest.mark.parametrize(
        ("job_created", "whose"),
        [
            pytest.param(6, "uid-2", id="the job that ran"),
            pytest.param(7, STRAYS, id="a later job of that name"),
        ],
    )
    def test_the_age_of_the_job_decides(self, job_created: int, whose: str) -> None:
        marks: dict[str, str] = {JOB_CREATED_AT: moment(job_created)}
        later = build_unit("u", "a", uid="uid-2", created=8, annotations=marks)
        later = changed(later, 2, "Running", conditions=(condition("Adopted", "True"),))
        assert reported(later, self.POD).has_living(whose)
        assert reported(self.POD, later).has_living(whose)

    def test_pods_of_its_own_job_are_its_own_whatever_their_times(self) -> None:
        pod = build_pod("p", unit=NAMED, owner="job-1", cpu=2, created=6)
        pods = reported(pod, unit("uid-2", created=7, job="job-1"))
        assert pods.has_living("uid-2")
        pods = reported(pod, unit("uid-2", created=7, job="job-2"))
        assert not pods.has_living("uid-2")

    def test_pods_as_old_as_its_job_are_its_own(self) -> None:
        for made, whose in ((6, "uid-2"), (7, STRAYS)):
            job: dict[str, str] = {JOB_CREATED_AT: moment(made)}
            later = build_unit("u", "a", uid="uid-2", created=7, annotations=job)
            assert reported(later, self.POD).has_living(whose)
            assert reported(self.POD, later).has_living(whose)

    def test_an_older_stray_stays_a_stray(self) -> None:
        pods = reported(self.POD, unit("uid-2", created=7))
        assert living(pods, STRAYS, "uid-2") == [{"cpu": 2000}, {}]


def placed(of: QueueUnit, quota: str) -> QueueUnit:
    placement = Placement(quota=quota, labels=of.metadata.labels)
    return changed(of, 2, "Running", placement=placement)


BY_NAMESPACE = build_unit("u", "", uid="uid-u")
OTHER_TREE = build_pod("p", unit=NAMED)
OTHER_TREE.metadata.labels[TREE_QUOTA_NAME] = "b"


@pytest.mark.parametrize(
    ("of", "pod", "is_own"),
    [
        pytest.param(unit(), build_pod("p", unit=NAMED, created=6), True, id="the unit's quota"),
        pytest.param(
            unit(), build_pod("p", unit=NAMED, created=6, quota="b"), False, id="another quota"
        ),
        pytest.param(
            unit(), build_pod("p", unit=NAMED, created=6, quota=""), False, id="no quota at all"
        ),
        pytest.param(
            unit(job="job-1"),
            build_pod("p", unit=NAMED, created=6, quota="b", owner="job-1"),
            False,
            id="another quota, although its job controls it",
        ),
        pytest.param(
            unit(), build_pod("p", unit=NAMED, created=6, namespace="b"), False, id="from elsewhere"
        ),
        pytest.param(
            unit(job="job-1"),
            build_pod("p", owner="job-1", namespace="b"),
            False,
            id="of a job elsewhere that its unit only claims",
        ),
        pytest.param(unit(created=0), OTHER_TREE, False, id="another node of a tree"),
        pytest.param(
            BY_NAMESPACE, build_pod("p", unit=NAMED, quota=""), True, id="both by their namespace"
        ),
        pytest.param(
            placed(BY_NAMESPACE, "n"),
            build_pod("p", unit=NAMED, quota="n"),
            True,
            id="stamped with the quota of the namespace",
        ),
        pytest.param(
            placed(BY_NAMESPACE, "n"),
            build_pod("p", unit=NAMED, quota="b"),
            False,
            id="by its namespace, and another quota",
        ),
        pytest.param(
            changed(BY_NAMESPACE, 2, "Running"),
            build_pod("p", unit=NAMED, quota="n"),
            True,
            id="admitted by an older version",
        ),
        pytest.param(
            BY_NAMESPACE, build_pod("p", unit=NAMED, quota="n"), False, id="it waits: unknown"
        ),
    ],
)
def test_a_pod_is_charged_with_a_unit_only_where_it_may_be(
    of: QueueUnit, pod: Pod, *, is_own: bool
) -> None:
    assert reported(of, pod).has_living("uid-u") is is_own
    assert reported(pod, of).has_living("uid-u") is is_own


def test_with_two_units_of_one_job_the_one_of_the_pods_quota_counts() -> None:
    real = build_unit("u", "a", uid="uid-u", job="job-1")
    trick = build_unit("early", "b", uid="uid-e", job="job-1")
    pod = build_pod("p", owner="job-1", quota="a")
    assert reported(trick, real, pod).has_living("uid-u")
    assert reported(pod, real, trick).has_living("uid-u")


class TestHeld:
    GATED = replace(
        build_pod("p", cpu=1),
        spec=PodSpec(scheduling_gates=(PodSchedulingGate(name=ADMISSION_GATE),)),
    )

    def test_a_pod_that_the_queue_holds_belongs_to_no_unit(self) -> None:
        pods = reported(self.GATED)
        assert pods.take_changed_foreign() == []

    def test_a_pod_that_others_hold_is_foreign(self) -> None:
        gate = PodSchedulingGate(name="example.com/other")
        pods = reported(replace(self.GATED, spec=PodSpec(scheduling_gates=(gate,))))
        assert [key for key, _ in pods.take_changed_foreign()] == ["ns/p"]


class TestByOwner:
    POD = build_pod("p", owner="job-1", cpu=1)

    def test_the_job(self) -> None:
        assert living(reported(self.POD, unit(job="job-1")), "uid-u") == [{"cpu": 1000}]
        assert living(reported(unit(job="job-1"), self.POD), "uid-u") == [{"cpu": 1000}]

    def test_a_child_of_the_job_that_the_unit_lists(self) -> None:
        listed = changed(unit(job="job-0"), 2, pod_owners=("job-1", "job-2"))
        pods = reported(unit(job="job-0"), self.POD)
        assert living(pods, "uid-u") == [{}]
        pods.apply(listed)
        assert living(pods, "uid-u") == [{"cpu": 1000}]
        pods.apply(changed(unit(job="job-0"), 3))
        assert living(pods, "uid-u") == [{"cpu": 1000}], "it was the unit's, and it is alive"

    def test_the_job_itself_may_be_listed(self) -> None:
        listed = changed(unit(job="job-1"), 2, pod_owners=("job-1",))
        pods = reported(self.POD, listed)
        pods.apply(changed(listed, 3, pod_owners=()))
        pods.apply(listed)
        pods.forget(NAMED)
        assert living(pods, "uid-u") == [{"cpu": 1000}]

    def test_the_name_precedes_the_owner_where_that_unit_exists(self) -> None:
        pod = build_pod("p", owner="job-1", unit="ns/other", created=6)
        other = build_unit("other", "a", uid="uid-o", created=5)
        assert living(reported(other, unit(job="job-1"), pod), "uid-u", "uid-o") == [
            {},
            {"cpu": 1000},
        ]
        pods = reported(unit(job="job-1"), pod)
        assert living(pods, "uid-u", group_of_strays("ns/other", {})) == [{"cpu": 1000}, {}]
        pods.apply(other)
        assert living(pods, "uid-u", "uid-o") == [{}, {"cpu": 1000}]

    def test_two_units_of_one_job(self) -> None:
        twin = build_unit("a", "a", uid="uid-a", job="job-1")
        for order in ((unit(job="job-1"), twin), (twin, unit(job="job-1"))):
            pods = reported(*order, self.POD)
            assert living(pods, "uid-a", "uid-u") == [{"cpu": 1000}, {}]
            pods.forget("ns/a")
            assert living(pods, "uid-a", "uid-u") == [{}, {"cpu": 1000}]


def controlled_by(uid: str, *, group: str = "scheduling.x-k8s.io", unit: str = NAMED) -> Pod:
    """Return a pod, older than the unit "u", whose controller is a unit of that name."""
    pod = build_pod("p", unit=unit, quota="a", cpu=2, created=1)
    owner = OwnerReference(
        api_version=f"{group}/v1alpha1", kind="QueueUnit", name="u", uid=Uid(uid), controller=True
    )
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


class TestByUnit:
    """Whoever makes the pods of a unit may have the unit itself control them."""

    @pytest.mark.parametrize("annotated", [NAMED, "", "elsewhere/u"])
    def test_its_own_uid_proves_it_whatever_their_times(self, annotated: str) -> None:
        pod = controlled_by("uid-u", unit=annotated)
        assert living(reported(pod, unit()), "uid-u", STRAYS) == [{"cpu": 2000}, {}]
        assert living(reported(unit(), pod), "uid-u", STRAYS) == [{"cpu": 2000}, {}]

    @pytest.mark.parametrize("annotated", [NAMED, ""])
    def test_an_older_pod_of_an_earlier_unit_is_a_stray(self, annotated: str) -> None:
        pod = controlled_by("uid-0", unit=annotated)
        assert living(reported(unit(), pod), "uid-u", STRAYS) == [{}, {"cpu": 2000}]

    def test_the_annotation_precedes_the_controller(self) -> None:
        other = build_unit("other", "a", uid="uid-o", created=0)
        pods = reported(unit(), other, controlled_by("uid-u", unit="ns/other"))
        assert living(pods, "uid-u", "uid-o") == [{}, {"cpu": 2000}]
        pods.forget("ns/other")
        assert living(pods, "uid-u", "uid-o") == [{}, {"cpu": 2000}], "as long as it lives"

    def test_a_kind_of_that_name_in_another_group_is_none(self) -> None:
        pods = reported(unit(), controlled_by("uid-u", group="example.com", unit=""))
        assert pods.groups() == []


class TestForeign:
    POD = build_pod("p", quota="a", cpu=1)

    def test_it_is_reported_once(self) -> None:
        pods = reported(self.POD)
        want, _ = read_counted(self.POD)
        assert pods.take_changed_foreign() == [("ns/p", want)]
        assert not pods.has_changed
        assert pods.take_changed_foreign() == []

    def test_it_is_removed(self) -> None:
        pods = reported(self.POD)
        pods.take_changed_foreign()
        pods.on_pod_gone(self.POD)
        assert pods.take_changed_foreign() == [("ns/p", None)]

    def test_it_finds_its_unit(self) -> None:
        pods = reported(build_pod("p", owner="job-1"))
        pods.take_changed_foreign()
        pods.apply(unit(job="job-1"))
        assert pods.take_changed_foreign() == [("ns/p", None)]
        assert pods.take_changed_groups() == [("uid-u", NAMED)]


class TestGroups:
    POD = build_pod("p", unit=NAMED, created=6)

    def test_a_group_knows_its_unit_after_its_last_pod(self) -> None:
        pods = reported(unit(), self.POD)
        pods.on_pod_gone(self.POD)
        assert pods.groups() == []
        assert pods.take_changed_groups() == [("uid-u", NAMED)]
        assert pods.take_changed_groups() == []

    def test_a_pod_that_no_longer_names_its_unit_still_belongs_to_it(self) -> None:
        pods = reported(unit(), self.POD)
        pods.take_changed_groups()
        nameless = replace(self.POD, metadata=replace(self.POD.metadata, annotations={}))
        pods.on_pod(nameless)
        assert pods.groups() == pods.take_changed_groups() == [("uid-u", NAMED)]

    def test_strays_have_none(self) -> None:
        pods = reported(self.POD)
        assert pods.groups() == pods.take_changed_groups() == [(STRAYS, "")]

    def test_a_new_unit_is_known_before_it_is_found(self) -> None:
        pods = reported(self.POD)
        pods.on_unit(unit(), None)
        assert pods.take_changed_groups() == [(STRAYS, ""), ("uid-u", NAMED)]


class TestLife:
    POD = build_pod("p", unit=NAMED)

    def test_ended_pods_occupy_nothing(self) -> None:
        for phase in ("Succeeded", "Failed"):
            pods = reported(unit(created=0), self.POD)
            pods.take_changed_groups()
            pods.on_pod(build_pod("p", unit=NAMED, phase=phase))
            assert not pods.has_living("uid-u")
            assert pods.take_changed_groups() == [("uid-u", NAMED)]

    def test_pending_and_terminating_pods_occupy(self) -> None:
        meta = replace(self.POD.metadata, deletion_timestamp=moment(9))
        terminating = replace(self.POD, metadata=meta)
        for pod in (build_pod("p", unit=NAMED, phase="Pending", created=6), terminating):
            assert reported(unit(created=0), pod).has_living("uid-u")

    def test_a_repeated_pod_changes_nothing(self) -> None:
        pods = reported(unit(created=0), self.POD)
        pods.take_changed_groups()
        pods.on_pod(self.POD)
        pods.apply(unit(created=0))
        assert not pods.has_changed

    def test_late_events_of_an_earlier_pod_of_that_name(self) -> None:
        pods = reported(unit(created=0), build_pod("p", unit=NAMED, uid="new"))
        pods.on_pod_gone(build_pod("p", unit=NAMED, uid="old"))
        assert pods.has_living("uid-u")
        pods.on_pod_gone(build_pod("unknown"))

    def test_a_new_pod_under_an_old_name_is_another(self) -> None:
        pods = reported(unit(), build_pod("p", unit=NAMED, uid="old", created=6))
        pods.forget(NAMED)
        pods.on_pod(build_pod("p", unit=NAMED, uid="new", created=9))
        assert living(pods, "uid-u", STRAYS) == [{}, {"cpu": 1000}]

    def test_sums_follow(self) -> None:
        pods = reported(unit(created=0), self.POD, build_pod("q", unit=NAMED, cpu=3))
        assert living(pods, "uid-u") == [{"cpu": 4000}]
        pods.on_pod(build_pod("q", unit=NAMED, cpu=0))
        assert living(pods, "uid-u") == [{"cpu": 1000}]
        assert pods.living("uid-u").pods == 2
        pods.on_pod_gone(self.POD)
        assert living(pods, "uid-u") == [{}], "zeros are left out"
        assert pods.living("uid-u").pods == 1
        assert pods.has_living("uid-u")

    def test_returned_amounts_do_not_change_later(self) -> None:
        pods = reported(unit(created=0), self.POD)
        before = pods.living("uid-u")
        pods.on_pod(build_pod("q", unit=NAMED, cpu=3))
        assert before == Occupancy({"cpu": 1000}, 1)


def test_an_unreadable_request_is_reported_when_it_arrives() -> None:
    pods = Pods()
    broken = build_pod("p", cpu="many")
    problem = pods.on_pod(broken)
    assert problem is not None
    assert "many" in problem
    assert pods.on_pod(broken) is None, "once"
    assert pods.living("") == Occupancy({}, 0)
    pods.validate()


def test_strays_are_known_by_their_first_pod() -> None:
    early, late = (build_pod(name, unit=NAMED, quota="a") for name in ("b", "z"))
    early.metadata.labels["of"] = "early"
    pods = reported(late, early)
    namespace, labels = pods.labels_of(OF_A)
    assert (namespace, labels["of"]) == ("ns", "early")
    assert is_stray(OF_A)
    assert not is_stray("uid-u")


def test_strays_of_two_quotas_belong_to_two_units_of_one_name() -> None:
    pods = reported(*(build_pod(f"of-{quota}", unit=NAMED, quota=quota) for quota in "ab"))
    assert living(pods, OF_A, OF_B) == [{"cpu": 1000}, {"cpu": 1000}]
    pods.on_pod(build_pod("of-a", unit=NAMED, quota="b"))
    assert living(pods, OF_A, OF_B) == [{}, {"cpu": 2000}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {QUOTA_NAME: "q", TREE_QUOTA_NAME: "a"},
            {QUOTA_NAME: "q", TREE_QUOTA_NAME: "b"},
            id="two nodes of a tree under one quota",
        ),
        pytest.param(
            {QUOTA_NAME: "a", TREE_QUOTA_NAME: "b"},
            {QUOTA_NAME: "b", TREE_QUOTA_NAME: "a"},
            id="the other way round",
        ),
        pytest.param(
            {QUOTA_NAME: "a"}, {QUOTA_NAME_LEGACY[0]: "a"}, id="a spelling that no tree reads"
        ),
    ],
)
def test_strays_whose_labels_a_plugin_reads_differently_belong_to_two_units(
    one: dict[str, str], other: dict[str, str]
) -> None:
    strays = [build_pod("of-one", unit=NAMED), build_pod("of-other", unit=NAMED)]
    for pod, labels in zip(strays, (one, other), strict=True):
        pod.metadata.labels.clear()
        pod.metadata.labels.update(labels)
    groups = [group_of_strays(NAMED, labels) for labels in (one, other)]
    assert living(reported(*strays), *groups) == [{"cpu": 1000}, {"cpu": 1000}]


def test_a_fork_is_independent() -> None:
    pods = reported(unit(created=0), build_pod("p", unit=NAMED))
    units = dict(pods.units)
    twin = pods.fork(units.get)
    twin.on_pod(build_pod("q", unit=NAMED))
    twin.on_unit_gone(units.pop(NAMED))
    pods.on_pod_gone(build_pod("p", unit=NAMED))
    assert living(pods, "uid-u") == [{}]
    assert living(twin, "uid-u") == [{"cpu": 2000}]
    assert not pods.has_living("uid-u")
