"""Every vector of `elasticquota-vectors.json` passes, and the runner can fail."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from queue_scheduler.quota.runtime_division import TOLERATED, DivisionRules, divide
from tests.contracts import elasticquota_vectors, koordinator_model
from tests.contracts.koordinator_model import Json

FILE = Path(__file__).parents[1] / "data" / "elasticquota-vectors.json.gz"
VECTORS = elasticquota_vectors.load(FILE)["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_vector(vector: Json) -> None:
    assert elasticquota_vectors.run_vector(vector) is None


def test_no_vector_depends_on_the_tolerance_of_the_quota_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All pass with the tolerance of the quota cache (DECISIONS.md 91) as with the bare rule.
    tolerant = partial(DivisionRules, tolerated=TOLERATED)
    monkeypatch.setattr(koordinator_model, "DivisionRules", tolerant)
    monkeypatch.setattr(elasticquota_vectors, "divide", partial(divide, tolerant=True))
    assert [elasticquota_vectors.run_vector(vector) for vector in VECTORS] == [None] * len(VECTORS)


def test_all_are_there() -> None:
    assert len(VECTORS) == 123


def test_command_counts_and_names_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**VECTORS[0], "id": "wrong", "expect": {"cpu": "7"}}
    unknown = {"id": "new", "kind": "weather"}
    broken = {"id": "broken", "kind": "redistribute"}
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps({"vectors": [VECTORS[0], wrong, unknown, broken]}))
    assert elasticquota_vectors.main([str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["wrong", "new", "broken"]
    assert lines[-1] == "1 passed, 3 failed"


def test_command_requires_one_file() -> None:
    assert elasticquota_vectors.main([]) == 2
    assert elasticquota_vectors.main(["/no/such/file"]) == 2


def test_command_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert elasticquota_vectors.main([str(FILE)]) == 0
    assert capsys.readouterr().out == "123 passed, 0 failed\n"
