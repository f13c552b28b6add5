"""Keys of jobs without effect, and the keys they were meant to be."""

from __future__ import annotations

import re

import pytest

from shared_api.key_spelling import (
    JOB_ANNOTATIONS,
    JOB_LABELS,
    MAX_EDITS,
    count_edits,
    explain_unread_keys,
)
from tests.tidy.source_tree import ROOT

QUOTA = "quota.scheduling.koordinator.sh/name"
MEANT_QUOTA = f"nothing reads it. Did you mean {QUOTA}?"


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param(
            ["quota.scheduling.koordinator.sh/nmae"],
            [],
            f"Label quota.scheduling.koordinator.sh/nmae has no effect: {MEANT_QUOTA}",
            id="two letters in the wrong order",
        ),
        pytest.param(
            ["quota.sheduling.koordinator.sh/name"],
            [],
            f"Label quota.sheduling.koordinator.sh/name has no effect: {MEANT_QUOTA}",
            id="a letter of the prefix is missing",
        ),
        pytest.param(
            ["koord-queue/queue"],
            [],
            "Label koord-queue/queue has no effect: nothing reads it."
            " Did you mean koord-queue/queue-name?",
            id="our own prefix: at any distance",
        ),
        pytest.param(
            [],
            ["kube-queue/something-else-altogether"],
            "Annotation kube-queue/something-else-altogether has no effect: nothing reads it.",
            id="our own prefix, similar to no key",
        ),
        pytest.param(
            [],
            ["koord-queue/stop-policy"],
            "Annotation koord-queue/stop-policy has no effect: it is not read on jobs.",
            id="a key of queues",
        ),
        pytest.param(
            [],
            ["koord-queue/group"],
            "Annotation koord-queue/group has no effect: on a job it is read as a label.",
            id="the group among the annotations",
        ),
        pytest.param(
            ["koord-queue/submitted-by"],
            [],
            "Label koord-queue/submitted-by has no effect: on a job it is read as an annotation.",
            id="the exact name among the labels",
        ),
        pytest.param(
            [],
            [QUOTA],
            f"Annotation {QUOTA} has no effect: on a job it is read as a label.",
            id="a label among the annotations",
        ),
        pytest.param(
            ["scheduling.x-k8s.io/priority"],
            [],
            "Label scheduling.x-k8s.io/priority has no effect:"
            " on a job it is read as an annotation.",
            id="an annotation among the labels",
        ),
    ],
)
def test_a_key_without_effect_is_explained(
    labels: list[str], annotations: list[str], want: str
) -> None:
    assert explain_unread_keys(dict.fromkeys(labels, "x"), dict.fromkeys(annotations, "x")) == [
        want
    ]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("app.kubernetes.io/name", id="a key of others"),
        pytest.param("name", id="without a prefix"),
        pytest.param("quota.scheduling.koordinator.sh/parent", id="a key that quotas have"),
        pytest.param("quota.scheduling.koordinator.sh/names-of-all", id="too far from any"),
        pytest.param("koord-queue/released-at", id="copied with a finished job"),
        pytest.param("kueue.x-k8s.io/priority-class", id="Kueue's"),
    ],
)
def test_other_keys_are_not_reported(key: str) -> None:
    assert explain_unread_keys({key: "x"}, {key: "x"}) == []


@pytest.mark.parametrize(
    "key",
    ["koord-queue/priority-boost", "koord-queue/evictions-per-hour", "koord-queue/eviction-delay"],
)
def test_a_job_cannot_boost_itself_or_guard_others(key: str) -> None:
    want = f"Annotation {key} has no effect: it is not read on jobs."
    assert explain_unread_keys({}, {key: "1000"}) == [want]


def test_keys_that_are_read_are_known() -> None:
    assert (
        explain_unread_keys(dict.fromkeys(JOB_LABELS, "x"), dict.fromkeys(JOB_ANNOTATIONS, "x"))
        == []
    )


def test_every_key_on_the_page_about_jobs_is_known() -> None:
    page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    rows = page.partition("## What a job can ask for")[2].partition("\n## ")[0]
    of_jobs = [
        row for row in rows.splitlines() if row.count("|") > 3 and "job" in row.split("|")[2]
    ]
    offered = {key for row in of_jobs for key in re.findall(r"`([a-z0-9.-]+/[a-z-]+)`", row)}
    assert len(offered) > 8
    assert explain_unread_keys({}, dict.fromkeys(offered - JOB_LABELS, "x")) == []


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param("name", "name", 0, id="the same"),
        pytest.param("name", "nam", 1, id="one missing"),
        pytest.param("name", "names", 1, id="one too many"),
        pytest.param("name", "nmae", 2, id="two in the wrong order"),
        pytest.param("name", "queue", MAX_EDITS + 1, id="another word"),
        pytest.param(
            "name", "a-much-longer-name", MAX_EDITS + 1, id="the length alone is too different"
        ),
        pytest.param("", "", 0, id="nothing"),
    ],
)
def test_edits_are_counted_up_to_a_limit(one: str, other: str, want: int) -> None:
    assert count_edits(one, other, MAX_EDITS) == want
    assert count_edits(other, one, MAX_EDITS) == want
