"""Every exact observation of real koord-schedulers comes out the same, and the runner can fail."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.contracts import elasticquota_observed
from tests.contracts.elasticquota_vectors import load
from tests.contracts.koordinator_model import Json

FILE = Path(__file__).parents[1] / "data" / "elasticquota-observed.json.gz"
VECTORS = [
    vector for vector in load(FILE)["vectors"] if elasticquota_observed.is_exact_test(vector)
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_observation(vector: Json) -> None:
    wrong, _ = elasticquota_observed.run_vector(vector)
    assert wrong is None


def test_all_are_there() -> None:
    trees = [vector for vector in VECTORS if vector["id"].startswith("ob-")]
    assert (len(trees), len(VECTORS) - len(trees)) == (126, 101)


def test_some_whole_candidates_are_promised() -> None:
    promised = [
        vector["id"]
        for vector in VECTORS
        if vector["kind"] == "admission" and elasticquota_observed.is_promised(vector)
    ]
    assert len(promised) >= 8


def edited(number: int, bound: bool) -> Json:
    """Return an admission with the fate of its first pod turned round."""
    vector: Json = copy.deepcopy([one for one in VECTORS if one["kind"] == "admission"][number])
    fate = {"allow": bound, "why": "" if bound else "limit", "exceed": [] if bound else ["cpu"]}
    vector["result"][0].update(bound=bound, result=fate)
    return vector


def test_command_names_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racy = {**VECTORS[-1], "racy": True}
    file = tmp_path / "observed.json"
    file.write_text(json.dumps({"vectors": [VECTORS[0], edited(0, bound=False), racy]}))
    assert elasticquota_observed.main([str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(edited(0, bound=False)["id"])
    assert lines[-1] == "1 passed, 1 failed"


def test_command_takes_one_file() -> None:
    assert elasticquota_observed.main([]) == 2
    assert elasticquota_observed.main(["/no/such/file"]) == 2


def test_command_counts_unknowable_states_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert elasticquota_observed.main([str(FILE)]) == 0
    unknowable, counts = capsys.readouterr().out.splitlines()
    assert unknowable.startswith("of those passed, 12 in a state that no queue can know")
    assert counts == "227 passed, 0 failed"
