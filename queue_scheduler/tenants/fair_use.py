"""What the accounts of queues with the policy Fair have used, as far as it has not decayed. Pure.

Each such queue has a tree of accounts (`FairSettings.levels`), and each of them its `ScaledUse`:
that of a charge is what it uses of the queue's capacity, times the time. A unit that starts counts
its first `minimumCharge` at once, so that many short units count; what runs longer is charged on
from then. All that is an order: what is reported, limited and paid for is in the `ledger`.

A *rank* is the use of an account divided by its weight, as a number that orders accounts. It only
grows, except where a charge is undone, the settings change, or use that has decayed is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import nlargest
from typing import Final, Protocol

import msgspec

from queue_scheduler.framework.plugin_questions import view_quota
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.queueing.fair_settings import FairSettings, Path, levels_of
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.scaled_use import NOTHING, Power, ScaledUse, power, scale_between
from shared_api.objects.meta import Uid
from shared_api.quantity import piece_size
from shared_api.resource_list import Amounts
from shared_api.submitters import namespace_submitter

MAX_ACCOUNTS: Final = 50_000
"""Accounts of one queue; a user's name is a label that anybody may write. Those beyond count for
their namespace."""

MAX_STORED: Final = 2_000
"""Accounts that are kept outside; the others begin anew at a restart, as if they had been idle."""

IDLE_HALF_LIVES: Final = 10
"""After so many, an account without charges is forgotten: a thousandth of its use is left."""

RENEW_SECONDS: Final = 60
"""Between two looks at the accounts that run and wait."""

SCALE: Final = 1 << 64
"""What a share of 1 counts per second: a thousandth of a GPU of 100,000 still counts in full."""

MAX_NAMESPACES: Final = 64
"""Namespaces that are known of one account."""

UNKNOWN: Final = ""
"""Stands for namespaces of an account that are not known by name."""

UNLIMITED: Final = 1_000_000
"""Cores, GiB or pieces that stand for all there is, where no quota limits a resource."""

NO_WEIGHT: Final = 1 << 256
"""Above all ranks of accounts that have a weight."""


class AnyCharge(Protocol):
    """A charge of a uid."""

    @property
    def account(self) -> Account:
        """The account that it is counted for."""

    @property
    def amounts(self) -> Amounts:
        """What is charged, in base units."""

    @property
    def is_admitted(self) -> bool:
        """Whether it is an admitted unit's."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """The use of one account.

    Attributes:
        settled: What it had used until `second`.
        at: 2^(t/h) of the second of its last change.
        second: That second.
        rate: What it uses per second from then on.
        charges: How many charges it has.
        namespaces: Those of the units that it is the use of; `UNKNOWN` for any that are not known.
    """

    settled: ScaledUse
    at: Power
    second: int
    rate: int = 0
    charges: int = 0
    namespaces: tuple[str, ...] = ()


class StoredUse(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The use of one account of a queue as it is kept outside.

    Attributes:
        queue: The queue.
        levels: The levels of its accounts.
        half_life: The half-life that the use is scaled by, in seconds.
        path: The account.
        mantissa: The mantissa of the use, in digits: JSON has no integers of that size.
        exponent: Its exponent.
    """

    queue: str
    levels: tuple[str, ...]
    half_life: int
    path: Path
    mantissa: str
    exponent: int

    @property
    def use(self) -> ScaledUse:
        """The number itself."""
        return ScaledUse(int(self.mantissa), self.exponent)

    def scaled_by(self, half_life: int, second: int) -> ScaledUse:
        """Return it by another half-life, as of the second until which it is counted."""
        if self.half_life == half_life:
            return self.use
        return self.use.rescaled(power(second, self.half_life), power(second, half_life))


class StoredUses(msgspec.Struct, frozen=True, gc=False):
    """What was kept of the use of accounts.

    Attributes:
        second: The second until which it is counted.
        uses: The accounts.
    """

    second: int = 0
    uses: tuple[StoredUse, ...] = ()


class _Running(msgspec.Struct, frozen=True, gc=False):
    """A charge.

    Attributes:
        path: The account.
        rate: What it uses per second.
        due: The second until which it has counted in advance.
        paid: The use that it has counted in advance.
        is_due: Whether it counts by its rate.
    """

    path: Path
    rate: int
    due: int
    paid: ScaledUse
    is_due: bool = False


def _with_namespace(known: tuple[str, ...], namespace: str) -> tuple[str, ...]:
    """Return the namespaces of an account with one more, while they are not too many."""
    if len(known) < MAX_NAMESPACES:
        return (*known, namespace)
    return known if UNKNOWN in known else (*known, UNKNOWN)


def path_of(settings: FairSettings, account: Account) -> Path:
    """Return an account's own path, whether its use counts for that or for its namespace."""
    return settings.account_of(account.namespace, account.user, account.group)


def counted_path(use: QueueUse, account: Account) -> Path:
    """Return what a charge of an account counts for: its namespace, if there are too many."""
    path = path_of(use.settings, account)
    if len(use) < MAX_ACCOUNTS or path in use.uses:
        return path
    submitter = namespace_submitter(account.namespace)
    return use.settings.account_of(account.namespace, *submitter)


class QueueUse:
    """The accounts of one queue.

    Attributes:
        settings: Its settings.
        folds: How many charges have counted for their namespace, since there are too many accounts.
    """

    def __init__(self, settings: FairSettings) -> None:
        self.settings = settings
        self.folds = 0
        self._uses: dict[Path, Use] = {}
        self._charges: dict[Uid, _Running] = {}
        self._due: deque[tuple[int, Uid]] = deque()
        self._powers: dict[int, Power] = {}
        self._next_drop = 0

    # --- questions ----------------------------------------------------------------------------

    def use_of(self, path: Path, second: int) -> ScaledUse:
        """Return the scaled use of an account until a second that is not before its last change."""
        use = self._uses.get(path)
        return NOTHING if use is None else self._settled(use, second)

    def _settled(self, use: Use, second: int) -> ScaledUse:
        if not use.rate or second <= use.second:
            return use.settled
        half_life = self.settings.half_life
        return use.settled.plus(scale_between(use.rate, use.at, self._power(second), half_life))

    def rank_of(self, path: Path, second: int) -> int:
        """Return where an account stands among those beside it: the smallest comes first."""
        weight = self.settings.weight_of(path)
        use = self.use_of(path, second)
        if not use.mantissa and len(self._uses) >= MAX_ACCOUNTS and path not in self._uses:
            return NO_WEIGHT - 1  # its use counts for its namespace: made-up names get nothing
        return use.rank(weight) if weight else NO_WEIGHT + use.rank(1)

    def share_used(self, path: Path, second: int) -> Fraction:
        """Return how many times its share an account has used; 0 if it and others have used none.

        That is its use, divided by what accounts beside it have used on average by their weights.
        """
        beside = [each for each in self._uses if each[:-1] == path[:-1] and len(each) == len(path)]
        weight = self.settings.weight_of(path)
        weights = sum(map(self.settings.weight_of, beside))
        half_life = self.settings.half_life
        uses = {each: self.use_of(each, second).decayed(second, half_life) for each in beside}
        total = sum(uses.values(), Fraction(0))
        if not total or not weight:
            return Fraction(0)
        return uses.get(path, Fraction(0)) * weights / (total * weight)

    @property
    def uses(self) -> Mapping[Path, Use]:
        """The accounts that have use, those above others included; for reading."""
        return self._uses

    def __len__(self) -> int:
        return len(self._uses)

    # --- changes ------------------------------------------------------------------------------

    def start(
        self, uid: Uid, account: Account, rate: int, second: int, *, since: int, settled: int = -1
    ) -> Path:
        """Begin to charge; return what that counts for.

        Args:
            uid: The uid that is charged.
            account: The account.
            rate: What it uses per second.
            second: The present second.
            since: The second since which it has been charged.
            settled: The second until which its use is known already.
        """
        path = counted_path(self, account)
        if len(self._uses) >= MAX_ACCOUNTS and path != path_of(self.settings, account):
            self.folds += 1
        due = since + self.settings.minimum_charge
        paid = NOTHING
        if since > settled:
            first, last = self._power(since), self._power(due)
            paid = scale_between(rate, first, last, self.settings.half_life)
        is_due = due <= second
        self._charges[uid] = _Running(path, rate, due, paid, is_due)
        begin = max(due, settled) if is_due else second
        for each in levels_of(path):
            self._change(each, begin, paid, rate if is_due else 0, 1, account.namespace)
        if not is_due:
            self._due.append((due, uid))
        return path

    def stop(self, uid: Uid, second: int, *, is_undone: bool) -> Path | None:
        """End a charge; return the account whose rank that changes, or None."""
        known = self._charges.pop(uid, None)
        if known is None:
            return None
        for each in levels_of(known.path):
            self._change(each, second, NOTHING, -known.rate if known.is_due else 0, -1)
            if is_undone and not known.is_due:
                use = self._uses[each]
                settled = use.settled.minus(known.paid)
                self._uses[each] = msgspec.structs.replace(use, settled=settled)
        return known.path if known.is_due or is_undone else None

    def resize(self, uid: Uid, rate: int, second: int) -> Path | None:
        """Charge a running charge for more or less; return its account, None if it is unknown."""
        known = self._charges.get(uid)
        if known is None:
            return None
        if known.is_due:
            paid, change = NOTHING, rate - known.rate
        else:
            more = max(0, rate - known.rate)  # what has counted in advance stays
            first, last = self._power(second), self._power(known.due)
            paid, change = scale_between(more, first, last, self.settings.half_life), 0
        for each in levels_of(known.path):
            self._change(each, second, paid, change, 0)
        paid = known.paid.plus(paid)
        self._charges[uid] = _Running(known.path, rate, known.due, paid, known.is_due)
        return known.path

    def advance(self, second: int) -> None:
        """Charge on what has run for longer than it counted in advance."""
        due = self._due
        while due and due[0][0] <= second:
            at, uid = due.popleft()
            known = self._charges.get(uid)
            if known is None or known.is_due or known.due != at:
                continue
            self._charges[uid] = msgspec.structs.replace(known, is_due=True)
            for each in levels_of(known.path):
                self._change(each, at, NOTHING, known.rate, 0)
        if len(self._powers) > RENEW_SECONDS * 2:
            self._powers.clear()

    def forget_idle(self, second: int) -> None:
        """Forget, now and then, the accounts whose use has decayed."""
        if second < self._next_drop:
            return
        self._next_drop = second + max(self.settings.half_life, RENEW_SECONDS)
        until = second - IDLE_HALF_LIVES * self.settings.half_life
        gone = [path for path, use in self._uses.items() if not use.charges and use.second <= until]
        for path in gone:
            del self._uses[path]

    def renew(self, settings: FairSettings, second: int) -> bool:
        """Take other settings; return False if use under the former ones cannot be converted."""
        before = self.settings
        if (before.levels, before.resource_weights) != (settings.levels, settings.resource_weights):
            return False
        if before.half_life != settings.half_life:
            for path in [*self._uses]:
                self._change(path, second, NOTHING, 0, 0)  # until now
            old, new = power(second, before.half_life), power(second, settings.half_life)
            self._powers.clear()
            for path, use in self._uses.items():
                settled = use.settled.rescaled(old, new)
                self._uses[path] = msgspec.structs.replace(use, settled=settled, at=new)
            for uid, each in self._charges.items():
                paid = each.paid.rescaled(old, new)
                self._charges[uid] = msgspec.structs.replace(each, paid=paid)
        self.settings = settings
        return True

    def _change(
        self,
        path: Path,
        second: int,
        more: ScaledUse,
        rate: int,
        charges: int,
        namespace: str | None = None,
    ) -> None:
        """Change the use of an account, by so much more of each, until a second and from then on.

        `namespace`: that of a unit that it is the use of.
        """
        use = self._uses.get(path)
        if use is None:
            use = Use(NOTHING, self._power(second), second)
        elif second < use.second:
            second = use.second
        names = use.namespaces
        if namespace is not None and namespace not in names:
            names = _with_namespace(names, namespace)
        self._uses[path] = Use(
            self._settled(use, second).plus(more),
            use.at if second == use.second else self._power(second),
            second,
            use.rate + rate,
            use.charges + charges,
            names,
        )

    def _power(self, second: int) -> Power:
        found = self._powers.get(second)
        if found is None:
            found = self._powers[second] = power(second, self.settings.half_life)
        return found

    # --- what is kept, copies -----------------------------------------------------------------

    def stored(self, name: str, second: int) -> Iterator[StoredUse]:
        """Yield what is to be kept of the accounts, those above others included."""
        levels, half_life = self.settings.levels, self.settings.half_life
        queue = self
        if self._due and self._due[0][0] <= second:
            queue = self.copy()
            queue.advance(second)
        for path in queue.uses:
            use = queue.use_of(path, second)
            if use.mantissa:
                names = tuple(map(str, levels))
                yield StoredUse(name, names, half_life, path, str(use.mantissa), use.exponent)

    def put_back(self, path: Path, use: ScaledUse, second: int) -> None:
        """Add what an account had used before this process."""
        self._change(path, second, use, 0, 0, UNKNOWN)

    def state(self, second: int) -> list[tuple[Path, ScaledUse]]:
        """Return what accounts have used until now, in the same order in every process."""
        uses = ((path, self.use_of(path, second)) for path in self._uses)
        return sorted(each for each in uses if each[1].mantissa)

    def copy(self) -> QueueUse:
        """Return an independent copy."""
        twin = QueueUse(self.settings)
        twin._uses, twin._charges = self._uses.copy(), self._charges.copy()
        twin._due, twin._next_drop = self._due.copy(), self._next_drop
        twin.folds = self.folds
        return twin

    def validate(self, charged: set[Uid], story: str) -> None:
        """Raise AssertionError with the story unless the charges of these uids are counted."""
        got = set(self._charges)
        assert got == charged, f"{story}: {sorted(got)} are counted, should be {sorted(charged)}"
        rates: dict[Path, int] = {}
        counts: dict[Path, int] = {}
        for each in self._charges.values():
            for path in levels_of(each.path):
                counts[path] = counts.get(path, 0) + 1
                rates[path] = rates.get(path, 0) + (each.rate if each.is_due else 0)
        for path, use in self._uses.items():
            want = rates.get(path, 0), counts.get(path, 0)
            assert (use.rate, use.charges) == want, f"{story}: {path} has {use}, should be {want}"


class FairUse:
    """The accounts of all queues with the policy Fair.

    Attributes:
        second: The time, in seconds since the epoch; 0: not known yet.
        is_on: Whether any queue has the policy Fair.
        moved: By queue: the accounts whose ranks may differ; None: all of them.
    """

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without queues; `plugins` know what quotas may have."""
        self.second = 0
        self.is_on = False
        self.moved: dict[str, dict[Path, None] | None] = {}
        self._plugins = plugins
        self._queues: dict[str, QueueUse] = {}
        # What was kept outside; a queue may become known later.
        self._stored = StoredUses()
        # By quota: the amount of each resource that stands for all there is.
        self._capacities: dict[str, Amounts] = {}
        # Charges of quotas that are not known, or in no tree: what these may have is not known yet.
        self._unrated: dict[Uid, None] = {}
        # Units that are charged, and whose admission is not in their object yet.
        self._assumed: dict[Uid, None] = {}

    def of_queue(self, name: str) -> QueueUse | None:
        """Return the accounts of a queue, or None if it has another policy."""
        return self._queues.get(name)

    # --- facts --------------------------------------------------------------------------------

    def track(
        self,
        name: str,
        settings: FairSettings | None,
        charges: Iterable[tuple[Uid, int, AnyCharge]],
    ) -> None:
        """Take how a queue orders accounts; None: by none.

        Args:
            name: The queue.
            settings: Its settings.
            charges: All charges, each with the second since when; asked for if the settings differ.
        """
        if settings is None:
            self._queues.pop(name, None)
            self.moved.pop(name, None)
            self.is_on = bool(self._queues)
            return
        known = self._queues.get(name)
        if known is not None and known.settings == settings:
            return
        self.moved[name] = None
        if known is not None and known.renew(settings, self.second):
            return
        settled = self._begin(name, settings)
        self.is_on = True
        for uid, since, charge in charges:
            if charge.account.queue == name:
                self._start(uid, charge, since, settled)

    def advance(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        before = self.second
        if second <= before:
            return
        self.second = second
        for name, queue in self._queues.items():
            queue.advance(second)
            if before // RENEW_SECONDS != second // RENEW_SECONDS:
                queue.forget_idle(second)
                self.moved[name] = None

    def renew_all(self) -> None:
        """Have the ranks of all accounts computed anew."""
        self.moved = dict.fromkeys(self._queues)

    def restart(
        self, charges: Iterable[tuple[Uid, int, AnyCharge]], stored: StoredUses | None = None
    ) -> None:
        """Begin anew with what is charged now, and what was kept of the use before.

        Args:
            charges: All charges, each with the second since when, ascending.
            stored: What was kept; None: what is known of that stays.
        """
        for _ in self.restarting(charges, stored):
            pass

    def restarting(
        self, charges: Iterable[tuple[Uid, int, AnyCharge]], stored: StoredUses | None = None
    ) -> Iterator[None]:
        """Do the same in steps of some microseconds; until the last, use is incomplete."""
        if stored is not None:
            self._stored = stored
        self._assumed, self._unrated = {}, {}
        for name, queue in self._queues.items():
            self._queues[name] = QueueUse(queue.settings)
            self.moved[name] = None
            yield
        for each in self._stored.uses:
            known = self._queues.get(each.queue)
            if known is not None:
                self._put_back(known, each)
            yield
        settled = self._settled
        for uid, since, charge in charges:
            self._start(uid, charge, min(since, self.second), settled)
            yield

    @property
    def _settled(self) -> int:
        """The second until which use is known from what was kept; -1: it is not."""
        return min(self._stored.second, self.second) if self._stored.uses else -1

    def _begin(self, name: str, settings: FairSettings) -> int:
        """Begin with what was kept of a queue; return the second until which its use is known."""
        before = self._queues.get(name)
        queue = self._queues[name] = QueueUse(settings)
        queue.folds = 0 if before is None else before.folds
        for each in self._stored.uses:
            if each.queue == name:
                self._put_back(queue, each)
        return self._settled

    def _put_back(self, queue: QueueUse, kept: StoredUse) -> None:
        """Add what an account of a queue had used, if its levels are those of the queue."""
        if kept.levels == queue.settings.levels:
            use = kept.scaled_by(queue.settings.half_life, self._stored.second)
            queue.put_back(kept.path, use, self._settled)

    def on_quotas_changed(self, charges: Mapping[Uid, AnyCharge]) -> None:
        """Note that quotas may have other amounts, which counts for what is charged from now on.

        What was charged before its quota was known, as after a start, is charged by it from now on.
        """
        self._capacities = {}
        for uid in [*self._unrated]:
            charge = charges.get(uid)
            queue = None if charge is None else self._queues.get(charge.account.queue)
            if charge is None or queue is None:
                del self._unrated[uid]
                continue
            path = queue.resize(uid, self._rate(queue, uid, charge), self.second)
            if path is not None:
                self._note_moved(charge.account.queue, path)

    def on_charge(
        self, uid: Uid, before: AnyCharge | None, after: AnyCharge | None, *, is_assumed: bool
    ) -> None:
        """Take a change of what is charged for a uid; None: nothing is.

        Args:
            uid: The uid.
            before: What was charged.
            after: What is charged now.
            is_assumed: Whether it is a start that is not written yet.
        """
        if after is not None and before is not None:
            queue = self._queues.get(after.account.queue)
            if queue is not None and after.is_admitted and _is_same(queue, before, after):
                path = queue.resize(uid, self._rate(queue, uid, after), self.second)
                if path is not None:
                    self._note_moved(after.account.queue, path)
                    return
        if before is not None:
            self._stop(uid, before, is_undone=after is None or not after.is_admitted)
        if after is not None:
            self._start(uid, after, self.second)
        if is_assumed:
            self._assumed[uid] = None

    def on_confirmed(self, uid: Uid) -> None:
        """Note that a unit's object says that it was admitted: its start is not undone any more."""
        self._assumed.pop(uid, None)

    def _start(self, uid: Uid, charge: AnyCharge, since: int, settled: int = -1) -> None:
        queue = self._queues.get(charge.account.queue)
        if queue is None:
            return
        if charge.is_admitted:
            rate, account = self._rate(queue, uid, charge), charge.account
            path = queue.start(uid, account, rate, self.second, since=since, settled=settled)
            self._note_moved(charge.account.queue, path)

    def _stop(self, uid: Uid, charge: AnyCharge, *, is_undone: bool) -> None:
        was_assumed = uid in self._assumed
        self._assumed.pop(uid, None)
        self._unrated.pop(uid, None)
        queue = self._queues.get(charge.account.queue)
        path = None
        if queue is not None:
            path = queue.stop(uid, self.second, is_undone=is_undone and was_assumed)
        if path is not None:
            self._note_moved(charge.account.queue, path)

    def _note_moved(self, name: str, path: Path) -> None:
        moved = self.moved.setdefault(name, {})
        if moved is not None:
            for each in levels_of(path):
                moved[each] = None

    def _rate(self, queue: QueueUse, uid: Uid, charge: AnyCharge) -> int:
        """Return what the charge of a uid uses per second."""
        weights, amounts = queue.settings.resource_weights, charge.amounts
        if weights:
            return sum(
                weights.get(name, 0) * amount * SCALE // piece_size(name)
                for name, amount in amounts.items()
            )
        capacity, most = self._capacity(charge.account.quota), 0
        if capacity is None:
            self._unrated[uid] = None
            capacity = {}
        else:
            self._unrated.pop(uid, None)
        for name, amount in amounts.items():
            of = capacity.get(name) or UNLIMITED * piece_size(name)
            most = max(most, amount * SCALE // of)
        return most

    def _capacity(self, quota: str) -> Amounts | None:
        """Return what the topmost quota that limits a resource may have of it, by resource.

        None: the quota is not known, or in no tree.
        """
        known = self._capacities.get(quota)
        if known is None:
            own = view_quota(self._plugins, quota)
            if own is None or not own.usable:
                return None
            known = {}
            for name in reversed(self._plugins.chain(quota)):
                view = view_quota(self._plugins, name)
                limits = {} if view is None else {r: most for r, most in view.max.items() if most}
                known = limits | known
            self._capacities[quota] = known
        return known

    # --- what is kept outside -----------------------------------------------------------------

    def stored(self, second: int, most: int = MAX_STORED) -> tuple[StoredUse, ...]:
        """Return what is to be kept of accounts at a second: of those that have used the most."""
        found = [
            each for name, queue in self._queues.items() for each in queue.stored(name, second)
        ]
        # Of different half-lives the order is arbitrary, and the same in every process.
        largest = nlargest(most, found, key=lambda each: (each.use.rank(1), each.path))
        return tuple(sorted(largest, key=lambda each: (each.queue, each.path)))

    # --- ranks --------------------------------------------------------------------------------

    def ranks(self, name: str, paths: Iterable[Path]) -> dict[Path, int]:
        """Return the ranks of these accounts of a queue, and of those above them, at present."""
        queue = self._queues.get(name)
        if queue is None:
            return {}
        found: dict[Path, int] = {}
        for path in paths:
            for each in levels_of(path):
                if each not in found:
                    found[each] = queue.rank_of(each, self.second)
        return found

    def take_moved(self) -> dict[str, dict[Path, None] | None]:
        """Return, once, the accounts whose ranks may differ; None: all of a queue."""
        moved, self.moved = self.moved, {}
        return moved

    # --- copies -------------------------------------------------------------------------------

    def state(self) -> list[object]:
        """Return what it has, in the same order in every process."""
        if not self._queues:
            return []
        queues = sorted((name, queue.state(self.second)) for name, queue in self._queues.items())
        return [self.second, queues]

    def fork(self, plugins: PluginRunner) -> FairUse:
        """Return an independent copy over forked plugins."""
        twin = FairUse(plugins)
        twin.second, twin.is_on = self.second, self.is_on
        twin.moved = {
            name: None if paths is None else dict(paths) for name, paths in self.moved.items()
        }
        twin._queues = {name: queue.copy() for name, queue in self._queues.items()}
        twin._assumed, twin._stored = dict(self._assumed), self._stored
        twin._unrated = dict(self._unrated)
        return twin

    def validate(self, charges: Mapping[Uid, AnyCharge]) -> None:
        """Raise AssertionError unless the charges of all units in its queues are counted."""
        for name, queue in self._queues.items():
            want = {
                uid
                for uid, each in charges.items()
                if each.is_admitted and each.account.queue == name
            }
            queue.validate(want, f"accounts of queue {name}")


def _is_same(queue: QueueUse, before: AnyCharge, after: AnyCharge) -> bool:
    """Return whether two charges count for the same account of a queue."""
    one, other = before.account, after.account
    if one == other:
        return True
    settings = queue.settings
    return one.queue == other.queue and path_of(settings, one) == path_of(settings, other)
