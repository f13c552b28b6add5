"""Which labels count where a job and its pod template differ."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.job_warnings import PREEMPTIBLE_IGNORED, QUOTA_DIFFERS, label_notes
from queue_controllers.decision.pod_stamps import (
    build_stamps,
    is_not_preemptible,
    preemptible_of_template,
    stamp_preemptible,
)
from queue_controllers.decision.queue_unit_builder import build_unit, labels_of_unit
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from shared_api.objects.pod import TemplateMeta
from shared_api.well_known_labels import PREEMPTIBLE, QUOTA_NAME, STAMPED_PREEMPTIBLE
from tests.job_situations import facts, made, pod_set, unit

TREE_QUOTA = "quota.scheduling.alibabacloud.com/name"
OLD_QUOTA = "alibabacloud.com/quota-name"
NO = {PREEMPTIBLE: "false"}
YES = {PREEMPTIBLE: "true"}
STAMPED = {STAMPED_PREEMPTIBLE: PREEMPTIBLE}


def job(
    labels: dict[str, str],
    *templates: dict[str, str],
    stamped: dict[str, str] | None = None,
    **changes: Any,
) -> JobFacts:
    """Return a job with these labels, and a pod set for each template with those."""
    of = facts()
    metadata = msgspec.structs.replace(of.metadata, labels=labels)
    sets = tuple(
        with_labels(of.pod_sets[0], f"s{n}", each, stamped or {}, **changes)
        for n, each in enumerate(templates)
    )
    return msgspec.structs.replace(of, metadata=metadata, pod_sets=sets)


def with_labels(
    of: JobPodSet, name: str, labels: dict[str, str], stamped: dict[str, str], **changes: Any
) -> JobPodSet:
    meta = TemplateMeta(labels=labels, annotations=stamped)
    template = msgspec.structs.replace(of.template, metadata=meta)
    return msgspec.structs.replace(of, name=name, template=template, **changes)


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job({}, {}), False, id="no label"),
        pytest.param(job({}, NO), True, id="the template alone: koord-scheduler reads it"),
        pytest.param(job(NO, {}), True, id="the job alone: it is copied"),
        pytest.param(job(NO, YES), False, id="the template differs"),
        pytest.param(job(YES, NO), True, id="the job differs"),
        pytest.param(job({}, YES, NO), True, id="one pod set is enough"),
        pytest.param(job(NO, {}, has_template=False), False, id="no template to copy to"),
        pytest.param(
            job(NO, {}, takes_stamps=False), False, id="a template that cannot be changed"
        ),
        pytest.param(job(NO, NO, stamped=STAMPED), True, id="copied before, and wanted"),
        pytest.param(job({}, NO, stamped=STAMPED), False, id="copied before, and no longer wanted"),
    ],
)
def test_which_jobs_are_not_preemptible(of: JobFacts, want: bool) -> None:
    assert is_not_preemptible(of, PREEMPTIBLE) is want
    assert (labels_of_unit(of, "gold").get(PREEMPTIBLE) == "false") is want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job(NO, {}), None, id="the job's label, which its pods do not have"),
        pytest.param(job(NO, NO), "false", id="that of its pods"),
        pytest.param(job(NO, NO, stamped=STAMPED), "false", id="copied by an earlier release"),
    ],
)
def test_an_adoption_follows_the_running_pods(of: JobFacts, want: str | None) -> None:
    body = build_unit(of, ClusterContext(), name="u", runs=True)
    assert body["metadata"]["labels"].get(PREEMPTIBLE) == want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job({}, {}), {}, id="no label"),
        pytest.param(job(NO, {}), NO, id="the job's label"),
        pytest.param(job(NO, YES), {}, id="the template has its own"),
        pytest.param(job(NO, NO, stamped=STAMPED), NO, id="once more"),
        pytest.param(job({}, NO, stamped=STAMPED), YES, id="taken back"),
    ],
)
def test_which_labels_are_copied(of: JobFacts, want: dict[str, str]) -> None:
    labels, notes = stamp_preemptible(of, of.pod_sets[0])
    assert labels == want
    assert notes == (STAMPED if want else {})
    after = TemplateMeta(labels=labels, annotations=notes)
    assert preemptible_of_template(after, PREEMPTIBLE) == "", "a copied label counts as the job's"


@pytest.mark.parametrize(
    ("of", "want_unit", "want_stamp"),
    [
        pytest.param(job({QUOTA_NAME: "a"}, {}), "a", "a", id="the job's"),
        pytest.param(job({QUOTA_NAME: "a"}, {QUOTA_NAME: "b"}), "b", None, id="the template's"),
        pytest.param(job({OLD_QUOTA: "a"}, {QUOTA_NAME: "b"}), "b", None, id="older on the job"),
        pytest.param(
            job({QUOTA_NAME: "a"}, {OLD_QUOTA: "b"}), "b", "b", id="older on the template"
        ),
        pytest.param(
            job({QUOTA_NAME: "a"}, {TREE_QUOTA: "b"}), "b", "b", id="a tree's on the template"
        ),
        pytest.param(
            job(
                {QUOTA_NAME: "a"},
                {QUOTA_NAME: "a", OLD_QUOTA: "b"},
                stamped={"koord-queue/stamped-quota": "a"},
            ),
            "b",
            "b",
            id="a copied label hides no other of the template",
        ),
    ],
)
def test_where_a_job_is_charged(of: JobFacts, want_unit: str, want_stamp: str | None) -> None:
    body = build_unit(of, ClusterContext(), name="u", runs=False)
    assert body["metadata"]["labels"][QUOTA_NAME] == want_unit
    assert body["spec"]["queue"] == want_unit
    stamp = build_stamps(of, unit(), want_unit)["s0"]
    assert stamp.labels.get(QUOTA_NAME) == want_stamp


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job({QUOTA_NAME: "a"}, {QUOTA_NAME: "a"}), {}, id="they agree"),
        pytest.param(job({}, {QUOTA_NAME: "a"}), {}, id="only one has it"),
        pytest.param(
            job({QUOTA_NAME: "a"}, {OLD_QUOTA: "b"}),
            {QUOTA_DIFFERS: "Its label names quota a, and its pod template (pod set s0) quota b"},
            id="two quotas",
        ),
        pytest.param(
            job(NO, {}, has_template=False),
            {PREEMPTIBLE_IGNORED: f'Its label {PREEMPTIBLE}: "false" does not count'},
            id="a label that reaches no pod",
        ),
        pytest.param(job(NO, {}), {}, id="one that is copied"),
    ],
)
def test_what_a_jobs_user_is_told(of: JobFacts, want: dict[str, str]) -> None:
    notes = label_notes(of)
    assert {reason: want.get(reason, "") for reason in notes.values()} == want
    for message, reason in notes.items():
        assert message.startswith(want[reason])


def test_annotations_name_the_unit_and_keep_a_quota_of_the_template() -> None:
    of = facts(pod_set(name="a"), pod_set(name="b", quota="own"))
    stamps = build_stamps(of, made(of), "gold")
    assert stamps["a"].labels == {QUOTA_NAME: "gold"}
    assert stamps["b"].labels == {}
    assert stamps["b"].annotations == {
        "koord-queue/related-queueunit": "team/main",
        "koord-queue/related-podset-name": "b",
    }
    assert build_stamps(of, made(of), "")["a"].labels == {}
