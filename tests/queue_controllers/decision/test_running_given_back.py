"""What a released job gives back for good, and what it grows by."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_controllers.decision.grants import outgrows
from queue_controllers.decision.running import build_growth, build_reclaimable
from queue_controllers.jobframework.generic_job import (
    JobPodSet,
)
from shared_api.objects.queue_unit import Admission, ReclaimablePod
from tests.job_situations import facts, made, pod_set


def done(of: JobPodSet) -> JobPodSet:
    return replace(of, is_done=True)


def sized(count: int, *, work_left: int) -> JobPodSet:
    return replace(pod_set(count), is_sized=True, work_left=work_left)


def test_released_pods_only_grow_and_the_last_ones_wait_for_the_end() -> None:
    unit = made(facts(pod_set(4)))
    assert build_reclaimable(facts(pod_set(4)), unit) == []
    assert build_reclaimable(facts(pod_set(3)), unit) == [{"name": "main", "count": 1}]
    given = made(facts(pod_set(4)), reclaimable_pods=(ReclaimablePod(name="main", count=2),))
    assert build_reclaimable(facts(pod_set(3)), given) == []
    assert build_reclaimable(facts(done(pod_set(0))), given) == []


def test_a_job_that_is_scaled_to_zero_releases_everything() -> None:
    all_four = [{"name": "main", "count": 4}]
    assert build_reclaimable(facts(pod_set(0)), made(facts(pod_set(4)))) == all_four
    given = made(facts(pod_set(4)), reclaimable_pods=(ReclaimablePod(name="main", count=3),))
    assert build_reclaimable(facts(pod_set(0)), given) == all_four


@pytest.mark.parametrize("count", [5, 2**31 - 1])
def test_more_than_was_granted_is_not_counted(count: int) -> None:
    edited = made(facts(pod_set(4)), reclaimable_pods=(ReclaimablePod(name="main", count=count),))
    assert build_reclaimable(facts(pod_set(3)), edited) == [{"name": "main", "count": 4}]
    assert build_growth(facts(pod_set(3)), edited)["spec"]["podSet"][0]["count"] == 7
    assert outgrows(facts(pod_set(1)), edited, was_released=True)


def test_no_more_is_released_than_the_field_holds() -> None:
    raised = (Admission(name="main", replicas=2**63 - 1),)
    edited = made(facts(pod_set(4)), admissions=raised)
    most = [{"name": "main", "count": 2**31 - 1}]
    assert build_reclaimable(facts(pod_set(4)), edited) == most
    given = made(
        facts(pod_set(4)),
        admissions=raised,
        reclaimable_pods=(ReclaimablePod(name="main", count=2**31 - 1),),
    )
    assert build_growth(facts(pod_set(4)), given)["spec"]["podSet"][0]["count"] == 2**31 - 1


def test_one_set_done_and_another_scaled_to_zero_are_both_released() -> None:
    of = facts(done(pod_set(0, name="a")), pod_set(0, name="b"))
    got = build_reclaimable(of, made(facts(pod_set(1, name="a"), pod_set(2, name="b"))))
    assert got == [{"name": "a", "count": 1}, {"name": "b", "count": 2}]


def test_growth_counts_released_pods_as_gone() -> None:
    given = made(facts(pod_set(4)), reclaimable_pods=(ReclaimablePod(name="main", count=2),))
    assert build_growth(facts(pod_set(2)), given) == {}
    assert build_growth(facts(pod_set(3)), given)["spec"]["podSet"][0]["count"] == 5


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(pod_set(1), 0, id="it may have its four pods again"),
        pytest.param(pod_set(0), 0, id="scaled to nothing"),
        pytest.param(sized(1, work_left=9), 0, id="work is left for four"),
        pytest.param(sized(1, work_left=3), 1, id="one of them is not needed any more"),
        pytest.param(sized(3, work_left=3), 1, id="it was not made smaller"),
        pytest.param(sized(0, work_left=0), 4, id="no work is left, and another set has some"),
        pytest.param(sized(6, work_left=3), 0, id="it has grown"),
    ],
)
def test_a_job_that_may_have_its_grant_again_gives_back_what_is_finished(
    of: JobPodSet, want: int
) -> None:
    sets = (replace(of, is_sized=True), pod_set(1, name="b"))
    got = build_reclaimable(facts(*sets), made(facts(pod_set(4), sets[1])), keeps_grants=True)
    assert got == ([{"name": "main", "count": want}] if want else [])


def test_what_the_policy_does_not_hold_to_its_grant_is_given_back() -> None:
    given = build_reclaimable(facts(pod_set(3)), made(facts(pod_set(4))), keeps_grants=True)
    assert given == [{"name": "main", "count": 1}]
