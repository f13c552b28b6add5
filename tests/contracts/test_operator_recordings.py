"""The recorded lives of jobs keep the rules, and the runner detects violations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_state import State
from queue_controllers.decision.running import partial_since
from queue_controllers.extensions.batch_job import BatchJob, BatchJobAdapter
from queue_controllers.jobframework.generic_job import Outcome, StatusFacts
from shared_api.objects.meta import Condition, Timestamp, is_condition_true
from shared_api.objects.queue_unit import Admission
from tests.contracts.operator_recordings import Line, RecordedJob, Replay, load, main, replay
from tests.job_situations import unit

FOLDER = Path(__file__).parents[1] / "data" / "recordings"
FILES = sorted(FOLDER.glob("*.json*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recordings_keep_the_rules(path: Path) -> None:
    lines, broken = replay(path)
    assert broken == []
    assert lines[-1].state.state.value in {"gone", "finished", "deleting"}


def test_the_states_of_a_recorded_job() -> None:
    lines, _ = replay(FOLDER / "job-abcde.json.gz")
    states = [line.state.state.value for line in lines]
    got = [state for before, state in zip(["", *states], states, strict=False) if state != before]
    assert got == [
        *("held", "released", "starting", "running", "stopping"),
        *("held", "released", "starting", "running", "starting", "finished", "gone"),
    ]


def test_completed_work_lowers_the_demand_while_the_job_is_held() -> None:
    lines, _ = replay(FOLDER / "job-indexed-j-partial.json.gz")
    demands = [line.shown()["demand"]["cpu"] for line in lines]
    assert demands[0] == "2"
    assert demands[-1] == "1"


class PartialReplay(Replay):
    """Checks at every entry whether only a part of the job runs.

    All times of its unit are long ago, and its counts are right, so only the entries can show that
    the job has not run in part for that long.
    """

    def _check(self, job: RecordedJob, line: Line) -> None:
        facts = self._facts(job)
        if facts is None or line.state.state is not State.RUNNING:
            return
        long_ago = Timestamp("2000-01-01T00:00:00Z")
        (pod_set,) = line.pod_sets
        counted = Admission(name=pod_set.name, replicas=pod_set.count, running=line.pods.running)
        ready = Condition(type="PodsReady", status="True", last_transition_time=long_ago)
        of = unit("Running", admissions=(counted,), conditions=(ready,), last_update_time=long_ago)
        if partial_since(facts, of, line.pods) is not None:
            self.broken.append(f"{line.file} t={line.t}: {line.pods}")


# Some jobs of other kinds do: those whose operator does not replace a failed pod.
LIVES_OF_JOBS = sorted(FOLDER.glob("job-*"))


@pytest.mark.parametrize("path", LIVES_OF_JOBS, ids=lambda path: path.name)
def test_no_recorded_life_runs_in_part_for_long(path: Path) -> None:
    run = PartialReplay(path.name, load(path), BatchJobAdapter())
    assert list(run.run())
    assert run.broken == []


def edited(tmp_path: Path, **changes: Any) -> Path:
    """Write a recording in which entries are changed by resourceVersion and kind."""
    recording = load(FOLDER / "job-abcde.json.gz")
    for entry in recording["entries"]:
        if entry.get("rv") == changes["rv"] and entry.get("what") == changes["what"]:
            entry.update(changes["entry"])
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(recording), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("rv", "what", "entry"),
    [
        pytest.param(
            502, "pod", {"ev": "MODIFIED", "phase": "Running"}, id="a pod that is never deleted"
        ),
        pytest.param(
            547,
            "object",
            {"status": {"conditions": [{"type": "Done", "status": "True"}]}},
            id="another end",
        ),
    ],
)
def test_other_lives_of_the_format_are_replayed(
    tmp_path: Path, rv: int, what: str, entry: dict[str, Any]
) -> None:
    lines, broken = replay(edited(tmp_path, rv=rv, what=what, entry=entry))
    assert broken == []
    assert lines


class HastyAdapter(BatchJobAdapter):
    """Reports a job as finished before its final condition."""

    def status_of(self, job: BatchJob) -> StatusFacts:
        met = is_condition_true(job.status.conditions, "SuccessCriteriaMet")
        outcome = Outcome(succeeded=True) if met else None
        return msgspec.structs.replace(super().status_of(job), outcome=outcome)


def test_a_wrong_adapter_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.contracts.operator_recordings.EXTENSIONS", (HastyAdapter(),))
    _, broken = replay(FOLDER / "job-abcde.json.gz")
    assert any("final entry" in text for text in broken)


def test_the_command_prints_lines_and_a_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([str(FILES[0])]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "1 passed, 0 failed"
    assert json.loads(printed[0]).keys() == {
        *("file", "name", "uid", "t", "rv", "state", "resumable", "pods_alive", "pod_sets"),
        "demand",
    }
    unknown = tmp_path / "unknown.json"
    unknown.write_text('{"kind": "Nothing", "entries": []}', encoding="utf-8")
    assert main([str(FILES[0]), str(unknown)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"
