"""What edits change over a time: a clear effect is told from noise, on the same random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from math import inf

import pytest
from msgspec.structs import replace

from queue_insight.forecast.draws import uniform
from queue_insight.insight.virtual_cluster import Arrival, RunSeconds
from queue_insight.what_if.edit import Edit
from queue_insight.what_if.horizon import Horizon, answer_horizon
from queue_insight.what_if.measures import Comparison, Spread, compare, quantile
from queue_insight.what_if.paths import Path
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import node
from shared_api.timestamps import rfc3339
from tests.properties.engine_kit import build_pod, build_unit, declaring
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster

DAY = 86_400.0
BASIS = "jobs run for an hour in the mean"


class HourPath:
    """A path on which runs are memoryless, and nothing arrives."""

    def __init__(self, seed: int, number: int) -> None:
        self._place = seed, number

    def runs_in(self, engine: Engine) -> RunSeconds:
        return lambda unit, _: -3600.0 * math.log(uniform(*self._place, unit.metadata.uid))

    def arrivals(self) -> Iterable[Arrival]:
        return ()


class HourPaths:
    """Some of these paths."""

    basis = BASIS

    def __init__(self, seed: int, count: int) -> None:
        self._seed, self._count = seed, count

    def paths(self) -> Iterator[Path]:
        return (HourPath(self._seed, number) for number in range(self._count))


def busy() -> SmallCluster:
    """Return two cores, a unit that has both, and nine that want one each."""
    cluster = SmallCluster(cpu=2)
    cluster.run("busy", cpu=2)
    for number in range(9):
        unit = build_unit(f"u{number}", "a", cpu=1)
        meta = replace(unit.metadata, creation_timestamp=rfc3339(WALL))
        assert cluster.apply(replace(unit, metadata=meta)) == []
    return cluster


def look(
    cluster: SmallCluster, *edits: Edit, seed: int = 1, seconds: float = DAY, paths: int = 20
) -> Horizon:
    source, moment = HourPaths(seed, paths), Moment(5.0, WALL)
    return answer_horizon(cluster.engine.fork(), edits, moment, seconds, source)


def larger(cpu: int) -> Edit:
    return Edit(kind="ElasticQuota", name="a", patch={"spec": {"max": {"cpu": cpu}}})


def test_a_larger_quota_shortens_waits_clearly() -> None:
    found = look(busy(), larger(8))
    wait = found.comparisons["quota/a", "waitP90"]
    assert wait.is_clear
    assert wait.difference.p90 is not None
    assert wait.difference.p90 < 0
    assert (found.paths, found.basis, found.seconds) == (20, BASIS, DAY)


def test_without_an_edit_nothing_differs() -> None:
    for name, each in look(busy()).comparisons.items():
        assert each.difference in {Spread(0.0, 0.0, 0.0), Spread(None, None, None)}, name
        assert each.before == each.after
        assert not each.is_clear


def test_an_edit_of_another_queue_is_no_effect() -> None:
    edit = Edit(kind="Queue", name="other", patch={"spec": {"priority": 3}})
    assert not any(each.is_clear for each in look(busy(), edit).comparisons.values())


def test_the_same_seed_gives_the_same_answer_and_another_does_not() -> None:
    cluster = busy()
    first, again = look(cluster, larger(3)), look(cluster, larger(3))
    assert first == again
    assert look(cluster, larger(3), seed=2) != first


def test_units_that_wait_at_the_end_count_as_the_longest() -> None:
    found = look(busy(), larger(8), seconds=1.0)
    wait = found.comparisons["queue/a", "waitP50"]
    assert (wait.before.p50, wait.after.p50, wait.compared) == (None, 0.0, 0)


def test_declared_times_end_runs_and_use_is_an_average() -> None:
    cluster = SmallCluster(cpu=2)
    cluster.apply(declaring(build_unit("one", "a", cpu=2), 600))
    found = look(cluster, seconds=1200.0, paths=1).comparisons
    assert found["", "completed"].before.p50 == 1.0
    assert found["resource/cpu", "used"].before.p50 == 1000.0


def test_units_on_a_removed_node_make_room() -> None:
    cluster = SmallCluster(node("n1", allocatable={"cpu": 8}), cpu=2)
    cluster.run("busy", cpu=2)
    cluster.engine.on_pod(build_pod("busy", cpu=1, unit="ns/busy", node="n1", created=1))
    cluster.wait("next", "a", cpu=1)
    gone = look(cluster, Edit(kind="Node", name="n1", patch=None), seconds=1.0, paths=1)
    wait = gone.comparisons["queue/a", "waitP50"]
    assert (wait.before.p50 is None, wait.after.p50 is None) == (True, False)


class Late:
    """One path, on which a unit arrives after a minute."""

    basis = "one unit arrives"

    def paths(self) -> Iterable[Path]:
        return (self,)

    def runs_in(self, engine: Engine) -> RunSeconds:
        return lambda _unit, _ran: 100.0

    def arrivals(self) -> Iterable[Arrival]:
        unit = build_unit("late", "a", cpu=1)
        return (Arrival(65.0, replace(unit, metadata=replace(unit.metadata, namespace="new"))),)


def test_arrivals_of_a_path_wait_from_their_own_creation() -> None:
    cluster, moment = SmallCluster(cpu=2), Moment(5.0, WALL)
    found = answer_horizon(cluster.engine.fork(), (), moment, 600.0, Late())
    assert found.comparisons["queue/a", "waitP50"].before.p50 == 0.0
    assert found.comparisons["", "completed"].before.p50 == 1.0


def test_when_the_time_is_spent_paths_that_are_whole_are_compared() -> None:
    cluster, source, moment = busy(), HourPaths(1, 20), Moment(5.0, WALL)

    def look_until(is_over: Callable[[], bool]) -> Horizon:
        fork = cluster.engine.fork()
        return answer_horizon(fork, (larger(8),), moment, DAY, source, is_over)

    looks, again = count(), count()
    assert look_until(lambda: next(looks) < 0).paths == 20
    half = next(looks) // 2
    found = look_until(lambda: next(again) >= half)
    assert 5 <= found.paths < 15
    assert found.comparisons["quota/a", "completed"].compared == found.paths
    none = look_until(lambda: True)
    assert (none.paths, none.comparisons) == (0, {})


def test_the_time_is_looked_at_while_thousands_arrive_at_once() -> None:
    class Crowd(Late):
        """One path, on which they arrive within a minute."""

        def arrivals(self) -> Iterator[Arrival]:
            for number in range(2000):
                yield Arrival(5.0 + number / 100, build_unit(f"new-{number}", "a", cpu=1))

    cluster, moment, looks = SmallCluster(cpu=2), Moment(5.0, WALL), count()
    fork = cluster.engine.fork()
    found = answer_horizon(fork, (), moment, DAY, Crowd(), lambda: next(looks) >= 50)
    assert (found.paths, next(looks)) == (0, 51), "it ends at the look that says so"


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param([10.0] * 10, [5.0] * 10, True, id="all paths differ alike"),
        pytest.param(
            [10.0] * 10, [5.0, 15.0] * 5, False, id="half of the paths differ the other way"
        ),
        pytest.param([10.0] * 4, [5.0] * 4, False, id="too few paths"),
        pytest.param([inf] * 10, [5.0] * 10, False, id="no path has both"),
        pytest.param([10.0] * 10, [5.0] * 9 + [12.0], True, id="one of ten differs"),
        pytest.param([0.1 + 0.2] * 10, [0.3] * 10, False, id="rounding is no difference"),
    ],
)
def test_a_difference_is_clear_if_most_paths_agree(
    before: list[float], after: list[float], want: bool
) -> None:
    found = compare(before, after)
    assert isinstance(found, Comparison)
    assert found.is_clear is want


@pytest.mark.parametrize(
    ("values", "part", "want"),
    [([], 0.5, inf), ([1.0], 0.9, 1.0), ([1.0, 2.0, 3.0], 0.5, 2.0), ([1.0, 2.0], 0.9, 2.0)],
    ids=["nothing", "one value", "the middle", "the greatest"],
)
def test_quantiles_are_by_the_nearest_rank(values: list[float], part: float, want: float) -> None:
    assert quantile(values, part) == want
