"""Tells a new leader what its predecessors have kept of the accounts, and keeps what changes.

What is kept is at most a minute old: of a leader that is killed, at most that much is lost. Shards
that have changed are written one after the other. One that is not written, since the process was
killed meanwhile, lacks that minute; nothing counts twice, since what is charged at the next start
counts from the newest shard on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from queue_scheduler.account_store.config_maps import AccountConfigMaps, name_of
from queue_scheduler.configuration import AccountsSettings
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.budget_account import StoredBudget
from queue_scheduler.tenants.budget_accounts import BudgetAccounts
from queue_scheduler.tenants.fair_use import StoredUse
from queue_scheduler.tenants.ledger import Ledger, Line
from queue_scheduler.tenants.periods import find_edges
from queue_scheduler.tenants.shards import (
    FORMAT,
    MAX_IN_SHARD,
    MAX_SHARDS,
    MAX_TEXT,
    Shard,
    ShardError,
    decode_shard,
    encode_shard,
    join_shards,
    split,
)
from shared_api.client.errors import (
    AlreadyExists,
    ApiFailure,
    Conflict,
    ConnectionLost,
    NotFound,
    ServerError,
    TooManyRequests,
    UndecodableObject,
)
from shared_api.client.resource_types import CONFIG_MAPS
from shared_api.objects.meta import NO_UID
from shared_api.process.clock import Clock

SAVE_SECONDS: Final = 60.0
"""Between two writes of what has changed."""

MOST_TRIES: Final = 10
"""How often a start tries to read the shards from an API server that does not answer, with longer
and longer pauses. Then it goes on without: decisions matter more than what was used."""

REBUILT: Final = "AccountsRebuilt"
NOT_KEPT: Final = "AccountsNotKept"

_WORTH_WAITING: Final = (ConnectionLost, ServerError, TooManyRequests)

log = structlog.get_logger("account_keeper")


class AccountKeeper:
    """The step that keeps the accounts.

    Args:
        shared: Its engine keeps accounts.
        config_maps: Where they are kept.
        settings: The periods.
        may_write: Whether this process leads, and a write that begins now ends while it does.
        report: Writes an event.
        clock: The time.
    """

    def __init__(
        self,
        shared: SharedEngine,
        config_maps: AccountConfigMaps,
        settings: AccountsSettings,
        *,
        may_write: Callable[[], bool],
        report: Callable[[Notice], None],
        clock: Clock,
    ) -> None:
        self._shared = shared
        self._config_maps = config_maps
        self._settings = settings
        self._may_write = may_write
        self._report = report
        self._clock = clock
        self._is_told = False
        self._tries = 0
        self._edges: tuple[int, ...] = ()
        self._places: dict[Account, int] = {}
        self._saved: dict[int, dict[Account, Line]] = {}
        self._budgets: tuple[StoredBudget, ...] = ()
        self._saved_budgets: tuple[StoredBudget, ...] = ()
        self._complete_from = 0
        self._uses: tuple[StoredUse, ...] = ()
        self._has_failed = False

    # --- a new leader -------------------------------------------------------------------------

    def tell(self) -> None:
        """Tell the engine what was kept; called once, before this process decides.

        Raises:
            ApiFailure: The API server does not answer; call again.
        """
        if self._is_told:
            return
        self._tell_edges()
        shards, problems = self._read_all()
        if not shards and not problems:
            problems = ["there are none"]
        stored = join_shards(shards, is_rebuilt=bool(problems))
        self._shared.apply(Engine.on_accounts, stored, in_slices=True)
        # The next decision would do all slices that are left under one hold of the engine's lock.
        while self._shared.ask(lambda engine: engine.account_restore.is_behind):
            self._shared.apply(Engine.go_on_with_accounts)
        self._is_told = True
        if problems:
            log.warning("accounts are rebuilt", problems=problems)
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            note = "use by account is counted anew from the units that there are, and is complete"
            self._notice(REBUILT, f"{note} from now on: {problems[0]}{more}")

    def _read_all(self) -> tuple[list[Shard], list[str]]:
        """Return the shards, and what is wrong with those that cannot be read."""
        shards: list[Shard] = []
        problems: list[str] = []
        now = int(self._clock.now().timestamp())
        for number in range(MAX_SHARDS):
            try:
                text = self._config_maps.read(number)
                if text is not None:
                    shard = decode_shard(text, now)
                    shards.append(shard)
                    self._saved[number] = {}
                    self._places |= {each.account: number for each in shard.accounts}
            except (ShardError, UndecodableObject) as error:
                self._saved[number] = {}
                problems.append(f"{name_of(number)}: {error}"[:300])
            except ApiFailure as error:
                self._tries += 1
                if isinstance(error, _WORTH_WAITING) and self._tries < MOST_TRIES:
                    raise
                problems.append(f"{name_of(number)}: {error}"[:300])
                break  # the next ones would fail as well
        count = max((each.count for each in shards), default=0)
        gone = [number for number in range(count) if number not in self._saved]
        problems += [f"{name_of(number)} is gone" for number in gone]
        return shards, problems

    def _tell_edges(self) -> None:
        settings = self._settings
        second = int(self._clock.now().timestamp())
        edges = tuple(find_edges(settings.period, settings.zone, second, before=1, after=2))
        if edges != self._edges:
            self._shared.apply(Engine.on_edges, edges)
            self._edges = edges

    # --- keeping ------------------------------------------------------------------------------

    def step(self) -> float:
        """Keep what has changed; return the seconds to rest."""
        self.save()
        return SAVE_SECONDS

    def save(self) -> None:
        """Keep what has changed, if this process leads and has told what was kept before.

        An error with one shard does not keep the others from being written.
        """
        if not self._is_told or not self._may_write():
            return
        self._tell_edges()
        now = int(self._clock.now().timestamp())
        # At rest the engine is not told the time, and what is charged stands.
        ledger, budgets, uses = self._shared.ask(_copy_accounts, now)
        ledger.advance(now)
        budgets.advance(now)
        self._budgets = budgets.stored()
        lines = dict(ledger)
        groups = self._place(lines)
        is_first = ledger.complete_from != self._complete_from
        errors: list[str] = []
        # Those with the highest numbers are new: what moves there is written there first.
        for number, group in sorted(groups.items(), reverse=True):
            has_uses = number == 0 and uses != self._uses
            if not is_first and not has_uses and not self._has_changed(number, group):
                continue
            # Before each request: whoever leads by then has newer accounts.
            if not self._may_write():
                return
            try:
                self._write(number, ledger, group, uses if number == 0 else ())
            except (ApiFailure, _TooLargeError) as error:
                errors.append(f"{name_of(number)}: {error}"[:300])
                if isinstance(error, ConnectionLost):
                    break  # the next ones would wait as long
        if not errors:
            self._uses = uses
            self._complete_from = ledger.complete_from
        self._note_errors(errors)

    def _has_changed(self, number: int, group: dict[Account, Line]) -> bool:
        """Return whether a shard has changed since it was written; what is charged grows."""
        saved = self._saved.get(number)
        if saved is None or saved.keys() != group.keys():
            return True
        if number == 0 and self._budgets != self._saved_budgets:
            return True
        return any(line.rates or saved[account] is not line for account, line in group.items())

    def _place(self, lines: dict[Account, Line]) -> dict[int, dict[Account, Line]]:
        """Return the lines by shard; new accounts get a place in one with room."""
        groups: dict[int, dict[Account, Line]] = {number: {} for number in (0, *self._saved)}
        self._places = {
            account: place for account, place in self._places.items() if account in lines
        }
        for account, place in self._places.items():
            groups.setdefault(place, {})[account] = lines[account]
        number = 0
        for account in [each for each in lines if each not in self._places]:
            while number < MAX_SHARDS - 1 and len(groups.get(number, ())) >= MAX_IN_SHARD:
                number += 1
            groups.setdefault(number, {})[account] = lines[account]
            self._places[account] = number
        return groups

    def _write(
        self,
        number: int,
        ledger: Ledger,
        group: dict[Account, Line],
        uses: tuple[StoredUse, ...] = (),
    ) -> None:
        """Write a shard; if it is too large, half of it moves to a new one, which is written first.

        Raises:
            ApiFailure: It is not written.
            _TooLargeError: There is no further shard.
        """
        count = max(self._saved.keys() | self._places.values() | {number}) + 1
        budgets = self._budgets if number == 0 else ()
        text = _encode(ledger, group, count, uses, budgets)
        if len(text) > MAX_TEXT or len(group) > MAX_IN_SHARD:
            if count >= MAX_SHARDS or len(group) < 2:  # noqa: PLR2004 - two halves
                raise _TooLargeError(f"no room for {len(group)} accounts")
            stays, moves = split(group)
            self._places |= dict.fromkeys(moves, count)
            self._write(count, ledger, {account: group[account] for account in moves})
            self._write(number, ledger, {account: group[account] for account in stays}, uses)
            return
        try:
            self._config_maps.write(number, text)
        except (AlreadyExists, Conflict, NotFound):
            # It was edited or deleted by others. While this process leads, it knows better.
            if not self._may_write():
                raise
            self._config_maps.write(number, text)
        self._saved[number] = group
        if number == 0:
            self._saved_budgets = budgets

    # --- what is reported ---------------------------------------------------------------------

    def _note_errors(self, errors: Iterable[str]) -> None:
        """Log errors, and write an event for the first in a row."""
        text = "; ".join(errors)
        if text:
            log.warning("accounts are not kept", error=text)
            if not self._has_failed:
                self._notice(NOT_KEPT, f"use by account is lost at the next restart: {text}")
        self._has_failed = bool(text)

    def _notice(self, reason: str, note: str) -> None:
        key = f"{self._config_maps.namespace}/{name_of(0)}"
        kind = CONFIG_MAPS.kind
        self._report(Notice(kind=kind, key=key, uid=NO_UID, reason=reason, note=note))


class _TooLargeError(Exception):
    """The accounts do not fit into the shards."""


def _copy_accounts(
    engine: Engine, second: int
) -> tuple[Ledger, BudgetAccounts, tuple[StoredUse, ...]]:
    usage = engine.usage
    ledger = usage.ledger
    assert ledger is not None, "the engine keeps no accounts"
    budgets = usage.budgets.accounts.fork(engine.plugins)
    return ledger.fork(), budgets, usage.stored_uses(max(second, ledger.second))


def _encode(
    ledger: Ledger,
    group: dict[Account, Line],
    count: int,
    uses: tuple[StoredUse, ...],
    budgets: tuple[StoredBudget, ...],
) -> str:
    accounts = tuple(ledger.stored_account(*each) for each in group.items())
    return encode_shard(
        Shard(FORMAT, count, ledger.second, ledger.complete_from, accounts, uses, budgets)
    )
