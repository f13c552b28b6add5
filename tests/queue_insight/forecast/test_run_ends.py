"""When the units end whose pods run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_insight.forecast.run_ends import likely_ends
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Moment
from shared_api.testing.virtual_clock import EPOCH
from tests.queue_insight.forecast.forecast_kit import RUN, Exact
from tests.queue_insight.page.job_kit import tell_unit
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.mark.parametrize(
    ("ran", "declared", "want"),
    [
        pytest.param(0.0, None, 1.5 * RUN, id="half of them take longer"),
        pytest.param(100.0, None, 1.5 * RUN - 100.0, id="it has run for a while"),
        pytest.param(9000.0, None, 0.0, id="it should have ended"),
        pytest.param(100.0, 300, 200.0, id="its maximum ends it"),
        pytest.param(400.0, 300, 0.0, id="its maximum has passed"),
    ],
)
def test_a_running_unit(kit: ShellKit, ran: float, declared: int | None, want: float) -> None:
    tell_unit(kit, "runs", "Running", maximumExecutionTimeSeconds=declared)
    tell_unit(kit, "waits")
    tell_unit(kit, "starts", "Dequeued")
    moment = Moment(ran, EPOCH + timedelta(seconds=ran))
    got = likely_ends(kit.shared.fork(), moment, Exact(spread=1.0), lambda _: True)
    assert got == {"uid-default-runs": want}


def test_those_that_are_not_told(kit: ShellKit) -> None:
    for name in ("a", "b"):
        tell_unit(kit, name, "Running")

    def is_told(record: CachedUnit) -> bool:
        return record.unit.metadata.name == "a"

    got = likely_ends(kit.shared.fork(), Moment(0.0, EPOCH), Exact(), is_told)
    assert got == {"uid-default-a": RUN}
