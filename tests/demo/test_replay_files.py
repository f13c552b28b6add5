"""The last command of the demo's summary plays the load that was shown."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from koord_queue.cli.app import run
from tests.demo import replay_files
from tests.demo.load_plan import NO_GPUS, REAL_GPUS, GpuShape, build_plan
from tests.demo.make_slice import SLICE, read_rows
from tests.demo.replay_files import write_replay_files


@pytest.mark.parametrize("shape", [REAL_GPUS, NO_GPUS], ids=["GPUs", "cores in their place"])
def test_the_command_plays_all_jobs_of_the_demo(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shape: GpuShape,
) -> None:
    monkeypatch.setattr(replay_files, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    plan = build_plan(read_rows(SLICE), shape=shape)
    program, *words = shlex.split(write_replay_files(plan, "koord-queue").command)
    assert program == ".venv/bin/koord-queue"
    assert run(words) == 0
    assert f"{len(plan.jobs)} jobs within" in capsys.readouterr().out
    names = {each.name for each in (tmp_path / "build/demo").iterdir()}
    assert names == {"jobs.csv", "quotas.yaml"}
