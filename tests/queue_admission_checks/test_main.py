"""The command line of the program."""

from __future__ import annotations

import pytest

from queue_admission_checks.__main__ import run
from shared_api.program_flags import FlagError


def test_help_names_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for default in (
        "koord-queue.sh/provisioning-request",
        "Lease (default: koord-queue-admission-checks)",
        "picks a free one and logs it (default: :8082)",
        "/metrics (default: :8083)",
    ):
        assert default in text


def test_an_invalid_flag_is_refused() -> None:
    with pytest.raises(FlagError, match="--controller-name"):
        run(["--controller-name=provisioning"])
