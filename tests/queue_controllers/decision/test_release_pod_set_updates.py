"""Updates of pod templates by admission checks: merged, or refused with a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import ReleaseJob
from queue_controllers.decision.release import (
    NO_UPDATES,
    UpdateConflict,
    UpdatePlan,
    plan_updates,
)
from queue_controllers.jobframework.generic_job import JobFacts, PodStamp
from queue_controllers.jobframework.template_updates import (
    AddedParts,
    TemplateUpdate,
    digest_of,
    read_added,
)
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.well_known_labels import POD_SET_UPDATES
from tests.job_situations import ADMITTED, action_names, facts, look, unit

QUOTA = "quota.scheduling.koordinator.sh/name"
STAMP = {"main": PodStamp(labels={QUOTA: "gold"}, annotations={"koord-queue/x": "team/main"})}
SPOT = {"key": "spot", "operator": "Exists"}
OWN = {"key": "own", "operator": "Exists"}


def job(added: AddedParts | None = None, **template: Any) -> JobFacts:
    """Return a job with labels and a nodeSelector of its own, and those of an earlier release."""
    of = facts()
    (pod_set,) = of.pod_sets
    meta, spec = pod_set.template.metadata, pod_set.template.spec
    changed = msgspec.structs.replace(
        pod_set.template,
        metadata=msgspec.structs.replace(meta, labels={"app": "a", QUOTA: "gold"}),
        spec=msgspec.structs.replace(
            spec, node_selector={"disk": "ssd"}, tolerations=(OWN,), **template
        ),
    )
    marks = {POD_SET_UPDATES: "noted"} if added else {}
    return msgspec.structs.replace(
        of,
        metadata=msgspec.structs.replace(of.metadata, annotations=marks),
        pod_sets=(msgspec.structs.replace(pod_set, template=changed, added=added or AddedParts()),),
        takes_updates=True,
    )


def checked(*wanted: dict[str, Any]) -> QueueUnit:
    """Return a unit with a check for each of these updates, called a, b, ..."""
    states = [
        {"name": name, "state": "Ready", "podSetUpdates": [{"name": "main", **each}]}
        for name, each in zip("abc", wanted, strict=False)
    ]
    checks = msgspec.convert(states, tuple[AdmissionCheckState, ...])
    return unit("Dequeued", admissions=ADMITTED, admission_checks=checks)


def planned(of: JobFacts, *wanted: dict[str, Any]) -> tuple[TemplateUpdate, AddedParts]:
    """Return the change of the only template, and the note about it."""
    plan = plan_updates(of, checked(*wanted), STAMP)
    assert isinstance(plan, UpdatePlan), plan
    assert plan.note is not None
    noted = read_added({POD_SET_UPDATES: plan.note})
    return plan.updates.get("main", TemplateUpdate()), noted.get("main", AddedParts())


def test_checks_are_merged() -> None:
    first = {
        "nodeSelector": {"zone": "z1"},
        "labels": {"team": "t"},
        "tolerations": [SPOT],
    }
    second = {
        "nodeSelector": {"zone": "z1", "disk": "ssd"},
        "annotations": {"note": "n"},
        "tolerations": [SPOT, OWN],
    }
    update, noted = planned(job(), first, second)
    assert update == TemplateUpdate(
        labels={"team": "t"},
        annotations={"note": "n"},
        node_selector={"zone": "z1"},
        tolerations=(OWN, SPOT),
    )
    assert noted == AddedParts(
        labels={"team": digest_of("t")},
        annotations={"note": digest_of("n")},
        node_selector={"zone": digest_of("z1")},
        tolerations=(SPOT,),
    ), "what the template had before is not noted: it stays at the next release"


def test_earlier_additions_that_are_no_longer_wanted_are_removed() -> None:
    before = AddedParts(
        labels={"team": "x"}, node_selector={"zone": "x", "rack": "x"}, tolerations=(SPOT,)
    )
    update, noted = planned(job(before), {"nodeSelector": {"zone": "z2"}})
    assert update == TemplateUpdate(
        labels={"team": None}, node_selector={"zone": "z2", "rack": None}, tolerations=(OWN,)
    )
    assert noted == AddedParts(node_selector={"zone": digest_of("z2")})
    assert plan_updates(job(before), checked(), STAMP) == UpdatePlan(
        updates={
            "main": TemplateUpdate(
                labels={"team": None},
                node_selector={"zone": None, "rack": None},
                tolerations=(OWN,),
            )
        },
        note="",
    )


def test_each_set_gets_its_own() -> None:
    of = job()
    (main,) = of.pod_sets
    both = msgspec.structs.replace(of, pod_sets=(main, msgspec.structs.replace(main, name="ps")))
    wanted = checked({"labels": {"a": "b"}}, {"name": "ps", "labels": {"a": "c"}})
    plan = plan_updates(both, wanted, STAMP)
    assert isinstance(plan, UpdatePlan)
    assert plan.updates == {
        "main": TemplateUpdate(labels={"a": "b"}),
        "ps": TemplateUpdate(labels={"a": "c"}),
    }


def without_template(of: JobFacts) -> JobFacts:
    """Return a job with another set, whose pod its operator defines."""
    (main,) = of.pod_sets
    implied = msgspec.structs.replace(main, name="submitter", count=0, has_template=False)
    return msgspec.structs.replace(of, pod_sets=(main, implied))


def test_a_set_without_a_template_is_skipped_and_reported() -> None:
    of = without_template(job())
    wanted = checked({"labels": {"a": "b"}}, {"name": "submitter", "labels": {"a": "c"}})
    plan = plan_updates(of, wanted, STAMP)
    assert isinstance(plan, UpdatePlan)
    assert plan.updates == {"main": TemplateUpdate(labels={"a": "b"})}
    assert read_added({POD_SET_UPDATES: plan.note or ""}).keys() == {"main"}
    assert action_names(look(of, wanted).actions) == ["release", "event UpdatesNotTaken"]
    for nothing in ({}, {"name": "submitter"}):
        assert action_names(look(of, checked(nothing)).actions) == ["release"]


def test_nothing_is_changed_without_updates() -> None:
    assert plan_updates(job(), checked(), STAMP) == NO_UPDATES
    assert plan_updates(job(), checked({}), STAMP) == UpdatePlan(note="")


@pytest.mark.parametrize(
    ("of", "wanted", "want"),
    [
        pytest.param(
            job(),
            [{"nodeSelector": {"zone": "z1"}}, {"nodeSelector": {"zone": "z2"}}],
            "Admission check b wants node selector zone of pod set main to be z2,"
            " and admission check a z1",
            id="two checks",
        ),
        pytest.param(
            job(),
            [{"nodeSelector": {"disk": "hdd"}}],
            "Admission check a wants node selector disk of pod set main to be hdd,"
            " and the job's template ssd",
            id="a check and the job",
        ),
        pytest.param(
            job(),
            [{"labels": {QUOTA: "iron"}}],
            f"Admission check a wants label {QUOTA} of pod set main to be iron, and the queue gold",
            id="a check and the queue",
        ),
        pytest.param(
            job(),
            [{"annotations": {"k": "x" * 100}}, {"annotations": {"k": "y"}}],
            "Admission check b wants annotation k of pod set main to be y, and admission check a "
            + "x" * 60
            + "...",
            id="a long value is cut",
        ),
        pytest.param(
            job(),
            [{"name": "ps"}],
            "Admission check a changes pod set ps: it has none",
            id="an unknown pod set",
        ),
        pytest.param(
            msgspec.structs.replace(job(), takes_updates=False),
            [{"labels": {"a": "b"}}],
            "Admission check a changes pods, which no Job takes",
            id="a kind whose templates cannot change",
        ),
        pytest.param(
            job(),
            [{"annotations": {"k" * 300 + str(n): "v" for n in range(64)}}] * 1
            + [{"annotations": {"x" * 300 + str(n) * 3: "v" for n in range(64)}}]
            + [{"annotations": {"z" * 900 + str(n): "v" for n in range(64)}}],
            "Admission checks change more than 65536 bytes of it",
            id="more than can be noted",
        ),
    ],
)
def test_contradictions_are_reported(of: JobFacts, wanted: list[dict[str, Any]], want: str) -> None:
    assert plan_updates(of, checked(*wanted), STAMP) == UpdateConflict(want)


def test_a_release_includes_the_updates_of_checks() -> None:
    (release,) = look(job(), checked({"nodeSelector": {"zone": "z1"}})).actions
    assert isinstance(release, ReleaseJob)
    assert release.updates == {"main": TemplateUpdate(node_selector={"zone": "z1"})}
    assert release.updates_note is not None
    (plain,) = look(facts(), unit("Dequeued", admissions=ADMITTED)).actions
    assert isinstance(plain, ReleaseJob)
    assert (plain.updates, plain.updates_note) == ({}, None)


def test_a_contradiction_ends_the_admission() -> None:
    decision = look(job(), checked({"nodeSelector": {"disk": "hdd"}}))
    assert action_names(decision.actions) == ["write status", "RecordUnitEvent"]
