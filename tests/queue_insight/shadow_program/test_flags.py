"""The flags of the shadow mode: what it cannot do is refused when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from queue_insight.shadow_program.flags import ShadowFlags, read_shadow_flags, with_own_lease
from queue_scheduler.configuration import Flags
from shared_api.program_flags import FlagError
from tests.queue_scheduler.all_flags import parse_all_flags

SHADOW: Final = ("--shadow", "--shadow-record-dir=/record")


def parse(*arguments: str) -> Flags:
    return parse_all_flags(arguments)


def test_what_is_recorded_is_told_by_flags() -> None:
    flags = parse(*SHADOW, "--shadow-kinds=job, rayjob", "--shadow-record-limit=2Ki")
    assert read_shadow_flags(flags) == ShadowFlags(
        folder=Path("/record"), most_bytes=2048, objects=None, kinds=("job", "rayjob")
    )
    assert read_shadow_flags(parse()) is None


def test_a_shadow_has_a_lease_of_its_own() -> None:
    assert with_own_lease(parse(*SHADOW).program).lease_name == "koord-queue-shadow"
    named = parse(*SHADOW, "--leader-elect-lease-name=mine")
    assert with_own_lease(named.program).lease_name == "mine"
    assert parse().program.lease_name == "koord-queue-scheduler"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--shadow"], "needs --shadow-record-dir", id="no folder"),
        pytest.param([*SHADOW, "--metrics-secure"], "without --metrics-secure", id="reviews"),
        pytest.param([*SHADOW, "--insight-socket-dir=/s"], "without --insight", id="insight"),
        pytest.param([*SHADOW, "--shadow-record-limit=x"], "--shadow-record-limit: ", id="limit"),
    ],
)
def test_what_a_shadow_cannot_do_is_refused(arguments: list[str], want: str) -> None:
    with pytest.raises(FlagError, match=want):
        read_shadow_flags(parse(*arguments))
