"""A manifest becomes objects that can be sent, with what the options add to its jobs."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.acts.manifest import Wishes, placed, read_drafts
from koord_queue.errors import CommandError

Json = dict[str, Any]


def body(kind: str = "Job", **metadata: Any) -> Json:
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "x", **metadata}}


def test_options_add_labels_and_annotations_to_jobs_alone() -> None:
    wishes = Wishes(queue="night", quota="team", priority=-2)
    documents = [body(labels={"app": "a"}), body("ConfigMap", labels=None)]
    job, other = (each.body["metadata"] for each in read_drafts(documents, wishes))
    want = {
        "app": "a",
        "koord-queue/queue-name": "night",
        "quota.scheduling.koordinator.sh/name": "team",
    }
    assert job["labels"] == want
    assert job["annotations"] == {"scheduling.x-k8s.io/priority": "-2"}
    assert other == {"name": "x", "labels": None}


def test_nothing_is_added_without_options() -> None:
    document = body(labels=None)
    assert read_drafts([document], Wishes())[0].body == document


@pytest.mark.parametrize(
    ("own", "is_asked", "want"),
    [({}, False, "lab"), ({}, True, "lab"), ({"namespace": "ml"}, False, "ml")],
)
def test_an_object_gets_a_namespace_if_it_names_none(own: Json, is_asked: bool, want: str) -> None:
    (draft,) = read_drafts([body(**own)], Wishes())
    assert placed(draft, "lab", is_asked=is_asked)["metadata"]["namespace"] == want


def test_two_namespaces_contradict_each_other() -> None:
    (draft,) = read_drafts([body(namespace="ml")], Wishes())
    with pytest.raises(CommandError, match="document 1 is for namespace ml, and -n says lab"):
        placed(draft, "lab", is_asked=True)


@pytest.mark.parametrize(
    ("document", "wishes", "why"),
    [
        ({"kind": "Job", "metadata": {"name": "x"}}, Wishes(), "document 1 has no apiVersion"),
        ({"apiVersion": "v1", "kind": "Job"}, Wishes(), "document 1 has no metadata"),
        (body(name=""), Wishes(), "neither name nor generateName"),
        (body("ConfigMap"), Wishes(queue="a"), "the manifest has only: ConfigMap"),
        (body(labels=[1]), Wishes(queue="a"), "document 1: metadata.labels is no map"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused(document: Json, wishes: Wishes, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        read_drafts([document], wishes)
