"""Which jobs are managed, and which quota and queue they have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import (
    ClusterContext,
    Ownership,
    Rule,
    classify_ownership,
    find_owner,
    queue_of_job,
    quota_of_job,
)
from queue_controllers.decision.job_settings import JobSettings, Manage
from queue_controllers.decision.owners import Above, Refusal
from queue_controllers.jobframework.generic_job import (
    JobFacts,
    JobKind,
    JobPodSet,
    Outcome,
    StatusFacts,
)
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.objects.pod import TemplateMeta
from shared_api.quota_names import QuotaNames
from shared_api.well_known_labels import RELEASED_AT, SUSPEND
from tests.queue_controllers.owner_kit import KnownOwners

JOB = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs")
QUOTA = "quota.scheduling.koordinator.sh/name"
NAMESPACE_QUOTA = ClusterContext(quotas=QuotaNames(of_namespaces={"team": "team"}))
LABELLED_NAMESPACE = ClusterContext(namespace_labels={"koord-queue/managed": "true"})
NOTHING = ClusterContext()
GOLD = {QUOTA: "gold"}
QUEUED = {"koord-queue/queue-name": "q"}
ENDED = StatusFacts(outcome=Outcome(succeeded=True))
NOT_MADE = Refusal("it did not")
MADE = KnownOwners(refusals={"JobSet": None, "RayJob": None, "AppWrapper": None})


def owner(kind: str, group: str = "x.io") -> OwnerReference:
    api = f"{group}/v1".lstrip("/")
    return OwnerReference(api_version=api, kind=kind, name="above", uid=Uid(kind), controller=True)


def under(**above: str) -> KnownOwners:
    """Return the owners of owners, by kind; the kinds of `MADE` are known."""
    chain = {kind: Above(owner=owner(each)) for kind, each in above.items()}
    return msgspec.structs.replace(MADE, chain=chain, asked=[])


def job(
    *owners: OwnerReference,
    namespace: str = "team",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template_labels: dict[str, str] | None = None,
    foreign: str = "",
) -> JobFacts:
    template = ScheduledPodTemplate(metadata=TemplateMeta(labels=template_labels or {}))
    meta = ObjectMeta(
        name="main",
        namespace=namespace,
        labels=labels or {},
        annotations=annotations or {},
        owner_references=owners,
    )
    pod_sets = (JobPodSet(name="main", count=1, template=template),)
    return JobFacts(
        kind=JOB, metadata=meta, suspended=False, pod_sets=pod_sets, foreign_manager=foreign
    )


def judge(
    of: JobFacts,
    context: ClusterContext,
    manage: Manage = Manage.NAMESPACE_QUOTA,
    *,
    has_unit: bool = False,
    owners: KnownOwners = MADE,
) -> Ownership:
    settings = JobSettings(manage=manage)
    return classify_ownership(of, context, settings, has_unit=has_unit, owners=owners)


@pytest.mark.parametrize(
    ("of", "context", "want"),
    [
        pytest.param(job(), NOTHING, "", id="names nothing"),
        pytest.param(job(labels=GOLD), NOTHING, "LNA", id="names a quota"),
        pytest.param(job(labels={"alibabacloud.com/quota-name": "g"}), NOTHING, "LNA", id="legacy"),
        pytest.param(job(labels=QUEUED), NOTHING, "LNA", id="names a queue by label"),
        pytest.param(job(annotations=QUEUED), NOTHING, "LNA", id="names a queue by annotation"),
        pytest.param(
            job(annotations={"kube-queue/queue-name": "q"}), NOTHING, "LNA", id="before the rename"
        ),
        pytest.param(job(template_labels=GOLD), NOTHING, "", id="its template names a quota"),
        pytest.param(job(annotations={SUSPEND: "true"}), NOTHING, "LNA", id="asks to be queued"),
        pytest.param(job(annotations={SUSPEND: "false"}), NOTHING, "", id="no label"),
        pytest.param(job(), NAMESPACE_QUOTA, "N", id="its namespace has a quota"),
        pytest.param(job(), LABELLED_NAMESPACE, "LNA", id="its namespace is labeled"),
        pytest.param(job(annotations={RELEASED_AT: "x"}), NOTHING, "LNA", id="released once"),
        pytest.param(job(namespace="kube-system", labels=GOLD), NOTHING, "", id="kube-system"),
        pytest.param(
            job(namespace="koord-queue", labels=GOLD), NOTHING, "", id="our own namespace"
        ),
        pytest.param(
            job(labels={**GOLD, "kueue.x-k8s.io/queue-name": "q"}), NOTHING, "", id="Kueue's"
        ),
        pytest.param(
            job(labels={**GOLD, "kueue.x-k8s.io/queue-name": "q"}),
            ClusterContext(leaves_to_kueue=False),
            "LNA",
            id="Kueue's, where there is none",
        ),
        pytest.param(job(labels=GOLD, foreign="x/y"), NOTHING, "", id="spec.managedBy of others"),
        pytest.param(job(owner("JobSet"), labels=GOLD), NOTHING, "", id="under a known kind"),
        pytest.param(job(owner("CronJob"), labels=GOLD), NOTHING, "LNA", id="under a CronJob"),
        pytest.param(job(owner("CronJob")), NAMESPACE_QUOTA, "N", id="CronJob, namespace quota"),
        pytest.param(job(owner("Thing"), labels=GOLD), NOTHING, "LNA", id="unknown owner, named"),
        pytest.param(job(owner("Thing")), NAMESPACE_QUOTA, "", id="unknown owner, not named"),
    ],
)
def test_managed(of: JobFacts, context: ClusterContext, want: str) -> None:
    """`want` lists the modes, by their first letters, in which the job is managed."""
    everything = {"namespace-quota": "N", "labelled": "L"}
    got = "".join(
        everything[mode] for mode in sorted(everything) if judge(of, context, Manage(mode)).managed
    )
    assert got == "".join(sorted(want.replace("A", "")))


@pytest.mark.parametrize(
    ("of", "context", "want"),
    [
        pytest.param(job(), NOTHING, Rule.NAMES_NOTHING, id="nothing"),
        pytest.param(job(labels=GOLD), NOTHING, Rule.NAMES_QUEUE_OR_QUOTA, id="a quota"),
        pytest.param(
            job(annotations={SUSPEND: "true"}), NOTHING, Rule.SUSPEND_ANNOTATION, id="annotation"
        ),
        pytest.param(job(), LABELLED_NAMESPACE, Rule.NAMESPACE_LABEL, id="its namespace's label"),
        pytest.param(job(), NAMESPACE_QUOTA, Rule.NAMESPACE_QUOTA, id="its namespace's quota"),
        pytest.param(job(annotations={RELEASED_AT: "x"}), NOTHING, Rule.IN_QUEUE, id="released"),
        pytest.param(
            job(namespace="kube-system", labels=GOLD), NOTHING, Rule.NAMESPACE_EXCLUDED, id="system"
        ),
        pytest.param(
            job(labels={"kueue.x-k8s.io/queue-name": "q"}), NOTHING, Rule.LEFT_TO_KUEUE, id="Kueue"
        ),
        pytest.param(job(labels=GOLD, foreign="x/y"), NOTHING, Rule.MANAGED_BY_OTHER, id="others"),
        pytest.param(job(owner("JobSet"), labels=GOLD), NOTHING, Rule.OWNED, id="another job's"),
        pytest.param(job(owner("Thing")), NAMESPACE_QUOTA, Rule.OWNED, id="an unknown owner's"),
    ],
)
def test_the_rule_is_named_with_its_text(of: JobFacts, context: ClusterContext, want: Rule) -> None:
    got = judge(of, context)
    assert got.rule is want
    assert got.reason


def test_the_rules_where_every_job_is_managed_or_its_owner_is_held() -> None:
    assert judge(job(), NOTHING, Manage.ALL).rule is Rule.EVERY_JOB
    held = KnownOwners(refusals={"JobSet": Refusal("it is held", holds=True)})
    assert judge(job(owner("JobSet"), labels=GOLD), NOTHING, owners=held).rule is (
        Rule.OWNER_IS_HELD
    )


def test_manage_all_includes_every_job_without_an_owner() -> None:
    assert judge(job(), NOTHING, Manage.ALL).managed
    assert not judge(job(owner("RayJob")), NOTHING, Manage.ALL).managed
    assert not judge(job(owner("Thing")), NOTHING, Manage.ALL).managed


class TestPods:
    KIND = JobKind(
        key="pod",
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        held_by_gates=True,
        made_by=frozenset({"ReplicaSet", "Deployment"}),
    )

    def judge(self, *owners: OwnerReference, **above: str) -> bool:
        pod = msgspec.structs.replace(job(*owners), kind=self.KIND)
        return judge(pod, NOTHING, owners=under(**above)).managed

    def test_they_are_managed_by_their_gate(self) -> None:
        assert self.judge()

    def test_one_with_the_empty_label_of_kueues_webhook_is_kueues(self) -> None:
        pod = msgspec.structs.replace(job(labels={"kueue.x-k8s.io/queue-name": ""}), kind=self.KIND)
        assert not judge(pod, NOTHING).managed
        assert judge(pod, ClusterContext(leaves_to_kueue=False)).managed

    def test_one_of_a_set_is_its_own_job(self) -> None:
        assert self.judge(owner("ReplicaSet"))
        assert self.judge(owner("ReplicaSet"), ReplicaSet="Deployment")

    def test_one_under_a_job_is_not(self) -> None:
        assert not self.judge(owner("ReplicaSet"), ReplicaSet="Deployment", Deployment="AppWrapper")
        assert not self.judge(owner("StatefulSet"))

    def test_one_of_an_unknown_controller_is_its_own_job(self) -> None:
        assert self.judge(owner("Thing"))
        assert not self.judge(owner("Thing"), Thing="RayJob")


def test_a_queued_job_does_not_leave_the_queue_by_losing_its_label() -> None:
    assert judge(job(), NOTHING, has_unit=True).managed


@pytest.mark.parametrize(
    ("of", "above", "want"),
    [
        pytest.param(job(owner("Thing"), labels=GOLD), "RayJob", False, id="unknown, then known"),
        pytest.param(job(owner("Thing"), labels=GOLD), "Other", True, id="unknown all the way"),
        pytest.param(job(owner("CronJob"), labels=GOLD), "JobSet", False, id="CronJob of a job"),
        pytest.param(
            job(owner("CronJob")), "Thing", False, id="CronJob of an unknown kind, not named"
        ),
        pytest.param(job(owner("CronJob"), labels=GOLD), "Thing", True, id="the same, named"),
    ],
)
@pytest.mark.parametrize("has_unit", [True, False], ids=["has a unit", "has none"])
def test_the_owners_of_the_owner(of: JobFacts, above: str, want: bool, has_unit: bool) -> None:
    direct = of.metadata.owner_references[0].kind
    got = judge(of, NAMESPACE_QUOTA, has_unit=has_unit, owners=under(**{direct: above}))
    assert got.managed is want
    assert got.nested is not want


def test_an_owner_that_has_not_created_the_job_counts_as_none() -> None:
    owners = KnownOwners(refusals={"JobSet": NOT_MADE})
    got = judge(job(owner("JobSet"), labels=GOLD), NOTHING, owners=owners)
    assert got.managed
    assert got.ignored_owner == "JobSet above is named as its owner, but it did not"
    assert not got.may_be_nested
    assert not judge(job(owner("JobSet")), NOTHING, owners=owners).managed, "and names nothing"


@pytest.mark.parametrize("has_unit", [True, False], ids=["has a unit", "has none"])
def test_an_owner_may_later_name_a_job_that_is_not_queued(has_unit: bool) -> None:
    owners = KnownOwners(refusals={"RayJob": Refusal("not yet", may_pass=True)})
    got = judge(job(owner("RayJob"), labels=GOLD), NOTHING, has_unit=has_unit, owners=owners)
    assert got.managed
    assert got.may_be_nested is not has_unit


def test_the_owner_must_have_created_the_next_object_in_the_chain() -> None:
    owners = under(CronJob="AppWrapper")
    assert not judge(job(owner("CronJob", "batch"), labels=GOLD), NOTHING, owners=owners).managed
    assert owners.asked == ["CronJob", "batch/CronJob <- AppWrapper"]


@pytest.mark.parametrize(
    ("by", "missing", "want"),
    [
        pytest.param(owner("Thing"), "", "", id="an existing one"),
        pytest.param(owner("Thing"), "it is not there", "it is not there", id="a missing one"),
        pytest.param(owner("ConfigMap", ""), "", "a ConfigMap makes no jobs", id="a ConfigMap"),
        pytest.param(owner("Job", "batch"), "", "a Job makes no jobs", id="a Job, by its group"),
        pytest.param(
            owner("Role", "rbac.authorization.k8s.io"), "", "a Role makes no jobs", id="a Role"
        ),
        pytest.param(owner("Trial", "kubeflow.org"), "", "", id="one of a project"),
        pytest.param(owner("Thing", "x.sigs.k8s.io"), "", "", id="one of Kubernetes' projects"),
    ],
)
def test_an_owner_of_an_unknown_kind_must_exist_and_create_jobs(
    by: OwnerReference, missing: str, want: str
) -> None:
    owners = KnownOwners(chain={by.kind: Above(missing=missing)})
    got = judge(job(by), NAMESPACE_QUOTA, owners=owners)
    assert got.managed is bool(want)
    assert got.ignored_owner.removeprefix(f"{by.kind} above is named as its owner, but ") == want


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(job(owner("CronJob")), id="nothing makes it managed"),
        pytest.param(job(labels=GOLD), id="it has no owner"),
        pytest.param(job(owner("CronJob"), namespace="kube-system"), id="in kube-system"),
        pytest.param(
            msgspec.structs.replace(job(owner("JobSet"), labels=GOLD), status=ENDED),
            id="it has ended",
        ),
    ],
)
def test_owners_are_read_only_where_they_matter(of: JobFacts) -> None:
    owners = under()
    judge(of, NOTHING, owners=owners)
    assert owners.asked == []


def test_owners_are_followed_by_kind_as_far_as_they_are_known() -> None:
    chain = {"Thing": owner("CronJob"), "CronJob": owner("JobSet")}
    found = find_owner(owner("Thing"), lambda each: chain.get(each.kind))
    assert found is not None
    assert found.kind == "JobSet"
    loop = find_owner(owner("Thing"), lambda _: owner("Thing"))
    assert loop is not None
    assert loop.kind == "Thing"
    assert find_owner(None, lambda _: None) is None


def test_the_chain_ends_at_the_eighth_owner() -> None:
    asked: list[OwnerReference] = []

    def read_owner(each: OwnerReference) -> OwnerReference:
        asked.append(each)
        return owner("Thing")

    find_owner(owner("Thing"), read_owner)
    assert len(asked) == 7, "the first of them is in the job"


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job(labels=GOLD), ("gold", "gold"), id="label"),
        pytest.param(job(template_labels={QUOTA: "t"}), ("t", "t"), id="the template's"),
        pytest.param(
            job(labels=GOLD, template_labels={QUOTA: "t"}),
            ("t", "t"),
            id="the template's before the job's own: its pods count there",
        ),
        pytest.param(job(), ("team", "team"), id="the namespace's"),
        pytest.param(job(labels=QUEUED), ("team", "q"), id="a queue of its own choice"),
    ],
)
def test_quota_and_queue(of: JobFacts, want: tuple[str, str]) -> None:
    quota = quota_of_job(of, NAMESPACE_QUOTA)
    assert (quota, queue_of_job(of, quota)) == want


def test_without_any_quota_there_is_no_queue() -> None:
    facts: Any = job()
    assert queue_of_job(facts, quota_of_job(facts, NOTHING)) == ""
