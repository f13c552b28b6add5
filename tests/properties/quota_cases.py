"""Random quota trees and facts about them, small enough to hit every edge.

Made from a seed rather than drawn value by value: thousands of cases per second, and a failing seed
is a regression case to keep.
"""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Mapping, Sequence

from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import (
    QuotaKind,
    QuotaMode,
    QuotaSettings,
    Rounding,
    SpecialQuotas,
)
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.meta import ObjectMeta, Timestamp, Uid
from shared_api.well_known_labels import (
    DEFAULT_QUOTA,
    QUOTA_ALLOW_LENT,
    QUOTA_IS_PARENT,
    QUOTA_PARENT,
    QUOTA_SHARED_WEIGHT,
)

KEYS = ("memory", "y")
"""What rounding loses is tolerated of the first where mins are scaled, and never of the second."""
NAMES = tuple("abcdefgh")
# Weights of default and system quota: negative after overflow, positive, none.
SPECIAL_MAXIMA = ({"memory": 2**64 - 2, "y": 4}, {"memory": 5, "y": 100}, {"memory": 0})


def take_woken(quotas: QuotaCache, most: int | None = None) -> list[Hashable]:
    """Remove and return the owners that changes may have enabled, at most `most`, in order."""
    taken: list[Hashable] = []
    for domain in quotas.stirred_domains():
        while most is None or len(taken) < most:
            first = quotas.first_woken(domain)
            if first is None:
                break
            taken.append(first[2])
            quotas.stop_waiting(first[2])
    return taken


def build_quota(
    name: str,
    *,
    minimum: Mapping[str, int | str] | None = None,
    maximum: Mapping[str, int | str] | None = None,
    weight: Mapping[str, int] | None = None,
    parent: str = "",
    is_parent: bool = False,
    lends: bool = True,
    created: str = "",
    namespace: str = "ns",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ElasticQuota:
    """Return a quota; amounts are whole units."""
    all_labels = {QUOTA_PARENT: parent} if parent else {}
    if is_parent:
        all_labels[QUOTA_IS_PARENT] = "true"
    if not lends:
        all_labels[QUOTA_ALLOW_LENT] = "false"
    all_annotations = {} if weight is None else {QUOTA_SHARED_WEIGHT: json.dumps(dict(weight))}
    return ElasticQuota(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=Uid(uid or name),
            creation_timestamp=Timestamp(created),
            labels={**all_labels, **(labels or {})},
            annotations={**all_annotations, **(annotations or {})},
        ),
        spec=ElasticQuotaSpec(min=dict(minimum or {}), max=dict(maximum or {})),
    )


def random_amounts(rng: random.Random, largest: int) -> dict[str, int]:
    """Return an amount for each resource, some left out."""
    return {key: rng.randint(0, largest) for key in KEYS if rng.random() < 0.85}


def random_settings(rng: random.Random, mode: QuotaMode | None = None) -> QuotaSettings:
    """Return random valid settings."""
    mode = mode or rng.choice(list(QuotaMode))
    rate = 3 if mode is QuotaMode.MAX and rng.random() < 0.5 else 2
    pods_count = mode is QuotaMode.MAX and rng.random() < 0.3
    return QuotaSettings(
        mode=mode,
        kind=QuotaKind.RESOURCE_QUOTA if pods_count else QuotaKind.ELASTIC_QUOTA,
        rounding_override=rng.choice(list(Rounding)),
        scale_min=rng.random() < 0.7,
        check_parent=rng.random() < 0.3,
        special_quotas=rng.choice(list(SpecialQuotas)),
        default_quota_max=rng.choice(SPECIAL_MAXIMA),
        system_quota_max={"memory": 7},
        foreign_pending=rng.random() < 0.7,
        cap_by_total=rng.random() < 0.7,
        guarantee_usage=rng.random() < 0.05,
        oversell_numerator=rate,
        oversell_denominator=2,
    )


def random_quota(
    rng: random.Random, names: Sequence[str], number: int, scale: int = 1
) -> ElasticQuota:
    """Return the quota of this number, below an earlier one, with every special case."""
    maximum = random_amounts(rng, 20 * scale)
    minimum = {key: rng.randint(0, amount) for key, amount in maximum.items()}
    if rng.random() < 0.5:
        maximum = {key: rng.randint(scale, 25 * scale) for key in KEYS}
        minimum = {key: rng.randint(0, amount // 2) for key, amount in maximum.items()}
    elif rng.random() < 0.2:
        minimum = rng.choice([{}, {"memory": 6 * scale, "y": 3}])
    weight = {key: rng.randint(rng.choice([0, 1]), 4) for key in KEYS}
    return build_quota(
        names[number],
        minimum=minimum,
        maximum=maximum,
        weight=rng.choice([None, None, weight]),
        parent=rng.choice(["", "", *names[:number]]),
        is_parent=rng.random() < 0.3,
        lends=rng.random() < 0.8,
    )


def random_quotas(rng: random.Random, settings: QuotaSettings, scale: int = 1) -> QuotaCache:
    """Return a quota cache with charges and foreign pods, covered or not."""
    quotas = QuotaCache(settings)
    names = NAMES[: rng.randint(1, len(NAMES))]
    for number in range(len(names)):
        quotas.on_quota(random_quota(rng, names, number, scale))
    total = {key: rng.randint(10, 60) * scale for key in KEYS}
    quotas.on_capacity(total if rng.random() < 0.5 else random_amounts(rng, 40 * scale))
    charged = [*names, DEFAULT_QUOTA]
    only_what_fits = rng.random() < 0.5
    for number in range(rng.randint(0, 10)):
        quota, demand = rng.choice(charged), Demand(random_amounts(rng, 6 * scale))
        if not only_what_fits or quotas.check(quota, demand) is None:
            quotas.charge(f"unit-{number}", quota, demand)
    for number in range(rng.randint(0, 1 if only_what_fits else 4)):
        amounts = random_amounts(rng, 8 * scale)
        stage = rng.choice(tuple(PodStage))
        quotas.on_foreign(f"pod-{number}", rng.choice(charged), amounts, stage=stage)
    return quotas
