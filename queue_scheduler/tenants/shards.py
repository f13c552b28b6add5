"""A part of the accounts as a text for a ConfigMap, and back. Pure.

The text is JSON, compressed, in base64. Anybody who may edit ConfigMaps in the namespace of the
queues can replace it by anything, so reading has bounds in everything, and an error is a message.
"""

from __future__ import annotations

import binascii
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from queue_scheduler.queueing.fair_settings import LEAST_HALF_LIFE, LEVELS, MOST_HALF_LIFE
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.budget_account import StoredBudget
from queue_scheduler.tenants.fair_use import MAX_STORED, StoredUse, StoredUses
from queue_scheduler.tenants.ledger import (
    KEPT_EDGES,
    MAX_RESOURCES,
    MOST_AHEAD_SECONDS,
    StoredAccount,
    StoredAccounts,
)
from queue_scheduler.tenants.scaled_use import BITS

FORMAT: Final = 1

MAX_SHARDS: Final = 32
"""As many ConfigMaps as the chart's Role names; together they have room for `MAX_ACCOUNTS`."""

MAX_TEXT: Final = 512 * 1024
"""Characters of a text: half of what a ConfigMap may have."""

MAX_IN_SHARD: Final = 2_000
"""Accounts of a shard: written by one call, so that no other thread waits long for it."""

MAX_JSON: Final = 16 * 1024 * 1024
"""Bytes that a text is unpacked to: a few bytes can stand for gigabytes."""

MAX_NAME: Final = 1_024
"""Characters of a name."""

_MANTISSA: Final = re.compile("[0-9]{1,39}")
MAX_STORED_BUDGETS: Final = 2_000
"""Budgets of all quotas together: a shard has room for them, unless many of them are rolling."""

MAX_HOURS: Final = 30 * 24 + 2
"""Hours of a rolling budget: those that are in sight, and the one before."""

MAX_USED: Final = 10**60
"""The most that is read as used: far above all memory for all time, and quickly added up."""

_ENCODER: Final = msgspec.json.Encoder()


class Shard(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of the accounts.

    Attributes:
        format: `FORMAT`.
        count: How many shards there were when it was written.
        settled_at: As in `StoredAccounts`, of these accounts.
        complete_from: As in `StoredAccounts`.
        accounts: These accounts.
        uses: What accounts have used in queues with the policy Fair; in the first shard alone.
        budgets: All budgets, in the first shard.
    """

    format: int
    count: int
    settled_at: int
    complete_from: int
    accounts: tuple[StoredAccount, ...] = ()
    uses: tuple[StoredUse, ...] = ()
    budgets: tuple[StoredBudget, ...] = ()


_DECODER: Final = msgspec.json.Decoder(Shard)


class ShardError(ValueError):
    """A text is no shard; the message says why, and is one line."""


def encode_shard(shard: Shard) -> str:
    """Return a shard as a text; it may be longer than `MAX_TEXT`."""
    return b64encode(zlib.compress(_ENCODER.encode(shard))).decode()


def decode_shard(text: str, now: int) -> Shard:
    """Return the shard of a text.

    Args:
        text: The text.
        now: The second.

    Raises:
        ShardError: It is none, or says what cannot be.
    """
    if len(text) > MAX_TEXT:
        raise ShardError(f"it has {len(text)} characters, at most {MAX_TEXT} are read")
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b64decode(text, validate=True), MAX_JSON)
        if not unpacking.eof:
            raise ShardError(f"it is cut short, or has more than {MAX_JSON} bytes")
        shard = _DECODER.decode(data)
    except (binascii.Error, zlib.error, msgspec.MsgspecError, ValueError, RecursionError) as error:
        if isinstance(error, ShardError):
            raise
        raise ShardError(f"it cannot be read: {error}"[:300]) from error
    _check(shard, now)
    return shard


def _check(shard: Shard, now: int) -> None:
    """Raise ShardError unless a shard says what can be."""
    if shard.format != FORMAT:
        raise ShardError(f"it has format {shard.format}, and {FORMAT} can be read")
    if not 0 < shard.count <= MAX_SHARDS:
        raise ShardError(f"it is one of {shard.count}, at most {MAX_SHARDS} are read")
    if not 0 <= shard.complete_from <= shard.settled_at <= now + MOST_AHEAD_SECONDS:
        msg = f"it is settled at second {shard.settled_at}, complete from {shard.complete_from}"
        raise ShardError(f"{msg}, and it is {now}")
    if len(shard.accounts) > MAX_IN_SHARD:
        raise ShardError(f"it has {len(shard.accounts)} accounts, at most {MAX_IN_SHARD} are read")
    for each in shard.accounts:
        problem = _problem_of(each, shard.settled_at)
        if problem:
            raise ShardError(f"account {tuple(each.account)}: {problem}"[:300])
    _check_uses(shard)
    _check_budgets(shard)


def _check_uses(shard: Shard) -> None:
    if len(shard.uses) > MAX_STORED:
        raise ShardError(f"it has the use of {len(shard.uses)}, at most {MAX_STORED} are read")
    for use in shard.uses:
        if not _can_be(use, shard.settled_at):
            raise ShardError(f"use of {use.path} in queue {use.queue}: it cannot be"[:300])


def _check_budgets(shard: Shard) -> None:
    if len(shard.budgets) > MAX_STORED_BUDGETS:
        raise ShardError(f"it has {len(shard.budgets)} budgets")
    for stored in shard.budgets:
        problem = _problem_of_budget(stored, shard.settled_at)
        if problem:
            raise ShardError(f"budget {stored.resource} of {stored.quota}: {problem}"[:300])


def _can_be(use: StoredUse, settled: int) -> bool:
    names = (use.queue, *use.levels, *use.path)
    if not 0 < len(use.path) <= len(LEVELS) or any(len(name) > MAX_NAME for name in names):
        return False
    if not LEAST_HALF_LIFE <= use.half_life <= MOST_HALF_LIFE:
        return False
    # Not more than what began with all memory of the world, and not less than nothing.
    is_number = _MANTISSA.fullmatch(use.mantissa) and use.use.mantissa.bit_length() <= BITS
    return bool(is_number) and -2 * BITS <= use.exponent <= settled // use.half_life + 4 * BITS


def _problem_of_budget(each: StoredBudget, settled: int) -> str:
    hours = [hour for hour, _ in each.hours]
    amounts = [each.spent, abs(each.brought), *(used for _, used in each.hours)]
    names = (each.quota, each.resource, each.period, each.time_zone)
    if any(len(name) > MAX_NAME for name in names):
        return f"a name of more than {MAX_NAME} characters"
    if not all(0 <= amount <= MAX_USED for amount in amounts) or each.number < 0:
        return "an amount below 0, or beyond all bounds"
    if len(hours) > MAX_HOURS or hours != sorted(set(hours)):
        return "hours out of order, or too many"
    times = (*hours, each.start, each.counted_from, each.spent_since or 0)
    if not all(0 <= second <= settled for second in times):
        return "a time after it was settled"
    if any(used > each.spent for _, used in each.hours):
        return "more used at an hour than in all"
    return ""


def _problem_of(each: StoredAccount, settled: int) -> str:
    edges = [edge for edge, _ in each.marks]
    amounts = [each.used, *(used for _, used in each.marks)]
    names = [*each.account, *(name for used in amounts for name in used)]
    if any(len(name) > MAX_NAME for name in names):
        return f"a name of more than {MAX_NAME} characters"
    if any(len(used) > MAX_RESOURCES for used in amounts):
        return f"more than {MAX_RESOURCES} resources"
    if not all(0 <= amount <= MAX_USED for used in amounts for amount in used.values()):
        return "an amount below 0, or beyond all bounds"
    if len(edges) > KEPT_EDGES or edges != sorted(set(edges)):
        return "marks out of order, or too many"
    if not all(0 <= second <= settled for second in (*edges, each.marked_to, each.changed)):
        return "a time after it was settled"
    if any(used.get(name, 0) > each.used.get(name, 0) for used in amounts for name in used):
        return "more used at an edge than in all"
    return ""


def join_shards(shards: Sequence[Shard], *, is_rebuilt: bool) -> StoredAccounts:
    """Return the accounts of all shards.

    An account that is in two of them, since a process ended between moving it and deleting it, or
    since two wrote, counts once: as the later one has it.

    Args:
        shards: The shards.
        is_rebuilt: Whether some are lost.
    """
    found: dict[Account, StoredAccount] = {}
    with_budgets = next((each for each in shards if each.budgets), None)
    for shard in sorted(shards, key=lambda each: each.settled_at):
        found |= {each.account: each for each in shard.accounts}
    return StoredAccounts(
        settled_at=max((each.settled_at for each in shards), default=0),
        complete_from=max((each.complete_from for each in shards), default=0),
        # In the order that the ledger takes them in: it does not have to sort under a lock.
        accounts=tuple(sorted(found.values(), key=lambda each: each.changed)),
        uses=_join_uses(shards),
        is_rebuilt=is_rebuilt,
        budgets=() if with_budgets is None else with_budgets.budgets,
        budgets_settled_at=None if with_budgets is None else with_budgets.settled_at,
    )


def _join_uses(shards: Sequence[Shard]) -> StoredUses:
    """Return what is known of the use in queues, as the latest shard with it says."""
    with_uses = [shard for shard in shards if shard.uses]
    newest = max(with_uses, key=lambda each: each.settled_at, default=None)
    return StoredUses() if newest is None else StoredUses(newest.settled_at, newest.uses)


def split(accounts: Iterable[Account]) -> tuple[list[Account], list[Account]]:
    """Return two halves of the accounts of a shard that is too large."""
    ordered = sorted(accounts)
    middle = len(ordered) // 2
    return ordered[:middle], ordered[middle:]
