"""A check controller as a program: its command line, with a function as its rule."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from shared_api.admission_check_kit.serving import parse_check_flags, serve
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.local_program import STOP_SIGNALS
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit
from shared_api.program_flags import FlagError

NAME = "example.com/rule"


def test_defaults_come_from_the_name() -> None:
    flags = parse_check_flags([], "rule", NAME)
    assert (flags.controller_name, flags.program.lease_name) == (NAME, "rule")
    assert flags.program.lease_namespace == "koord-queue"
    assert flags.program.leader_elect
    assert flags.workers == flags.program.writers == 8
    assert (flags.program.health_address, flags.program.metrics_address) == (":8081", ":8080")


def test_flags_override_defaults() -> None:
    given = ["--controller-name=a.b/c", "--workers=2", "--leader-elect-lease-name=x"]
    flags = parse_check_flags(given, "rule", NAME, health_address=":1", metrics_address=":2")
    assert (flags.controller_name, flags.workers, flags.program.lease_name) == ("a.b/c", 2, "x")
    assert (flags.program.health_address, flags.program.metrics_address) == (":1", ":2")


@pytest.mark.parametrize(
    "given",
    [
        ["--controller-name=no-domain"],
        ["--controller-name=Upper.case/x"],
        ["--controller-name=a.b/c/d"],
        [f"--controller-name=a/{'x' * 64}"],
        [f"--controller-name={'a' * 127}/c"],
        ["--controller-name="],
        ["--workers=0"],
    ],
)
def test_invalid_values_are_refused(given: list[str]) -> None:
    with pytest.raises(FlagError, match=given[0].partition("=")[0]):
        parse_check_flags(given, "rule", NAME)


def named_ready(unit: QueueUnit, _check: AdmissionCheck) -> CheckVerdict:
    return CheckVerdict(CheckState.READY, unit.metadata.name)


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
def test_a_program_that_cannot_start_reports_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(NAME, named_ready, arguments=["--workers=0"]) == 2
    assert "--workers 0" in capsys.readouterr().err
