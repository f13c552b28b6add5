"""What insight adds: nothing that the command line does not ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_insight.scheduler_additions import InsightAddition, InsightRequest
from queue_scheduler.configuration import parse_flags
from shared_api.program_flags import FlagError


def read(*arguments: str) -> InsightRequest:
    addition = InsightAddition()
    return addition.read_flags(parse_flags(arguments, groups=[addition]))


@pytest.mark.parametrize(("text", "want"), [("", None), ("30s", 30.0), ("2m", 120.0)])
def test_how_long_the_aggregated_api_may_be_unavailable(text: str, want: float | None) -> None:
    assert read(f"--withdraw-visibility-after={text}").withdraw_seconds == want
    assert read().withdraw_seconds is None
    with pytest.raises(FlagError, match="--withdraw-visibility-after 0s: more than 0 is needed"):
        read("--withdraw-visibility-after=0s")


def test_calls_are_logged_only_for_an_insight_program() -> None:
    assert not read().records_calls
    request = read("--insight-socket-dir=/sockets")
    assert request.records_calls
    assert request.folder == Path("/sockets")


def test_the_shadow_runs_instead_of_the_scheduler() -> None:
    assert read().other_program is None
    assert read("--shadow", "--shadow-record-dir=/record").other_program is not None
