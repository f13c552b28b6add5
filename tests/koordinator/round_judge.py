"""Judges rounds beside koord-scheduler: was a pod refused that the queue should not have released?

The history is what the API said, in the order of its resourceVersions. A pod is refused when its
condition PodScheduled says that a quota has too little. Each refusal is one of three:

- *passing*: by the pods that exist and koord-scheduler's own rules, the pod passes. Its attempt
  was made before koord-scheduler had seen what happened; the next one binds it.
- *explained*: without what users did after the queue's last decision, the pod would pass. They
  edited quotas, nodes or labels, resized pods, or made pods that no queue has released.
- *unexplained*: the pod would be refused even so. The queue has released what is not covered.

The verdicts are computed from the objects alone, by the model of koord-scheduler that the recorded
observations are checked with. Where its state cannot be known from the objects, every state that it
may be in has to let the pod pass.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from queue_scheduler.quota.capacity import NodeCapacity
from queue_scheduler.quota.koord_scheduler_state import possible_states
from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_spec import QuotaSpec, parse_quota
from queue_scheduler.quota.quota_tree import build_forest, tree_totals
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node
from shared_api.quota_names import build_quota_names, read_named_quota
from shared_api.resource_list import parse_amounts
from shared_api.testing.object_builders import to_struct
from shared_api.well_known_labels import ROOT_QUOTA
from tests.cluster.judgement import Seen
from tests.contracts.koordinator_model import SPECIALS, SchedulerModel
from tests.object_states import condition_of, is_admitted, is_living

Json = dict[str, Any]
Bodies = Mapping[str, Json]
"""Objects by uid."""

PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"
UNSEEN_SECONDS: Final = 1.0
"""What users did less than this before an admission, its decision may not have seen."""


class Verdict(StrEnum):
    """What a refusal is; see the module."""

    PASSING = "passing"
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"


class Refusal(NamedTuple):
    """The first refusal of a pod since its unit was admitted."""

    pod: str
    quota: str
    verdict: Verdict
    message: str
    cluster: tuple[str, ...] = ()
    """What koord-scheduler counted then, a line for each quota and pod."""


class Cluster(NamedTuple):
    """All objects of a moment."""

    pods: Bodies
    units: Bodies
    quotas: Bodies
    nodes: Bodies


class RoundHistory:
    """What happened, and the cluster at any moment of it."""

    def __init__(self, seen: Iterable[Seen]) -> None:
        self._events = sorted(seen, key=lambda each: each.version)
        self.first: dict[str, Json] = {}
        """Each object as it was first seen, by uid."""
        for each in self._events:
            self.first.setdefault(each.body["metadata"]["uid"], each.body)

    def at(self, version: int) -> Cluster:
        """Return the cluster after this resourceVersion."""
        kinds: dict[str, dict[str, Json]] = {
            name: {} for name in ("pods", "queueunits", "elasticquotas", "nodes")
        }
        for each in self._events:
            if each.version > version:
                break
            of_kind, uid = kinds.get(each.plural), each.body["metadata"]["uid"]
            if of_kind is not None and each.is_gone:
                of_kind.pop(uid, None)
            elif of_kind is not None:
                of_kind[uid] = each.body
        return Cluster(*kinds.values())

    def admissions(self) -> list[Seen]:
        """Return the moments at which units were admitted."""
        found, admitted = [], dict[str, bool]()
        for each in self._events:
            if each.plural == "queueunits":
                uid, now = each.body["metadata"]["uid"], is_admitted(each.body) and not each.is_gone
                if now and not admitted.get(uid):
                    found.append(each)
                admitted[uid] = now
        return found

    def refusals(self) -> list[Seen]:
        """Return the moment of each pod's first refusal."""
        found, known = [], set[str]()
        for each in self._events:
            uid = each.body["metadata"]["uid"]
            if each.plural == "pods" and uid not in known and refusal_message(each.body):
                known.add(uid)
                found.append(each)
        return found

    def before(self, moment: Seen, seconds: float) -> int:
        """Return the last resourceVersion that was seen this long before a moment."""
        until = moment.seen_at - seconds
        return max((each.version for each in self._events if each.seen_at <= until), default=0)


def judge(history: RoundHistory) -> list[Refusal]:
    """Return the verdicts on all pods of units that were refused."""
    admissions = history.admissions()
    found = []
    for moment in history.refusals():
        now = history.at(moment.version)
        unit = unit_of(moment.body, now.units)
        mine = [each for each in admissions if each.body["metadata"]["uid"] == unit]
        earlier = [each for each in mine if each.version <= moment.version]
        if earlier:
            since = earlier[-1].version
            decisions = [each for each in admissions if since <= each.version <= moment.version]
            found.append(_judge_one(history, moment, now, decisions))
    return found


def _judge_one(
    history: RoundHistory, moment: Seen, now: Cluster, decisions: Sequence[Seen]
) -> Refusal:
    pod = moment.body
    verdict = Verdict.UNEXPLAINED
    if passes(now, pod):
        verdict = Verdict.PASSING
    elif any(passes(each, pod) for each in _without_users(history, now, decisions)):
        verdict = Verdict.EXPLAINED
    name = pod["metadata"]["name"]
    lines = tuple(describe(now)) if verdict is Verdict.UNEXPLAINED else ()
    return Refusal(name, quota_of(now, pod), verdict, refusal_message(pod), lines)


def _without_users(
    history: RoundHistory, now: Cluster, decisions: Sequence[Seen]
) -> Iterator[Cluster]:
    """Yield the cluster without what users did after each decision of the queue.

    What a decision may not have seen counts once as done before it, and once as done after it.
    """
    for each in decisions:
        for version in (each.version, history.before(each, UNSEEN_SECONDS)):
            yield _as_of(history, history.at(version), now)


def _as_of(history: RoundHistory, then: Cluster, now: Cluster) -> Cluster:
    """Return the cluster of now with users' quotas, nodes, labels, sizes and pods of then."""
    admitted = {uid for uid, each in now.units.items() if is_admitted(each)}
    pods = {}
    for uid, pod in now.pods.items():
        if uid in then.pods:
            pods[uid] = _unedited(pod, then.pods[uid])
        elif unit_of(pod, now.units) in admitted:
            pods[uid] = _unedited(pod, history.first[uid])
    return now._replace(quotas=then.quotas, nodes=then.nodes, pods=pods)


def _unedited(pod: Json, like: Json) -> Json:
    """Return a pod with the labels and requests of another version of it.

    Labels that a release changed stay.
    """
    spec = {**pod["spec"], "containers": like["spec"]["containers"]}
    if is_held(like) and not is_held(pod):
        return {**pod, "spec": spec}
    labels = like["metadata"].get("labels", {})
    return {**pod, "spec": spec, "metadata": {**pod["metadata"], "labels": labels}}


# --- koord-scheduler's rules ----------------------------------------------------------------------


def passes(cluster: Cluster, pod: Json) -> bool:
    """Return whether koord-scheduler lets a pending pod pass, by the pods that exist."""
    quota = quota_of(cluster, pod)
    model = model_of(cluster, tree_of(cluster, quota))
    if model.forest().broken:
        return False
    states = possible_states(model.forest().trees[""], model.sums["request"])
    return not any(
        model.prefilter(
            quota,
            parse_amounts(requests_of(pod)),
            model.divide(state),
            is_non_preemptible=is_non_preemptible(pod),
        ).why
        for state in states
    )


def model_of(cluster: Cluster, tree: str) -> SchedulerModel:
    """Return a model of one tree of a koord-scheduler 1.8 that has seen these objects."""
    config = {"special_weight": "max", "tree_id": tree}
    model = SchedulerModel(config, Rounding.HALF_UP)
    specs = specs_of(cluster)
    nodes = NodeCapacity()
    for each in cluster.nodes.values():
        nodes.on_node(to_struct(Node, each))
    forest = build_forest(specs.values(), multi_quota_tree=True)
    model.total = tree_totals(forest, nodes.total or {}).get(tree, {})
    model.specs = {name: each for name, each in specs.items() if each.tree_id == tree}
    for uid, pod in cluster.pods.items():
        quota = quota_of(cluster, pod)
        if is_living(pod) and tree_of(cluster, quota) == tree:
            model.put_pod(
                {
                    "name": uid,
                    "quota": quota,
                    "req": requests_of(pod),
                    "node": pod["spec"].get("nodeName"),
                    "np": is_non_preemptible(pod),
                }
            )
    return model


def specs_of(cluster: Cluster) -> dict[str, QuotaSpec]:
    """Return all quotas but the special ones, by name."""
    specs = [parse_quota(to_struct(ElasticQuota, each)) for each in cluster.quotas.values()]
    others = (*SPECIALS, ROOT_QUOTA)
    return {each.name: each for each in specs if each.name not in others}


def tree_of(cluster: Cluster, quota: str) -> str:
    """Return the id of a quota's tree; "": it is in the default one, as unknown quotas are."""
    spec = specs_of(cluster).get(quota)
    return "" if spec is None else spec.tree_id


def quota_of(cluster: Cluster, pod: Json) -> str:
    """Return the quota that koord-scheduler charges a pod to."""
    named = (read_named_quota(to_struct(ElasticQuota, each)) for each in cluster.quotas.values())
    meta = pod["metadata"]
    return build_quota_names(named).quota_of_pod(meta.get("labels", {}), meta["namespace"])


def describe(cluster: Cluster) -> Iterator[str]:
    """Yield what each tree divides, a line for each quota, and one for each living pod."""
    for tree in sorted({"", *(each.tree_id for each in specs_of(cluster).values())}):
        model = model_of(cluster, tree)
        fields = model.fields(model.divide())
        yield f"total{tree and ' of '}{tree} {model.total}"
        for name, spec in sorted(model.specs.items()):
            shape = f"max {spec.max} min {spec.min} weight {spec.weight} lends {spec.lends}"
            got = fields[name]
            sums = f"request {got['child_request']} used {got['used']} runtime {got['runtime']}"
            yield f"{spec.parent}/{name}: {shape}: {sums}"
    admitted = {uid for uid, each in cluster.units.items() if is_admitted(each)}
    for pod in cluster.pods.values():
        if is_living(pod):
            state = (
                "bound" if pod["spec"].get("nodeName") else "held" if is_held(pod) else "pending"
            )
            whose = "released" if unit_of(pod, cluster.units) in admitted else "not released"
            name = pod["metadata"]["name"]
            yield f"{name} in {quota_of(cluster, pod)}: {requests_of(pod)} {state}, {whose}"


# --- what objects say -----------------------------------------------------------------------------


def requests_of(pod: Json) -> dict[str, str]:
    """Return what the only container of a pod asks for."""
    (container,) = pod["spec"]["containers"]
    found: dict[str, str] = container.get("resources", {}).get("requests", {})
    return found


def is_non_preemptible(pod: Json) -> bool:
    """Return whether a pod has to fit its quota's min."""
    return bool(pod["metadata"].get("labels", {}).get(PREEMPTIBLE) == "false")


def is_held(pod: Json) -> bool:
    """Return whether a pod waits at a gate."""
    return bool(pod["spec"].get("schedulingGates"))


def refusal_message(pod: Json) -> str:
    """Return what koord-scheduler says of a pod that a quota refuses; "": none does."""
    said = condition_of(pod, "PodScheduled")
    message = str(said.get("message", ""))
    by_quota = "Insufficient quotas" in message or "Insufficient non-preemptible quotas" in message
    is_pending = said.get("status") == "False" and not pod["spec"].get("nodeName")
    return message if is_pending and by_quota else ""


def unit_of(pod: Json, units: Bodies) -> str:
    """Return the uid of the unit of a pod; "": it is of none."""
    meta = pod["metadata"]
    owners = {each["uid"] for each in meta.get("ownerReferences", ()) if each.get("controller")}
    mine = {meta["uid"], *owners}
    for uid, unit in units.items():
        if unit["spec"].get("consumerRef", {}).get("uid") in mine:
            return uid
    return ""
