"""BENCHMARKS.md is what the command makes of the stored results and the texts."""

from __future__ import annotations

import pytest

from tests.benchmarks.__main__ import STAGES
from tests.benchmarks.report.document import outputs
from tests.benchmarks.report.results import load_runs
from tests.tidy.source_tree import ROOT


def test_the_report_is_what_the_command_makes() -> None:
    """Whoever changes a result or a text runs `make benchmarks-report`."""
    stale = [
        str(path.relative_to(ROOT))
        for path, text in outputs().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run `make benchmarks-report`"


@pytest.mark.parametrize("stage", sorted(load_runs()))
def test_a_result_is_of_a_stage(stage: str) -> None:
    """A file of another name would never be measured anew."""
    assert stage in {each.name for each in STAGES}
