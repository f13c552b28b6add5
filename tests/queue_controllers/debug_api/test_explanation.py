"""Whether a job is managed, why or why not, and what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from queue_controllers.debug_api.explanation import (
    Explanation,
    JobStanding,
    explain_job,
)
from queue_controllers.decision.job_ownership import ClusterContext, Rule, classify_ownership
from queue_controllers.decision.job_settings import JobSettings, Manage
from queue_controllers.decision.job_view import JobMemory, JobView
from queue_controllers.decision.owners import Refusal
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import TemplateMeta
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import QUOTA_RESERVED
from shared_api.quota_names import QuotaNames
from shared_api.well_known_labels import MANAGED_NAMESPACE, SUSPEND
from tests.job_situations import ADMITTED, NOW, RUNS, SUCCEEDED, TWO_RUNNING, facts, unit
from tests.queue_controllers.owner_kit import KnownOwners

OWNER = OwnerReference(
    api_version="x.io/v1", kind="JobSet", name="top", uid=Uid("1"), controller=True
)
MADE = KnownOwners(refusals={"JobSet": None})
NOT_SAID = KnownOwners(refusals={"JobSet": Refusal("it says nothing yet", may_pass=True)})
NOT_MADE = KnownOwners(refusals={"JobSet": Refusal("it makes none")})
HELD_OWNER = KnownOwners(refusals={"JobSet": Refusal("it is held", holds=True)})
NAMESPACE_QUOTA = ClusterContext(quotas=QuotaNames(of_namespaces={"team": "silver"}))
LISTED = ClusterContext(quotas=QuotaNames(known=frozenset({"gold"})), available_quotas=frozenset())
LABEL = "quota.scheduling.koordinator.sh/name"
MISSPELLED = {"quota.scheduling.koordinator.sh/nmae": "gold"}
ENDED = StatusFacts(outcome=SUCCEEDED)
DELETED = Timestamp("2026-11-01T09:55:00Z")


def with_template_label(job: JobFacts) -> JobFacts:
    (one,) = job.pod_sets
    template = replace(one.template, metadata=TemplateMeta(labels={LABEL: "silver"}))
    return replace(job, pod_sets=(replace(one, template=template),))


def moved(job: JobFacts, namespace: str) -> JobFacts:
    return replace(job, metadata=replace(job.metadata, namespace=namespace))


def explain(
    job: JobFacts,
    of: QueueUnit | None = None,
    *,
    context: ClusterContext | None = None,
    owners: KnownOwners = MADE,
    manage: Manage = Manage.NAMESPACE_QUOTA,
    **more: Any,
) -> Explanation:
    """Explain a job as the reconciler classifies it."""
    context, settings = context or ClusterContext(), JobSettings(manage=manage)
    ownership = classify_ownership(job, context, settings, has_unit=of is not None, owners=owners)
    view = JobView(
        job=job,
        unit=of,
        ownership=ownership,
        context=context,
        settings=settings,
        moment=NOW,
        **more,
    )
    return explain_job(view, job)


NOBODYS = facts(labels={})


@pytest.mark.parametrize(
    ("job", "asked", "want"),
    [
        pytest.param(facts(), {}, Rule.NAMES_QUEUE_OR_QUOTA, id="it names a quota"),
        pytest.param(NOBODYS, {"manage": Manage.ALL}, Rule.EVERY_JOB, id="every job is"),
        pytest.param(NOBODYS, {"context": NAMESPACE_QUOTA}, Rule.NAMESPACE_QUOTA, id="namespace"),
        pytest.param(
            NOBODYS,
            {"context": ClusterContext(namespace_labels={MANAGED_NAMESPACE: "true"})},
            Rule.NAMESPACE_LABEL,
            id="its namespace's label",
        ),
        pytest.param(
            facts(labels={}, annotations={SUSPEND: "true"}),
            {},
            Rule.SUSPEND_ANNOTATION,
            id="its annotation",
        ),
        pytest.param(NOBODYS, {"of": unit()}, Rule.IN_QUEUE, id="it has a unit"),
        pytest.param(
            facts(owner_references=(OWNER,)),
            {"owners": NOT_MADE},
            Rule.NAMES_QUEUE_OR_QUOTA,
            id="owner",
        ),
    ],
)
def test_why_it_is_managed(job: JobFacts, asked: dict[str, Any], want: Rule) -> None:
    said = explain(job, **asked)
    assert (said.managed, said.reason) == (True, want)
    assert said.message.startswith("It is managed: ")
    assert said.message.endswith("It has no unit yet") is ("of" not in asked)
    assert ("/debug/queueunits/team/main" in said.message) is ("of" in asked)


@pytest.mark.parametrize(
    ("job", "asked", "want", "words"),
    [
        pytest.param(
            NOBODYS, {}, Rule.NAMES_NOTHING, f"no queue will resume it.*{LABEL}", id="suspended"
        ),
        pytest.param(
            facts(labels={}, suspended=False),
            {},
            Rule.NAMES_NOTHING,
            "It runs at once",
            id="it runs",
        ),
        pytest.param(
            with_template_label(NOBODYS),
            {},
            Rule.NAMES_NOTHING,
            f"Only its pod template names quota silver.*set its label {LABEL}",
            id="its template names a quota",
        ),
        pytest.param(
            NOBODYS,
            {"context": NAMESPACE_QUOTA, "manage": Manage.LABELLED},
            Rule.NAMES_NOTHING,
            "set its label",
            id="its namespace has a quota that does not count",
        ),
        pytest.param(
            moved(facts(), "kube-system"),
            {},
            Rule.NAMESPACE_EXCLUDED,
            "namespace kube-system is never managed",
            id="a namespace that is left alone",
        ),
        pytest.param(
            facts(labels={"kueue.x-k8s.io/queue-name": "q"}),
            {},
            Rule.LEFT_TO_KUEUE,
            "leaveToKueue",
            id="Kueue's",
        ),
        pytest.param(
            facts(foreign_manager="x.io/y"),
            {},
            Rule.MANAGED_BY_OTHER,
            "spec.managedBy is x.io/y",
            id="another controller's",
        ),
        pytest.param(
            facts(owner_references=(OWNER,)),
            {},
            Rule.OWNED,
            "JobSet top owns it",
            id="another job's",
        ),
        pytest.param(
            facts(suspended=False, owner_references=(OWNER,)),
            {"owners": HELD_OWNER},
            Rule.OWNER_IS_HELD,
            "JobSet top owns it, and it is held",
            id="its owner is held",
        ),
        pytest.param(
            facts(owner_references=(OWNER,)),
            {"owners": NOT_SAID},
            JobStanding.AWAITS_OWNER,
            "after 10 s",
            id="its owner may say so yet",
        ),
        pytest.param(
            facts(why_not_suspendable="spec.x is set"),
            {},
            JobStanding.CANNOT_BE_HELD,
            "left alone: spec.x is set",
            id="it cannot be held",
        ),
        pytest.param(
            facts(status=ENDED), {}, JobStanding.FINISHED, "has no unit", id="it has ended"
        ),
        pytest.param(
            facts(deletion_timestamp=DELETED),
            {},
            JobStanding.BEING_DELETED,
            "being deleted",
            id="it goes",
        ),
    ],
)
def test_why_it_is_not(
    job: JobFacts, asked: dict[str, Any], want: Rule | JobStanding, words: str
) -> None:
    said = explain(job, **asked)
    assert (said.managed, said.reason) == (False, want)
    assert (said.queue, said.quota) == ("", "")
    assert re.search(words, said.message), said.message
    assert "  " not in said.message
    assert ".." not in said.message


def test_a_job_that_has_ended_keeps_its_unit() -> None:
    said = explain(facts(status=ENDED), unit("Succeed"))
    assert (said.managed, said.reason) == (True, JobStanding.FINISHED)
    assert said.problems == ()


def test_a_running_job_whose_namespace_may_not_use_its_quota() -> None:
    said = explain(facts(suspended=False, status=RUNS), context=LISTED, pods=TWO_RUNNING)
    assert (said.managed, said.reason) == (False, JobStanding.NOT_ADOPTED)
    assert "may not use quota gold" in said.message
    assert said.problems == (), "the reason is not repeated as a problem"


def test_a_unit_of_a_job_that_has_become_unmanaged() -> None:
    job = facts(labels={"kueue.x-k8s.io/queue-name": "q"})
    said = explain(job, unit("Running", admissions=ADMITTED), pods=TWO_RUNNING)
    assert (said.managed, said.reason) == (False, Rule.LEFT_TO_KUEUE)
    assert "Its unit goes" in said.message
    assert (said.queue, said.quota) == ("gold", "gold")


@pytest.mark.parametrize(
    ("job", "asked", "want"),
    [
        pytest.param(facts(), {}, ("gold", "gold"), id="those that its label names"),
        pytest.param(NOBODYS, {"context": NAMESPACE_QUOTA}, ("silver", "silver"), id="namespace"),
        pytest.param(
            facts(), {"of": unit()}, ("gold", "gold"), id="those of its unit, if it has one"
        ),
        pytest.param(
            facts(labels={LABEL: "silver", "koord-queue/queue-name": "fast"}),
            {},
            ("fast", "silver"),
            id="a queue of its own",
        ),
    ],
)
def test_the_queue_and_the_quota(
    job: JobFacts, asked: dict[str, Any], want: tuple[str, str]
) -> None:
    said = explain(job, **asked)
    assert (said.queue, said.quota) == want


def waiting(reason: str, message: str) -> QueueUnit:
    condition = Condition(type=QUOTA_RESERVED, status="False", reason=reason, message=message)
    return unit(conditions=(condition,))


@pytest.mark.parametrize(
    ("job", "asked", "want"),
    [
        pytest.param(facts(labels=MISSPELLED), {}, ["KeyWithoutEffect"], id="a misspelled label"),
        pytest.param(
            facts(annotations={"koord-queue/runing-timeout": "5m"}),
            {"of": unit()},
            ["KeyWithoutEffect"],
            id="a misspelled setting",
        ),
        pytest.param(
            NOBODYS, {"has_queued_neighbors": True}, ["NotQueued"], id="its neighbors are queued"
        ),
        pytest.param(
            facts(owner_references=(OWNER,)),
            {"owners": NOT_MADE},
            ["OwnerIgnored"],
            id="a false owner",
        ),
        pytest.param(
            facts(annotations={"koord-queue/running-timeout": "soon"}),
            {},
            ["IgnoredAnnotation"],
            id="a value that cannot be read",
        ),
        pytest.param(
            facts(unknown_demand="no min-resources"), {}, ["DemandUnknown"], id="unknown demand"
        ),
        pytest.param(
            facts(pods_refused="no ServiceAccount x"), {}, ["PodsRefused"], id="refused pods"
        ),
        pytest.param(
            facts(), {"of": waiting("NoQuota", "there is none")}, ["NoQuota"], id="an obstacle"
        ),
        pytest.param(
            facts(), {"of": waiting("OverQuotaMax", "it is full")}, [], id="what passes by itself"
        ),
        pytest.param(facts(), {}, [], id="nothing"),
    ],
)
def test_what_is_wrong_with_it(job: JobFacts, asked: dict[str, Any], want: list[str]) -> None:
    assert [each.reason for each in explain(job, **asked).problems] == want


def test_a_warning_that_was_reported_is_shown_again() -> None:
    memory = JobMemory(reported_events=frozenset({"KeyWithoutEffect"}), blocking_message="x")
    (problem,) = explain(facts(labels=MISSPELLED), memory=memory).problems
    assert f"Did you mean {LABEL}?" in problem.message


def test_each_annotation_that_does_not_count_is_a_problem_of_its_own() -> None:
    annotations = {"koord-queue/running-timeout": "soon", "koord-queue/backoff-limit": "few"}
    problems = explain(facts(annotations=annotations)).problems
    assert [each.reason for each in problems] == ["IgnoredAnnotation"] * 2
    assert len({each.message for each in problems}) == 2
