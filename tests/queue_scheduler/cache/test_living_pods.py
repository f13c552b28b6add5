"""What will live: living pods, those that end, and those that are granted and do not live."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.living_pods import PodShape, firm_part, occupied_by, sum_of
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, PodSetDemand
from shared_api.resource_list import Amounts, add, scale


def grant(*sets: tuple[str, int, int]) -> Granted:
    """Return a grant of (name, pods, cpu of each)."""
    pod_sets = tuple(PodSetDemand(name, count, {"cpu": cpu}) for name, count, cpu in sets)
    total: Amounts = {}
    for each in pod_sets:
        total = add(total, scale(each.per_pod, each.count))
    return Granted(Occupancy(total, sum(each.count for each in pod_sets)), pod_sets)


def shapes(*pods: tuple[str, int] | tuple[str, int, str]) -> dict[PodShape, int]:
    """Return living pods of (mark, cpu[, "ends"])."""
    found: dict[PodShape, int] = {}
    for mark, cpu, *ends in pods:
        shape = PodShape((("cpu", cpu),), mark, bool(ends))
        found[shape] = found.get(shape, 0) + 1
    return found


TWO = grant(("main", 2, 10))
BOTH = grant(("head", 1, 10), ("worker", 2, 4))


@pytest.mark.parametrize(
    ("granted", "pods", "cpu", "count"),
    [
        pytest.param(TWO, (), 20, 2, id="none lives yet"),
        pytest.param(TWO, (("", 10),), 20, 2, id="one lives, one is missing"),
        pytest.param(TWO, (("", 20),), 30, 2, id="one was resized up, the other failed"),
        pytest.param(TWO, (("", 5), ("", 10)), 20, 2, id="resized down: it asks for 10 again"),
        pytest.param(TWO, (("", 20), ("", 5)), 30, 2, id="one up and one down do not make up"),
        pytest.param(TWO, (("", 10, "ends"), ("", 10)), 30, 3, id="one ends beside the others"),
        pytest.param(
            TWO, (("", 5, "ends"), ("", 10), ("", 10)), 25, 3, id="one ends beside its replacement"
        ),
        pytest.param(TWO, (("", 10), ("", 10), ("", 10)), 30, 3, id="more live than are granted"),
        pytest.param(TWO, (("", 2), ("", 2), ("", 2)), 20, 3, id="granted as a whole"),
        pytest.param(TWO, (("other", 5),), 20, 2, id="the mark of another set"),
        pytest.param(grant(("main", 0, 10)), (("", 6),), 6, 1, id="all given back, and one lives"),
        pytest.param(BOTH, (("worker", 8),), 22, 3, id="each set by itself"),
        pytest.param(
            BOTH, (("head", 20), ("worker", 1)), 28, 3, id="a larger head, a small worker"
        ),
        pytest.param(BOTH, (("worker", 1),) * 3, 22, 4, id="more of a marked set"),
        pytest.param(BOTH, (("", 9),), 18, 3, id="no mark: it may be any of them"),
        pytest.param(BOTH, (("", 9), ("", 9), ("", 9)), 27, 3, id="no marks: the larger, as sums"),
        pytest.param(BOTH, (("head", 10), ("", 9)), 19, 3, id="some have marks"),
        pytest.param(Granted(TWO.occupancy), (("", 30),), 30, 2, id="no sets: the larger, as sums"),
        pytest.param(
            Granted(TWO.occupancy), (("", 10, "ends"),) * 2, 20, 2, id="no sets: it makes no pods"
        ),
    ],
)
def test_what_will_live(
    granted: Granted, pods: tuple[tuple[str, int], ...], cpu: int, count: int
) -> None:
    got = occupied_by(granted, shapes(*pods))
    assert (got.amounts["cpu"], got.pods) == (cpu, count)


def test_each_resource_by_itself() -> None:
    template: Amounts = {"cpu": 10, "memory": 5}
    granted = Granted(Occupancy(scale(template, 2), 2), (PodSetDemand("main", 2, template),))
    resized = {PodShape((("cpu", 5), ("memory", 9), ("gpu", 1))): 1}
    assert occupied_by(granted, resized).amounts == {"cpu": 20, "memory": 14, "gpu": 1}


def test_a_grant_that_its_pods_do_not_share_evenly_is_charged_as_it_is_recorded() -> None:
    granted = Granted(Occupancy({"cpu": 100}, 3), (PodSetDemand("main", 3, {"cpu": 33}),))
    for pods in ((("", 33),), (("", 34),) * 3):
        assert occupied_by(granted, shapes(*pods)).amounts["cpu"] in {100, 102}
    assert occupied_by(
        granted,
        shapes(
            ("", 33),
        ),
    ).amounts == {"cpu": 100}


def test_pods_as_granted_share_the_amounts_of_the_grant() -> None:
    assert occupied_by(TWO, shapes(("", 10), ("", 10))) is TWO.occupancy


def test_what_may_not_be_preempted_by_its_own_label() -> None:
    firm = PodShape((("cpu", 3),), is_firm=True)
    pods = {**shapes(("", 5)), firm: 2}
    assert (firm_part(pods), firm_part(shapes(("", 5)))) == ({"cpu": 6}, {})
    assert sum_of(pods) == Occupancy({"cpu": 11}, 3)
