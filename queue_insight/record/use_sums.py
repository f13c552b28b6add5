"""What accounts used in an hour or a day, as values that can be added up. Exact, pure.

A *block* has the sums of some time: by account and kind of job, and by quota. Blocks of parts of an
hour are added up to that of the hour, those of hours to that of a day.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from queue_insight.record.record_tables import StoreError
from queue_insight.record.samples import MAX_RESOURCES, NamespaceSets, amounts_of, join_sets
from shared_api.resource_list import Amounts
from shared_api.submitters import namespace_submitter

COMPRESSION: Final = 6
"""zlib's default: names and equal amounts shrink to a fifth."""
MAX_UNPACKED: Final = 268_435_456
"""Bytes of a block before it was compressed: more than 50,000 accounts of all resources have."""


MAX_KEYS_OF_NAMESPACE: Final = 1000
"""Keys from one namespace in an hour, and in a day; further ones count as the namespace. Whoever
may create jobs there can write any names and kinds, and would otherwise fill the record, so that
the hours of others are dropped earlier."""


class UseKey(NamedTuple):
    """The fields of an account, and the kind of its jobs ("": pods without a unit)."""

    quota: str
    queue: str
    namespace: str
    group: str
    user: str
    kind: str


class UseRow(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    """The sums of one key.

    Attributes:
        key: The key.
        used: Base units times seconds that were charged, by resource.
        waits: How many of its units were admitted after how long, by bin (`samples.bin_of`).
        evictions: How many of its runs were evicted.
        lost: What these had used until then, as `used`.
    """

    key: UseKey
    used: Amounts = {}
    waits: dict[int, int] = {}
    evictions: int = 0
    lost: Amounts = {}


class QuotaUse(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What a quota borrowed and lent, with all below it, in base units times seconds.

    Attributes:
        borrowed: What was used above its `min`.
        lent: What it did not use of its `min` while a sibling borrowed.
        namespaces: As `samples.Sample.namespaces`: whose units are in these sums.
    """

    borrowed: Amounts = {}
    lent: Amounts = {}
    namespaces: NamespaceSets | None = ()


class UseBlock(msgspec.Struct, array_like=True, gc=False):
    """The sums of some time.

    Attributes:
        rows: By account and kind; each key once.
        quotas: By quota.
        hours: By quota, the namespaces with rows of each hour. A reader who may not read one or two
            of those of any hour may not see the sum of what it may not read.
    """

    rows: list[UseRow] = []
    quotas: dict[str, QuotaUse] = {}
    hours: dict[str, list[tuple[str, ...]]] = {}


class UsePart(NamedTuple):
    """The sums of a part of an hour.

    Attributes:
        since: When it begins, in seconds since the epoch.
        until: When it ends; in the same hour, or at its end.
        block: The sums; its `hours` are empty.
    """

    since: int
    until: int
    block: UseBlock


# As JSON: sums of bytes times seconds may have more than 64 bits.
_DECODER: Final = msgspec.json.Decoder(UseBlock)


def namespace_key(key: UseKey) -> UseKey:
    """Return the key that further keys of the same namespace count as."""
    user, group = namespace_submitter(key.namespace)
    return UseKey(key.quota, key.queue, key.namespace, group, user, "")


def encode_block(block: UseBlock) -> bytes:
    """Return a block as it is kept."""
    return zlib.compress(msgspec.json.encode(block), COMPRESSION)


def decode_block(data: bytes) -> UseBlock:
    """Return a block that was kept.

    Raises:
        StoreError: It cannot be read.
    """
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data, MAX_UNPACKED)
        if unpacking.eof:
            return _DECODER.decode(found)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise StoreError(f"sums of use that cannot be read: {error}") from error
    raise StoreError("sums of use that are cut short")


def add_amounts(total: Amounts, more: Mapping[str, int]) -> None:
    """Add amounts to others in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def join_hour(blocks: Sequence[UseBlock]) -> UseBlock:
    """Return the sums of the parts of one hour as its block."""
    whole = _add_up(blocks)
    found: dict[str, set[str]] = {}
    for row in whole.rows:
        found.setdefault(row.key.quota, set()).add(row.key.namespace)
    whole.hours = {quota: [tuple(sorted(names))] for quota, names in sorted(found.items())}
    return whole


def join_hours(blocks: Sequence[UseBlock]) -> UseBlock:
    """Return the blocks of hours as one of all of them.

    In a namespace with too many keys, those that occur in most hours stay: an invented user occurs
    in few.
    """
    hours_of = Counter(row.key for block in blocks for row in block.rows)
    of_namespace: dict[str, list[UseKey]] = {}
    for key in hours_of:
        of_namespace.setdefault(key.namespace, []).append(key)
    folded = {
        key
        for keys in of_namespace.values()
        for key in sorted(keys, key=lambda each: (-hours_of[each], each))[MAX_KEYS_OF_NAMESPACE:]
    }
    whole = _add_up(blocks, folded)
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for block in blocks:
        for quota, sets in block.hours.items():
            found.setdefault(quota, {}).update(dict.fromkeys(sets))
    whole.hours = {quota: list(sets) for quota, sets in sorted(found.items())}
    return whole


def _add_up(blocks: Iterable[UseBlock], folded: AbstractSet[UseKey] = frozenset()) -> UseBlock:
    """Return the sums of blocks; `folded`: keys that count as their namespaces."""
    rows: dict[UseKey, UseRow] = {}
    quotas: dict[str, QuotaUse] = {}
    for block in blocks:
        for row in block.rows:
            key = namespace_key(row.key) if row.key in folded else row.key
            known = rows.get(key)
            if known is None:
                # Own dicts: those of the row belong to its block.
                rows[key] = UseRow(
                    key, dict(row.used), dict(row.waits), row.evictions, dict(row.lost)
                )
                continue
            add_amounts(known.used, row.used)
            known.evictions += row.evictions
            if row.waits:
                known.waits = dict(Counter(known.waits) + Counter(row.waits))
            if row.lost:
                add_amounts(known.lost, row.lost)
        for name, use in block.quotas.items():
            quotas[name] = add_quota_use(quotas.get(name), use)
    for row in rows.values():
        if len(row.used) > MAX_RESOURCES:
            row.used, row.lost = amounts_of(row.used), amounts_of(row.lost)
    # Sorted, since similar neighbors compress to half the size.
    return UseBlock([rows[key] for key in sorted(rows)], dict(sorted(quotas.items())))


def add_quota_use(known: QuotaUse | None, more: QuotaUse) -> QuotaUse:
    """Return what a quota borrowed and lent in two times together."""
    if known is None:
        return more
    borrowed, lent = dict(known.borrowed), dict(known.lent)
    add_amounts(borrowed, more.borrowed)
    add_amounts(lent, more.lent)
    return QuotaUse(borrowed, lent, join_sets((known.namespaces, more.namespaces)))
