"""An ElasticQuota object as the division sees it: exact amounts, its parent, the flags.

Objects are user input and parsed defensively. What cannot be used becomes a `QuotaProblem` of the
quota, fatal if none of its amounts can be trusted; the content of an object never raises here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from queue_scheduler.quota.quota_decision import ProblemKind, QuotaProblem
from queue_scheduler.quota.quota_settings import wrap_int64
from shared_api.durations import DurationError, parse_seconds
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import NO_TIME, NO_UID, Timestamp, Uid
from shared_api.objects.pod import QuantityText
from shared_api.quantity import QuantityError, format_alike
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.resource_names import RENAMED, RENAMED_BATCH, rename_deprecated
from shared_api.text_decoding import TextError, decode_json
from shared_api.well_known_labels import (
    MAX_JOBS,
    PREEMPT_MIN_RUNTIME,
    QUOTA_ALLOW_LENT,
    QUOTA_IGNORE_DEFAULT_TREE,
    QUOTA_IS_PARENT,
    QUOTA_IS_ROOT,
    QUOTA_NAMESPACES,
    QUOTA_PARENT,
    QUOTA_SHARED_WEIGHT,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
    RECLAIM_MIN_RUNTIME,
    RECLAIM_POLICY,
    ROOT_QUOTA,
    read_annotation,
    spellings,
)


class ReclaimPolicy(StrEnum):
    """Which units a quota's units may evict to reclaim what others borrow; annotation values."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


_REQUESTS: Final = "requests."
_NEVER_REQUESTED_PREFIXES: Final = ("limits.", "count/", "services.")
_NEVER_REQUESTED: Final = frozenset(
    {
        "pods",
        "services",
        "configmaps",
        "secrets",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "requests.storage",
    }
)
"""What the API server counts for a ResourceQuota. Source: kubernetes, pkg/apis/core/helper."""


class QuotaSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of one ElasticQuota; two equal specs divide alike.

    `weight` is the effective one: the annotation's, or `max` if that is absent, unreadable or all
    zero. `total` is the total of the tree whose root this is. `kept` is the part of its min that
    its siblings cannot use even while it is idle (only of ElasticQuotaTrees). For `min_run_seconds`
    after its admission no quota below it reclaims from a unit of another; None: what is above it
    counts.
    """

    name: str
    namespace: str = ""
    uid: Uid = NO_UID
    created: Timestamp = NO_TIME
    parent: str = ROOT_QUOTA
    tree_id: str = ""
    is_parent: bool = False
    is_tree_root: bool = False
    ignores_default_tree: bool = False
    lends: bool = True
    min: Amounts = {}
    max: Amounts = {}
    kept: Amounts = {}
    weight: Amounts = {}
    total: Amounts | None = None
    namespaces: tuple[str, ...] = ()
    reclaims: ReclaimPolicy = ReclaimPolicy.NEVER
    min_run_seconds: int | None = None
    problems: tuple[QuotaProblem, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether the object itself has no fatal problem."""
        return not any(problem.fatal for problem in self.problems)

    @property
    def age(self) -> tuple[str, str, str]:
        """Sort key: the oldest first, then by namespace and name."""
        return (self.created, self.namespace, self.name)


def parse_quota(quota: ElasticQuota, before: QuotaSpec | None = None) -> QuotaSpec:
    """Return the content of the object, with the problems found while parsing it.

    Args:
        quota: The object.
        before: What was in force. Its run time stays if that of the object cannot be read.
    """
    reader = _Reader(quota)
    meta = quota.metadata
    maximum = reader.amounts("spec.max", quota.spec.max)
    minimum = reader.amounts("spec.min", quota.spec.min)
    weight = reader.annotated_amounts(QUOTA_SHARED_WEIGHT)
    reader.compare(minimum, maximum)
    reader.find_without_effect(maximum, weight)
    return QuotaSpec(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        created=meta.creation_timestamp,
        parent=meta.labels.get(QUOTA_PARENT) or ROOT_QUOTA,
        tree_id=meta.labels.get(QUOTA_TREE_ID, ""),
        is_parent=meta.labels.get(QUOTA_IS_PARENT) == "true",
        is_tree_root=meta.labels.get(QUOTA_IS_ROOT) == "true",
        ignores_default_tree=meta.labels.get(QUOTA_IGNORE_DEFAULT_TREE) == "true",
        lends=meta.labels.get(QUOTA_ALLOW_LENT) != "false",
        min=minimum,
        max=maximum,
        weight=effective_weight(weight, maximum),
        total=reader.annotated_amounts(QUOTA_TOTAL_RESOURCE),
        namespaces=reader.namespaces(),
        reclaims=reader.reclaim_policy(),
        min_run_seconds=reader.min_run_seconds(None if before is None else before.min_run_seconds),
        problems=tuple(reader.problems),
    )


def keep_tree(known: QuotaSpec, edited: QuotaSpec) -> QuotaSpec:
    """Return an edited quota as koord-scheduler with several trees counts it.

    It goes on judging pods of a quota in the tree in which it has seen it first, where it takes no
    edit any longer once the object names another tree: until it restarts, or the quota is made
    anew. In the other tree the quota's min counts as well, by which those of its siblings there are
    scaled. Koordinator's webhook refuses such an edit. Source: koordinator,
    pkg/scheduler/plugins/elasticquota/quota_handler.go (updateQuotaToTreeMap).
    """
    if edited.tree_id == known.tree_id:
        return edited
    text = (
        f"it names another tree ({edited.tree_id or 'the default one'}) than before "
        f"({known.tree_id or 'the default one'}), which koord-scheduler does not follow: all "
        "counts as before the edit, until both are restarted, or the quota is made anew"
    )
    problem = QuotaProblem(ProblemKind.TREE_CHANGED, known.namespace, known.name, text)
    kept = [each for each in known.problems if each.kind is not ProblemKind.TREE_CHANGED]
    problems = (*kept, problem)
    return msgspec.structs.replace(known, namespaces=edited.namespaces, problems=problems)


def effective_weight(annotated: Amounts | None, maximum: Amounts) -> Amounts:
    """Return the effective weight, as the 64-bit integers that koord-scheduler divides with.

    They overflow as they do there: the default max of a special quota becomes a weight of -600 cpu
    milli.
    """
    weight = annotated if annotated and any(annotated.values()) else maximum
    return {resource: wrap_int64(amount) for resource, amount in weight.items()}


class _Reader:
    """Parses one object and collects its problems."""

    def __init__(self, quota: ElasticQuota) -> None:
        self.problems: list[QuotaProblem] = []
        self._meta = quota.metadata

    def amounts(self, where: str, quantities: Mapping[str, QuantityText]) -> Amounts:
        try:
            amounts = rename_deprecated(parse_amounts(quantities), RENAMED_BATCH)
        except QuantityError as error:
            self._report(ProblemKind.UNREADABLE_AMOUNT, f"{where}: {error}", fatal=True)
            return {}
        for resource, amount in amounts.items():
            if amount < 0:
                self._report(
                    ProblemKind.NEGATIVE_AMOUNT, f"{where}: {resource} is negative", fatal=True
                )
        return amounts

    def annotated_amounts(self, key: str) -> Amounts | None:
        text = self._meta.annotations.get(key)
        if not text:
            return None
        try:
            amounts = parse_amounts(decode_json(text, dict[str, str | int | float]))
        except (TextError, QuantityError) as error:
            self._report(
                ProblemKind.UNREADABLE_ANNOTATION, f"annotation {key}: {error}; it is ignored"
            )
            return None
        if any(amount < 0 for amount in amounts.values()):
            self._report(ProblemKind.NEGATIVE_AMOUNT, f"annotation {key} has a negative value")
        return amounts

    def namespaces(self) -> tuple[str, ...]:
        text = self._meta.annotations.get(QUOTA_NAMESPACES)
        if not text:
            return ()
        try:
            return decode_json(text, tuple[str, ...])
        except TextError as error:
            self._report(
                ProblemKind.UNREADABLE_ANNOTATION,
                f"annotation {QUOTA_NAMESPACES}: {error}; it is ignored",
            )
            return ()

    def reclaim_policy(self) -> ReclaimPolicy:
        text = read_annotation(self._meta.annotations, RECLAIM_POLICY)
        try:
            return ReclaimPolicy(text or ReclaimPolicy.NEVER)
        except ValueError:
            known = ", ".join(ReclaimPolicy)
            self._report(
                ProblemKind.UNKNOWN_RECLAIM_POLICY,
                f"annotation {RECLAIM_POLICY}: {text!r} is none of {known}; nothing is reclaimed",
            )
            return ReclaimPolicy.NEVER

    def min_run_seconds(self, before: int | None) -> int | None:
        annotations = self._meta.annotations
        if read_annotation(annotations, PREEMPT_MIN_RUNTIME) is not None:
            self._report(
                ProblemKind.ATTRIBUTE_WITHOUT_EFFECT,
                f"annotation {PREEMPT_MIN_RUNTIME} has no effect on a quota; set it on a queue",
            )
        text = read_annotation(annotations, RECLAIM_MIN_RUNTIME)
        if not text:
            return None
        try:
            return int(parse_seconds(text))
        except DurationError as error:
            stays = "none" if before is None else f"{before}s"
            self._report(
                ProblemKind.UNREADABLE_ANNOTATION,
                f"annotation {RECLAIM_MIN_RUNTIME}: {error}; what was in force stays: {stays}",
            )
            return before

    def compare(self, minimum: Amounts, maximum: Amounts) -> None:
        for kind, text in min_against_max(minimum, maximum):
            self._report(kind, text)

    def find_without_effect(self, maximum: Amounts, weight: Amounts | None) -> None:
        for text in without_effect(maximum, spellings(MAX_JOBS)):
            self._report(ProblemKind.RESOURCE_WITHOUT_EFFECT, text)
        for old in sorted(RENAMED_BATCH.keys() & (weight or {})):
            new = RENAMED_BATCH[old]
            if weight is not None and new in maximum and new not in weight:
                key = QUOTA_SHARED_WEIGHT
                text = f"annotation {key}: {old} weighs nothing: spec.max governs it as {new}"
                self._report(ProblemKind.RESOURCE_WITHOUT_EFFECT, text)

    def _report(self, kind: ProblemKind, text: str, *, fatal: bool = False) -> None:
        self.problems.append(QuotaProblem(kind, self._meta.namespace, self._meta.name, text, fatal))


def without_effect(maximum: Mapping[str, int], unknown: Iterable[str] = ()) -> Iterator[str]:
    """Yield a text for every key of a max that limits nothing, since no pod asks for it.

    These are names that are renamed in pods, and keys of a ResourceQuota's `hard`:
    koord-scheduler compares what containers request.

    Args:
        maximum: The amounts.
        unknown: Additional keys, which have a meaning only in other kinds of quotas.
    """
    for resource in sorted(maximum):
        where = f"spec.max: {resource} limits nothing"
        why = why_never_requested(resource)
        if resource in RENAMED:
            yield f"{where}: koord-scheduler reads it in pods as {RENAMED[resource]}; name that"
        elif why:
            yield f"{where}: {why}"
        elif resource in unknown:
            yield f"{where}: only an ElasticQuotaTree counts jobs"


def why_never_requested(resource: str) -> str:
    """Return why no container requests that resource, with a suggestion; "": one may."""
    if resource.startswith(_NEVER_REQUESTED_PREFIXES) or resource in _NEVER_REQUESTED:
        return "no container requests it"
    if resource.startswith(_REQUESTS):
        return f"no container requests it; name {resource.removeprefix(_REQUESTS)}"
    return ""


def min_against_max(
    minimum: Mapping[str, int], maximum: Mapping[str, int]
) -> Iterator[tuple[ProblemKind, str]]:
    """Yield (kind, text) for every key of min that max lacks or that is above max."""
    for resource, amount in sorted(minimum.items()):
        if resource not in maximum:
            yield (
                ProblemKind.MIN_KEY_NOT_IN_MAX,
                f"spec.min has {resource}, which spec.max does not govern",
            )
        elif amount > maximum[resource]:
            has, most = format_alike(resource, (amount, maximum[resource]))
            yield (
                ProblemKind.MIN_OVER_MAX,
                f"spec.min {resource} {has} is more than spec.max {most}",
            )
