"""What there was over time, as each visitor may see it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.insight_views import RecordView
from queue_insight.record.sample_tables import REACHES, Reach, TimedSample
from queue_insight.record.samples import WHOLE, Sample, bin_of, of_queue, of_quota
from tests.queue_insight.page.page_kit import ROOT, TENANT, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

BEGIN: Final = 1_800_000_000
PATH: Final = "/page/over-time"
OWN: Final = "default"
"""The namespace that the tenant may read."""

Json = dict[str, Any]


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    world = LoginWorld(kit)
    world.record = RecordView(state="recording")
    return world


def give(world: LoginWorld, of: str, *samples: Sample | None) -> None:
    """Have one sample a minute of a queue, a quota or the whole; None: it is missing."""
    found = [
        TimedSample(BEGIN + 60 * minute, 60, each)
        for minute, each in enumerate(samples)
        if each is not None
    ]
    world.samples = lambda asked, *_: found if asked == of else []


def ask(world: LoginWorld, token: str, query: str = "") -> Json:
    with browser(world, token) as client:
        got = client.get(f"{PATH}?{query}")
        assert got.status_code == 200, got.text
        answer: Json = got.json()
        return answer


def test_numbers_are_in_cores_bytes_and_seconds(world: LoginWorld) -> None:
    waits = {bin_of(60.0): 9, bin_of(3_600.0): 1}
    first = Sample(2, 1, {"cpu": 1_500, "memory": 1_024}, waits)
    give(world, of_quota("team"), first, Sample(1, 2, {"cpu": 3_000}))
    got = ask(world, ROOT, "quota=team")
    assert got["times"] == [BEGIN, BEGIN + 60]
    assert (got["pending"], got["admitted"]) == ([2, 1], [1, 2])
    assert got["used"] == {"cpu": [1.5, 3.0], "memory": [1_024, 0]}
    assert (got["min"], got["max"]) == ({"cpu": 4}, {"cpu": 4})
    assert got["waitP50"] == [pytest.approx(60, rel=0.06), None]
    assert got["waitP90"][0] == pytest.approx(60, rel=0.06)
    assert (got["sumsHidden"], got["recorded"], got["dashboards"]) == (False, True, "")
    assert got["until"] == int(world.clock.now().timestamp())


def test_a_gap_has_nothing_and_is_not_hidden(world: LoginWorld) -> None:
    give(world, WHOLE, Sample(1), None, None, Sample(2))
    for token in (ROOT, TENANT):
        got = ask(world, token)
        assert got["times"] == [BEGIN, BEGIN + 60, BEGIN + 180]
        assert got["pending"] == [1, None, 2]
        assert not got["sumsHidden"]


NAMES: Final = {
    "of nobody": ((), True),
    "of the visitor": (((OWN,),), True),
    "of one other": (((OWN, "b"),), False),
    "of two others": ((("b", "c"),), False),
    "of three others": (((OWN, "b", "c", "d"),), True),
    "one sum of several tells": ((("b", "c", "d"), ("b",)), False),
    "of pods without a unit": (((OWN, ""),), False),
    "too many to name": (None, False),
}


@pytest.mark.parametrize(("namespaces", "is_shown"), NAMES.values(), ids=NAMES)
def test_sums_over_one_or_two_namespaces_are_hidden(
    world: LoginWorld, namespaces: tuple[tuple[str, ...], ...] | None, is_shown: bool
) -> None:
    sample = Sample(2, 1, {"cpu": 1_000}, {}, namespaces)
    for of, query, counts in (
        (WHOLE, "", [2]),
        (of_queue("team"), "queue=team", [2]),
        (of_quota("team"), "quota=team", [2] if is_shown else [None]),
    ):
        give(world, of, sample)
        assert ask(world, ROOT, query)["used"] == {"cpu": [1]}
        got = ask(world, TENANT, query)
        assert got["used"] == ({"cpu": [1]} if is_shown else {}), query
        assert got["pending"] == counts, "of a queue they are shown to all"
        assert got["sumsHidden"] is not is_shown


@pytest.mark.parametrize(
    ("names", "is_shown"),
    [
        ((OWN,), True),
        ((OWN, "b"), False),
        (("b", "c"), False),
        (("b", "c", "d"), True),
        (None, False),
    ],
)
def test_waits_of_one_or_two_namespaces_are_hidden(
    world: LoginWorld, names: tuple[str, ...] | None, is_shown: bool
) -> None:
    give(world, of_queue("team"), Sample(waits={0: 4}, admitted_from=names))
    assert ask(world, ROOT, "queue=team")["waitP90"] == [0.0]
    got = ask(world, TENANT, "queue=team")
    want = [0.0] if is_shown else [None]
    assert (got["waitP50"], got["waitP90"]) == (want, want)
    assert got["sumsHidden"] is not is_shown


@pytest.mark.parametrize("reach", REACHES)
def test_what_is_asked_is_read(world: LoginWorld, reach: str) -> None:
    asked = []

    def samples(of: str, reach: Reach, now: float) -> list[TimedSample]:
        asked.append((of, reach, now))
        return []

    world.samples = samples
    ask(world, ROOT, f"range={reach}&queue=team")
    assert asked == [(of_queue("team"), REACHES[reach], world.clock.now().timestamp())]


def test_a_queue_that_is_gone_is_shown_as_far_as_it_is_recorded(world: LoginWorld) -> None:
    give(world, of_queue("gone"), Sample(), Sample(3))
    assert ask(world, ROOT, "queue=gone")["pending"] == [0, 3]
    give(world, of_queue("gone"), Sample())
    with browser(world, ROOT) as client:
        for query in ("queue=gone", "quota=gone"):
            got = client.get(f"{PATH}?{query}")
            assert (got.status_code, "is unknown" in got.text) == (404, True)


@pytest.mark.parametrize(
    ("query", "status"),
    [("range=2h", 422), ("queue=team&quota=team", 422), (f"queue={'x' * 300}", 422)],
)
def test_what_cannot_be_asked(world: LoginWorld, query: str, status: int) -> None:
    give(world, WHOLE)
    with browser(world, ROOT) as client:
        assert client.get(f"{PATH}?{query}").status_code == status


def test_without_a_record_there_is_nothing(world: LoginWorld) -> None:
    world.record = RecordView(state="off")
    world.dashboards = "https://grafana.example.com/d/x"
    got = ask(world, ROOT)
    assert (got["times"], got["recorded"]) == ([], False)
    assert got["dashboards"] == "https://grafana.example.com/d/x"


def test_a_record_that_cannot_be_read_is_told(world: LoginWorld) -> None:
    def fail(*_: object) -> list[TimedSample]:
        raise NoStateError("the record cannot be read: why")

    world.samples = fail
    with browser(world, ROOT) as client:
        got = client.get(PATH)
    assert (got.status_code, got.json()["detail"]) == (503, "the record cannot be read: why")
