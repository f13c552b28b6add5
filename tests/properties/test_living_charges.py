"""What is charged for running jobs, compared with a reference that knows only the objects.

The reference reads the objects pod by pod, and shares nothing with the scheduler's own sums: for
each pod set of a unit, its living pods at the larger of themselves and the template, those that end
as they are, and those that are granted and do not live at the template. Pods that name another
quota are charged there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.pod import Container, Pod, PodSpec, PodTemplate, ResourceRequirements
from shared_api.objects.queue_unit import Admission, PodSet, QueueUnit, ReclaimablePod
from shared_api.well_known_labels import PREEMPTIBLE, QUOTA_NAME, RELATED_POD_SET
from tests.properties.engine_checks import check_audit
from tests.properties.engine_kit import (
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    condition,
    moment,
)
from tests.properties.real_quotas import RealQuotas, new_engine

pytestmark = pytest.mark.properties

QUOTAS = ("a", "b", "c")
RESOURCES = ("cpu", "memory")
Sums = dict[str, int]


class Job(NamedTuple):
    """A unit with the pods of its job."""

    unit: QueueUnit
    pods: tuple[Pod, ...]


def spec_of(asked: Sums) -> PodSpec:
    requests: Any = dict(asked)
    return PodSpec(containers=(Container(resources=ResourceRequirements(requests=requests)),))


def random_requests(rng: random.Random) -> Sums:
    return {key: rng.randint(1, 4) for key in RESOURCES if rng.random() < 0.8}


def random_job(rng: random.Random, number: int) -> Job:
    """Return a job in quota a, whose pods may be of any shape, state and label."""
    names = ("main", "more", "rest")[: rng.choice((1, 1, 2, 3))]
    sets = tuple(
        PodSet(name=name, count=rng.randint(0, 4), template=PodTemplate(spec=spec_of(asked)))
        for name, asked in ((name, random_requests(rng)) for name in names)
    )
    unit = build_unit(f"u{number}", "a", job=f"job-{number}", created=1)
    unit = replace(unit, spec=replace(unit.spec, request={}, pod_set=sets))
    granted = tuple(_admission(rng, each) for each in sets)
    back = tuple(ReclaimablePod(name, rng.randint(0, 3)) for name in names if rng.random() < 0.2)
    evicted = (condition("Evicted", "True"),) if rng.random() < 0.1 else ()
    unit = changed(
        unit, 2, "Running", admissions=granted, reclaimable_pods=back, conditions=evicted
    )
    pods = (random_pod(rng, unit, sets, at) for at in range(rng.randint(0, 6)))
    return Job(unit, tuple(pods))


def _admission(rng: random.Random, pod_set: PodSet) -> Admission:
    """Return what was granted of a set: all of it, or a part; the amounts may be unrecorded."""
    count = pod_set.count if rng.random() < 0.7 else rng.randint(0, pod_set.count)
    asked = _requests(pod_set.template.spec)
    recorded: Any = {key: amount * count for key, amount in asked.items()}
    return Admission(
        name=pod_set.name, replicas=count, resources=recorded if rng.random() < 0.7 else {}
    )


def random_pod(rng: random.Random, unit: QueueUnit, sets: tuple[PodSet, ...], at: int) -> Pod:
    """Return a pod of the unit: mostly as its template says."""
    of = rng.choice(sets)
    asked = _requests(of.template.spec)
    if rng.random() < 0.4:
        asked = {key: rng.randint(1, 5) for key in asked}
    pod = build_pod(
        f"{unit.metadata.name}-{at}",
        unit=unit.metadata.key if rng.random() < 0.8 else "",
        owner=unit.spec.consumer_ref.uid if unit.spec.consumer_ref else "",
        quota="a" if rng.random() < 0.7 else rng.choice(QUOTAS),
        phase=rng.choice(("Running", "Running", "Pending", "Succeeded", "Failed")),
        created=2,
    )
    meta = pod.metadata
    notes = dict(meta.annotations)
    if len(sets) > 1 and rng.random() < 0.8:
        notes[RELATED_POD_SET] = of.name
    labels = dict(meta.labels)
    if rng.random() < 0.2:
        labels[PREEMPTIBLE] = "false"
    ends = moment(3) if rng.random() < 0.2 else None
    meta = replace(meta, annotations=notes, labels=labels, deletion_timestamp=ends)
    spec = replace(spec_of(asked), node_name=pod.spec.node_name)
    return replace(pod, metadata=meta, spec=spec)


# --- the reference ------------------------------------------------------------------------------


def _requests(spec: PodSpec) -> Sums:
    total: Sums = {}
    for container in spec.containers:
        for key, amount in container.resources.requests.items():
            total[key] = total.get(key, 0) + int(amount)
    return total


def plus(*all_sums: Sums) -> Sums:
    keys = [key for sums in all_sums for key in sums]
    return {key: sum(sums.get(key, 0) for sums in all_sums) for key in keys}


def largest(*all_sums: Sums) -> Sums:
    keys = [key for sums in all_sums for key in sums]
    return {key: max(sums.get(key, 0) for sums in all_sums) for key in keys}


def is_living(pod: Pod) -> bool:
    return pod.status.phase not in {"Succeeded", "Failed"}


def want_for(job: Job) -> Sums:
    """Return what a running unit is charged to its own quota."""
    status = job.unit.status
    own = [pod for pod in job.pods if is_living(pod) and pod.metadata.labels[QUOTA_NAME] == "a"]
    back = {each.name: each.count for each in status.reclaimable_pods}
    left = {each.name: max(0, each.replicas - back.get(each.name, 0)) for each in status.admissions}
    templates = {each.name: _requests(each.template.spec) for each in job.unit.spec.pod_set}
    granted = plus(*(t for name, t in templates.items() for _ in range(left[name])))
    as_sums = largest(granted, plus(*(_requests(pod.spec) for pod in own)))
    if status.conditions:
        return as_sums  # it is being evicted, and makes no pods any more
    sets: dict[str, list[Pod]] = {name: [] for name in templates}
    unknown: list[Pod] = []
    for pod in own:
        sets.get(_set_of(pod, own, left), unknown).append(pod)
    return _add_up(sets, unknown, left, templates)


def _set_of(pod: Pod, own: list[Pod], left: dict[str, int]) -> str:
    """Return the pod set of a pod: its mark, or the only one, if no more live than it has."""
    if len(left) > 1:
        return pod.metadata.annotations.get(RELATED_POD_SET, "")
    (name,) = left
    alive = [each for each in own if each.metadata.deletion_timestamp is None]
    return name if len(alive) <= left[name] else ""


def _add_up(
    sets: dict[str, list[Pod]],
    unknown: list[Pod],
    left: dict[str, int],
    templates: dict[str, Sums],
) -> Sums:
    charged: list[Sums] = []
    missing: list[Sums] = []
    for name, pods in sets.items():
        ends = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        stays = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        charged += [_requests(pod.spec) for pod in ends]
        charged += [largest(_requests(pod.spec), templates[name]) for pod in stays]
        missing += [templates[name]] * max(0, left[name] - len(stays))
    rest = largest(plus(*missing), plus(*(_requests(pod.spec) for pod in unknown)))
    return plus(*charged, rest)


def want_elsewhere(jobs: Iterable[Job], quota: str) -> Sums:
    pods = (pod for job in jobs for pod in job.pods if is_living(pod))
    return plus(*(_requests(pod.spec) for pod in pods if pod.metadata.labels[QUOTA_NAME] == quota))


def want_firm(jobs: Iterable[Job], quota: str) -> Sums:
    """Return what may not be preempted: only pods say so here, and no unit."""
    pods = (pod for job in jobs for pod in job.pods if is_living(pod))
    firm = (pod for pod in pods if pod.metadata.labels.get(PREEMPTIBLE) == "false")
    return plus(*(_requests(p.spec) for p in firm if p.metadata.labels[QUOTA_NAME] == quota))


def base_units(sums: Sums) -> Sums:
    return {key: n * 1000 if key == "cpu" else n for key, n in sums.items() if n}


# --- the properties -----------------------------------------------------------------------------


def told_engine(jobs: Iterable[Job], rng: random.Random, mode: QuotaMode) -> Engine:
    """Return an engine that has been told the objects in any order, and other pods before."""
    engine = new_engine(QuotaSettings(mode=mode))
    for name in QUOTAS:
        engine.on_quota(
            replace(
                build_quota(name),
                spec=replace(build_quota(name).spec, max=dict.fromkeys(RESOURCES, 90)),
            )
        )
        engine.on_queue(build_queue(name))
    facts: list[QueueUnit | Pod] = [job.unit for job in jobs]
    facts += [pod for job in jobs for pod in job.pods]
    earlier = [_as_before(rng, fact) for fact in facts if isinstance(fact, Pod)]
    for fact in (*_shuffled(rng, earlier), *_shuffled(rng, facts)):
        apply(engine, fact)
        engine.validate()
    return engine


def _shuffled(rng: random.Random, facts: list[Any]) -> list[Any]:
    return rng.sample(facts, len(facts))


def _as_before(rng: random.Random, pod: Pod) -> Pod:
    """Return a pod as it was before it was resized, moved, deleted, or had ended."""
    meta = replace(
        pod.metadata,
        deletion_timestamp=None,
        labels={**pod.metadata.labels, QUOTA_NAME: rng.choice(QUOTAS)},
    )
    return replace(
        pod, metadata=meta, spec=spec_of(random_requests(rng)), status=replace(pod.status, phase="")
    )


def apply(engine: Engine, fact: QueueUnit | Pod) -> None:
    if isinstance(fact, Pod):
        engine.on_pod(fact)
    else:
        engine.on_queue_unit(fact)


@pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME])
@given(seed=st.integers(0, 2**32 - 1))
def test_charges_follow_from_what_will_live(mode: QuotaMode, seed: int) -> None:
    rng = random.Random(seed)
    jobs = [random_job(rng, number) for number in range(rng.randint(1, 3))]
    engine = told_engine(jobs, rng, mode)
    for job in jobs:
        charge = engine.usage.charge_of(job.unit.metadata.uid)
        assert charge is not None
        got = {key: amount for key, amount in charge.amounts.items() if amount}
        assert got == base_units(want_for(job)), job
    quotas = RealQuotas(engine).plugin.quotas
    in_a = plus(*(want_for(job) for job in jobs))
    for name in QUOTAS:
        view, node = quotas.view(name), quotas.trees.nodes[name]
        want = in_a if name == "a" else want_elsewhere(jobs, name)
        assert view is not None
        assert {key: n for key, n in view.used.items() if n} == base_units(want), name
        firm = {key: n for key, n in node.np_used.items() if n}
        assert firm == base_units(want_firm(jobs, name)), name
    reported: dict[tuple[str, str], Any] = {
        **{("unit", job.unit.metadata.key): job.unit for job in jobs},
        **{("pod", pod.metadata.key): pod for job in jobs for pod in job.pods},
    }
    check_audit(engine, reported, {job.unit.metadata.key for job in jobs})
