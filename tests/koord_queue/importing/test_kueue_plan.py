"""What the objects of Kueue's documentation become: `tests/data/kueue`.

UPDATE_GOLDEN=1 writes the file with the answers anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from koord_queue.importing.kueue_plan import plan_import
from koord_queue.importing.kueue_source import read_files
from koord_queue.importing.plan import Plan

FOLDER: Final = Path(__file__).resolve().parents[2] / "data/kueue"
EXAMPLES: Final = sorted(FOLDER.glob("*.yaml"))
JOBS: Final = {"sample-job"}


def reported(plan: Plan) -> Iterator[str]:
    """Yield what a person reads of a plan."""
    for each in plan.became:
        yield f"{each.source} -> {each.target or 'nothing'}: {each.how}"
    for lost in plan.lost:
        yield f"NOT {lost.source}, {lost.field}: {lost.why}"


@pytest.mark.parametrize(
    "path", [each for each in EXAMPLES if each.stem not in JOBS], ids=lambda path: path.stem
)
def test_an_example_of_the_documentation(path: Path) -> None:
    golden = FOLDER / f"becomes/{path.stem}.txt"
    got = "".join(
        f"{line}\n" for line in reported(plan_import(read_files([str(path)]), "koord-queue"))
    )
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(got, encoding="utf-8")
    assert got == golden.read_text(encoding="utf-8")


def test_queues_are_written_before_their_quotas() -> None:
    plan = plan_import(read_files([str(FOLDER / "single-clusterqueue-setup.yaml")]), "koord-queue")
    assert [each["kind"] for each in plan.objects] == ["Queue", "ElasticQuota", "Namespace"]
