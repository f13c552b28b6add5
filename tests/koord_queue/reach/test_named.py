"""Which unit is meant by what a user types."""

from __future__ import annotations

from typing import Final

import pytest

from koord_queue.errors import CommandError
from koord_queue.reach.named import Owned, choose, is_queue, queue_name

UNITS: Final = (
    Owned("train-job", "Job", "batch", "train"),
    Owned("bert-pytorchjob", "PyTorchJob", "kubeflow.org", "bert"),
    Owned("bert-job", "Job", "batch", "bert"),
    Owned("by-hand"),
)


@pytest.mark.parametrize(
    ("word", "name", "want"),
    [
        pytest.param("job", "train", "train-job", id="kind"),
        pytest.param("Jobs", "train", "train-job", id="plural, in any case"),
        pytest.param("jobs.batch", "train", "train-job", id="with its group"),
        pytest.param("", "train", "train-job", id="without a kind"),
        pytest.param("pytorchjob", "bert", "bert-pytorchjob", id="one of two"),
    ],
)
def test_a_job_has_one_unit(word: str, name: str, want: str) -> None:
    assert choose(UNITS, "web", word, name) == want


@pytest.mark.parametrize(
    ("word", "name", "message", "next_step"),
    [
        pytest.param("", "bert", "bert may be pytorchjob/bert, job/bert", "Write which one.",
            id="two jobs"),
        pytest.param("job", "trian", "no unit of namespace web belongs to job/trian",
            "Did you mean job/train?", id="a misspelling"),
        pytest.param("jobs.apps", "train", "no unit of namespace web belongs to jobs.apps/train",
            "Did you mean job/train?", id="another group"),
        pytest.param("", "zzzzzz", "no unit of namespace web belongs to zzzzzz",
            "`koord-queue units` lists them; a job without a unit is not managed by the queue.",
            id="nothing like it"),
    ],
)  # fmt: skip
def test_no_unit_is_meant(word: str, name: str, message: str, next_step: str) -> None:
    with pytest.raises(CommandError) as got:
        choose(UNITS, "web", word, name)
    assert (got.value.message, got.value.next_step) == (message, next_step)


@pytest.mark.parametrize("named", ["queue/night", "Queues/night", "kq/night", "night"])
def test_a_queue_by_its_name(named: str) -> None:
    assert queue_name(named) == "night"
    assert is_queue(named) == ("/" in named)


@pytest.mark.parametrize("named", ["", "queue/", "unit/night", "queue/a/b"])
def test_what_names_no_queue(named: str) -> None:
    with pytest.raises(CommandError) as got:
        queue_name(named)
    assert (got.value.message, got.value.exit_code) == (f"{named!r} names no queue", 2)
