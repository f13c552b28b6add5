"""What an unmanaged unit asks for, by its object."""

from __future__ import annotations

import pytest

from queue_scheduler.engine.unmanaged_units import is_running
from shared_api.objects.queue_unit import Admission
from tests.properties.engine_kit import admitted, build_unit, changed


def grants(*replicas: int, running: int = 0) -> tuple[Admission, ...]:
    return tuple(
        Admission(name=f"s{n}", replicas=count, running=running) for n, count in enumerate(replicas)
    )


TWO_SETS = build_unit("u", "a", pods=(("s0", 1, 1), ("s1", 2, 1)))


def test_a_unit_that_asks_for_no_pods_runs_without() -> None:
    unit = build_unit("u", "a", pods=(("s0", 0, 1),))
    granted = admitted(unit, 2)
    assert granted.status.admissions[0].replicas == 0
    assert is_running(granted), "nothing of it is missing"


@pytest.mark.parametrize(
    ("admissions", "phase", "want"),
    [
        pytest.param(grants(1, 2, running=2), "Dequeued", True, id="all, and more"),
        pytest.param(grants(1, 2, running=1), "Dequeued", False, id="some"),
        pytest.param((), "Dequeued", False, id="nothing is counted"),
        pytest.param(grants(1, 2, running=2), "SchedSucceed", True, id="strict mode"),
        pytest.param(grants(1, 2, running=2), "Reserved", False, id="it may not run yet"),
        pytest.param(grants(1, 2, running=2), "Running", False, id="known already"),
        pytest.param(grants(0, 0), "Dequeued", False, id="it has given everything back"),
    ],
)
def test_running(admissions: tuple[Admission, ...], phase: str, *, want: bool) -> None:
    assert is_running(changed(TWO_SETS, 2, phase, admissions=admissions)) is want
