"""What edits change, in sentences; what changes over a time, in rows."""

from __future__ import annotations

import pytest

from koord_queue.answers.refusal import Refusal
from koord_queue.answers.what_if import (
    Comparison,
    Evicted,
    Horizon,
    Place,
    Refused,
    Resource,
    Spread,
    Started,
    WhatIf,
)
from koord_queue.show.what_if import horizon_lines, horizon_rows, what_if_lines


def reported(answer: WhatIf) -> list[str]:
    return [line.text for line in what_if_lines(answer)]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(WhatIf(), "Nothing changes at once.", id="nothing"),
        pytest.param(WhatIf(started_count=1, evicted_count=2, lost_hours=1.5),
            "1 unit starts, 0 wait for another reason, 2 are evicted"
            " (1.5 h of their pods' work is lost).", id="an eviction"),
        pytest.param(WhatIf(refused_count=1, evicted_count=1),
            "0 units start, 1 waits for another reason, 1 is evicted.", id="one of each"),
        pytest.param(WhatIf(spared_count=1),
            "0 units start, 0 wait for another reason, 0 are evicted.", id="only one is spared"),
    ],
)  # fmt: skip
def test_the_sentence(answer: WhatIf, want: str) -> None:
    assert reported(answer)[0] == want


def test_each_unit_is_told_with_its_reason() -> None:
    needs = Refusal(message="needs more cpu")
    answer = WhatIf(
        started=(Started(unit="x/a", queue="q", before=needs), Started(unit="x/b", queue="q")),
        started_count=5,
        refused=(Refused(unit="x/c", queue="q", refusal=needs, would_start=True),),
        refused_count=1,
        evicted=(Evicted(unit="x/d", reason="Preempted", for_unit="x/a", lost_hours=2.0),),
        evicted_count=1,
        spared=("x/e",),
        spared_count=1,
        unread=("edits[0].patch.spec.maxx",),
        complete=False,
    )
    assert [line for line in reported(answer)[1:] if line] == [
        "Starts:",
        "x/a (queue q); it waits now: needs more cpu",
        "x/b (queue q)",
        "and 3 more",
        "Waits for another reason:",
        "x/c (queue q): needs more cpu; without the edits it would start",
        "Evicted:",
        "x/d (Preempted, for x/a): 2 h of work is lost",
        "No longer evicted:",
        "x/e",
        "The scheduler does not read edits[0].patch.spec.maxx.",
        "Not all decisions were followed to their end: there are too many.",
    ]


def spread(p10: float | None, p50: float | None, p90: float | None) -> Spread:
    return Spread(p10=p10, p50=p50, p90=p90)


WAITS = Comparison(
    before=spread(600, 2400, None),
    after=spread(300, 300, 300),
    difference=spread(None, -2100, 0),
    is_clear=True,
)
ENDED = Comparison(
    before=spread(1, 2, 3), after=spread(2, 2, 2), difference=spread(1, 1, 1), is_clear=True
)
CPU = Comparison(difference=spread(500, 500, 500), is_clear=True)
NOISE = Comparison(before=spread(1, 2, 3), after=spread(1, 2, 4), difference=spread(-1, 0, 1))


def test_what_changes_over_a_time_has_rows_with_units() -> None:
    view = Horizon(
        seconds=21600,
        paths=20,
        basis="212 runs that have ended",
        completed=ENDED,
        queues=(Place(name="q", wait_p50=WAITS),),
        quotas=(Place(name="a", completed=ENDED),),
        resources=(Resource(resource="cpu", before="3", after="3500m", used=CPU),),
    )
    assert [line.text for line in horizon_lines(view)][1:] == [
        "Within 6 h (20 futures, seed 0; the median, and eight of ten):",
        "Based on 212 runs that have ended.",
    ]
    assert horizon_rows(view) == [
        ("all", "units-ended", "2(1..3)", "2", "+1"),
        ("queue/q", "wait-p50", "40m(10m..>6h)", "5m", "-35m"),
        ("quota/a", "units-ended", "2(1..3)", "2", "+1"),
        ("all", "cpu-used", "3", "3.5", "+0.5"),
    ]


def test_differences_that_are_chance_have_no_row() -> None:
    place = Place(name="q", wait_p50=NOISE, wait_p90=NOISE, completed=NOISE)
    cpu = Resource(resource="cpu", before="3", after="3500m", used=NOISE)
    view = Horizon(paths=20, completed=NOISE, queues=(place,), quotas=(place,), resources=(cpu,))
    assert horizon_rows(view) == []
    assert list(horizon_lines(view))[-1].text.startswith("No wait, no number of ended units and ")
