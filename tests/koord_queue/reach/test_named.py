"""Which unit is meant by what a user types."""

from __future__ import annotations

from typing import Final

import pytest

from koord_queue.errors import CommandError
from koord_queue.reach.errors import Refused
from koord_queue.reach.named import (
    Owned,
    choose,
    is_queue,
    pick_unit,
    place_of_unit,
    queue_name,
)

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


def units_in(namespace: str) -> list[Owned]:
    if namespace == "secret":
        raise Refused("you may not list units in namespace secret")
    own = [Owned("own", "Notebook", "kubeflow.org", "model")]
    return {"web": list(UNITS), "other": own}.get(namespace, [])


@pytest.mark.parametrize(
    ("named", "want"),
    [
        pytest.param("job/train", ("web", "train-job"), id="a kind, where names are looked for"),
        pytest.param("train-job", ("web", "train-job"), id="a unit"),
        pytest.param("qu/by-hand", ("web", "by-hand"), id="a unit with its word"),
        pytest.param("other/own", ("other", "own"), id="a unit of another namespace"),
        pytest.param("other/model", ("other", "own"), id="a job of another namespace"),
        pytest.param("web/train", ("web", "train-job"), id="the same namespace"),
    ],
)
def test_a_unit_is_meant_in_a_namespace(named: str, want: tuple[str, str]) -> None:
    assert pick_unit(units_in, "web", named) == want


def test_a_kind_that_only_units_know_is_no_namespace() -> None:
    assert pick_unit(units_in, "other", "notebook/model") == ("other", "own")


@pytest.mark.parametrize(
    ("named", "want"),
    [
        pytest.param("unit/none", "there is no unit web/none", id="no such unit"),
        pytest.param("job/own", "no unit of namespace web belongs to job/own",
            id="a kind is never a namespace"),
        pytest.param("jbo/train",
            "no unit of namespace web belongs to jbo/train, and namespace jbo has no units",
            id="neither a kind nor a namespace"),
        pytest.param("other/none", "no unit of namespace other belongs to none",
            id="not in that namespace"),
        pytest.param("secret/x", "no unit of namespace web belongs to secret/x, and you may not",
            id="a namespace that may not be read"),
        pytest.param("a/b/c", "'a/b/c' names no unit", id="too many parts"),
    ],
)  # fmt: skip
def test_no_unit_is_meant_in_a_namespace(named: str, want: str) -> None:
    with pytest.raises(CommandError) as got:
        pick_unit(units_in, "web", named)
    assert got.value.message.startswith(want)


@pytest.mark.parametrize(
    ("named", "want"),
    [
        ("a", ("web", "a")),
        ("units/a", ("web", "a")),
        ("other/a", ("other", "a")),
        ("Jobs/a", None),
        ("jobs.batch/a", None),
    ],
)
def test_a_unit_that_is_named_itself_needs_no_list(
    named: str, want: tuple[str, str] | None
) -> None:
    assert place_of_unit(named, "web") == want
