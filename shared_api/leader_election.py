"""Elects the replica that may write, by a Lease (coordination.k8s.io/v1).

The life of a candidate:

    candidate ──(lease free, expired, or absent; write accepted)──► leader
    leader ──(renewed in time)──► leader
    leader ──(another holds it, or no renewal within the renew deadline)──► over: the process ends
    leader ──(release, at shutdown)──► over: the next candidate starts at once

Why it is safe, and what it assumes:

- *Expiry is observed locally.* A candidate takes over when it has seen no change of the lease for
  the whole lease duration by its own monotonic clock. The times in the object are only for readers:
  wall clocks jump, monotonic ones do not.
- *A leader counts from before its request.* Its lease certainly holds for the lease duration from
  the moment before a successful renewal was sent, because no candidate can have seen that renewal
  earlier. ``time_left`` is what the write gate reads.
- *The last write of a leader is over before its successor begins.* A write is sent only if its time
  limit with all tries (``WRITE_SECONDS``) ends within ``writable_seconds``. That limit does not
  cover bytes that wait in a socket or a network after the last look at the clock, a process that is
  paused just after that look (SIGSTOP, a virtual machine), and a request that the server still
  carries out when its own limit ends. So ``settle_seconds`` lie between the last moment at which a
  leader may send and the first one of its successor. They are the last ones of the leader's lease:
  its gate closes ``quiet_seconds`` before the expiry, which it promises in an annotation of the
  Lease, and who takes over begins at once. What is not promised (the lease is too short for it, was
  deleted, or was held by an earlier version) the new leader waits itself. After a release it waits
  for nothing: a leader releases when its writers have stopped.
- *A promise is its holder's.* The annotation names the identity that wrote it. A version that does
  not know it leaves it in place, where it counts for nothing under another holder.
- *Of a longer pause at that place* only the resourceVersion in the write protects, as under any
  election that the API server takes no part in.
- *The lease is read before it is released.* A write whose answer is late or lost may have acquired
  the lease; that attempt releases it as well, so a shutdown while the server is slow leaves no
  holder.
- Assumption: the clocks of two machines run at nearly the same rate (15 to 10 leaves a third as
  margin).

A candidate reads the lease when the next renewal is due, a few times in quick succession, so that
it notices each renewal soon after it was made; and once more at the moment of the expiry. That only
saves time: the lease duration counts from when a renewal was noticed, however late that is.

Every write to the lease is guarded by its resourceVersion, so of two candidates one gets a 409. A
renewal whose outcome is unknown extends nothing: the lease is read, and renewed again.

Model: client-go ``tools/leaderelection``. Different here: the verdict is a pure function, a process
that lost the lease never wins it again, and no thread is started.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Final, Protocol

import msgspec
import structlog

from shared_api.client.errors import AlreadyExists, ApiFailure, Conflict
from shared_api.objects.lease import Lease, LeaseSpec
from shared_api.process.clock import Clock
from shared_api.timestamps import rfc3339_micro
from shared_api.well_known_labels import WRITES_END

LEASE_SECONDS: Final = 15
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
"""The default durations of every Kubernetes component (``LeaderElectionConfiguration``)."""

SETTLE_SECONDS: Final = 4.0
"""Between the last moment at which a leader may send and the first one of its successor: what is on
its way arrives, and no write takes longer."""

LEASE_REQUEST_SECONDS: Final = 5.0
"""Time limit of one request of the election: two tries fit into the default renew deadline."""

EARLY_SHARE: Final = 0.9
LATE_SHARE: Final = 1.5
LOOKS_PER_RETRY: Final = 8
"""From 0.9 to 1.5 retry periods after a renewal a candidate looks for the next one, eight times per
period: one or two reads find it, since a leader renews without jitter."""

EXPIRY_SECONDS: Final = 0.01
EXPIRY_JITTER_SECONDS: Final = 0.1
"""How soon after the expiry candidates try to acquire: not all at the same instant."""

RETRY_JITTER: Final = 0.2
"""Share by which candidates look later at a lease that is overdue or free, so that they do not all
retry at once (client-go: 1.2)."""

RELEASED_LEASE_SECONDS: Final = 1
"""Duration that is written with an empty holder, as in client-go; zero would be invalid."""

EXIT_LOST_LEASE: Final = 3
"""Exit code of a process that lost its lease: it only needs to be restarted."""

log = structlog.get_logger("leader_election")


class LeaseSettingError(ValueError):
    """The durations are inconsistent."""


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election.

    Raises:
        LeaseSettingError: They are inconsistent; the message says which ones and why.
    """

    lease_seconds: int = LEASE_SECONDS
    renew_deadline_seconds: float = RENEW_DEADLINE_SECONDS
    retry_seconds: float = RETRY_SECONDS
    settle_seconds: float = SETTLE_SECONDS

    @property
    def request_seconds(self) -> float:
        """The time limit of a request of the election."""
        return min(LEASE_REQUEST_SECONDS, self.renew_deadline_seconds / 2)

    @property
    def quiet_seconds(self) -> float:
        """The last seconds of its lease, in which a leader sends nothing.

        As many of the settle time as leave room for a write until the slowest renewal is answered:
        a slow API server must not stop the writers of a leader that renews in time.
        """
        busy = self.settle_seconds + self.retry_seconds + self.request_seconds
        return max(0.0, min(self.settle_seconds, self.lease_seconds - busy))

    def __post_init__(self) -> None:
        assert self.settle_seconds >= 0, "settle_seconds is below 0"
        if self.retry_seconds <= 0:
            raise LeaseSettingError("leader election: retry period must be above 0")
        if self.renew_deadline_seconds <= self.retry_seconds * (1 + RETRY_JITTER):
            raise LeaseSettingError(
                f"leader election: renew deadline ({self.renew_deadline_seconds:g} s) must be "
                f"above {1 + RETRY_JITTER:g} times the retry period ({self.retry_seconds:g} s)"
            )
        if self.lease_seconds <= self.renew_deadline_seconds:
            raise LeaseSettingError(
                f"leader election: lease duration ({self.lease_seconds} s) must be above the renew "
                f"deadline ({self.renew_deadline_seconds:g} s)"
            )
        # Otherwise the leader could not write before a renewal: too little of its lease is left.
        least = self.settle_seconds + self.retry_seconds
        if self.lease_seconds < least:
            raise LeaseSettingError(
                f"leader election: lease duration ({self.lease_seconds} s) must be at least "
                f"{least:g} s: the retry period and the {self.settle_seconds:g} s of a write"
            )


class LeaseLock(Protocol):
    """The Lease that the candidates share. Raises ``ApiFailure``.

    Its requests must end well within the renew deadline and never wait for other requests of the
    program. ``lease_lock.ApiLeaseLock`` implements it with the API server.
    """

    def read(self) -> Lease | None:
        """Return the current lease; None if there is none."""

    def write(self, spec: LeaseSpec, resource_version: str, promise: str) -> Lease:
        """Replace spec and `WRITES_END` of the lease in this version, and return the new lease.

        With resource_version "" the lease is created. Raises `Conflict` or `AlreadyExists` if
        another candidate was faster.
        """


class ObservedLease(msgspec.Struct, frozen=True):
    """A version of the lease, and when this process first saw it."""

    spec: LeaseSpec
    resource_version: str
    since: float
    """Monotonic time at which the version was first seen."""
    quiet_seconds: float = 0.0
    """The last seconds of the lease in which its holder sends nothing, as it has promised."""

    @property
    def holder(self) -> str:
        """Return the identity of the holder; "" if there is none."""
        return self.spec.holder_identity or ""


class LeaseVerdict(Enum):
    """What a candidate may do with the lease it sees."""

    CREATE = "create"
    """There is no lease."""
    ACQUIRE = "acquire"
    """Its holder released it, or has not renewed it for its whole duration."""
    RENEW = "renew"
    """This candidate holds it."""
    WAIT = "wait"
    """Another candidate holds it."""


def observe(previous: ObservedLease | None, lease: Lease, now: float) -> ObservedLease:
    """Return the observation after reading the lease at monotonic time `now`.

    Any new resourceVersion counts as a renewal: that errs towards waiting longer, while comparing
    ``renewTime`` would rely on the holder's wall clock.
    """
    version = lease.metadata.resource_version
    known = previous is not None and previous.resource_version == version
    since = previous.since if previous is not None and known else now
    return ObservedLease(
        spec=lease.spec,
        resource_version=version,
        since=since,
        quiet_seconds=_read_promise(lease),
    )


def _read_promise(lease: Lease) -> float:
    """Return the seconds that the holder itself has promised; 0: none."""
    seconds, _, promiser = lease.metadata.annotations.get(WRITES_END, "").partition(" ")
    if not promiser or promiser != lease.spec.holder_identity:
        return 0.0
    try:
        found = float(seconds)
    except ValueError:
        return 0.0
    return found if 0.0 <= found < inf else 0.0


def judge_lease(
    observed: ObservedLease | None, identity: str, now: float, default_seconds: int
) -> LeaseVerdict:
    """Return what the candidate `identity` may do with the lease at monotonic time `now`.

    The duration that the holder wrote counts, because the holder relies on it; `default_seconds` is
    used if it wrote none.
    """
    if observed is None:
        return LeaseVerdict.CREATE
    if observed.holder == identity:
        return LeaseVerdict.RENEW
    duration = observed.spec.lease_duration_seconds or default_seconds
    if not observed.holder or now >= observed.since + duration:
        return LeaseVerdict.ACQUIRE
    return LeaseVerdict.WAIT


def rest_of_candidate(
    observed: ObservedLease | None, settings: LeaseSettings, now: float, luck: float
) -> float:
    """Return the seconds after which a candidate looks at the lease again.

    Args:
        observed: The lease as it was last seen.
        settings: The durations of the candidate.
        now: Monotonic time.
        luck: From 0 to 1, another one each time.
    """
    retry = settings.retry_seconds
    rest = retry * (1 + RETRY_JITTER * luck)
    if observed is None or not observed.holder:
        return rest
    age = now - observed.since
    if age < LATE_SHARE * retry:
        rest = max(EARLY_SHARE * retry - age, retry / LOOKS_PER_RETRY)
    duration = observed.spec.lease_duration_seconds or settings.lease_seconds
    if age < duration:
        soon = EXPIRY_SECONDS + EXPIRY_JITTER_SECONDS * luck
        rest = min(rest, duration - age + soon)
    return rest


class Leadership(Protocol):
    """Informs the rest of the program whether it leads; callable from any thread."""

    def is_leader(self) -> bool:
        """Return whether this process certainly leads now."""

    def time_left(self) -> float:
        """Return the seconds for which this process certainly still leads; 0 if it does not."""

    def writable_seconds(self) -> float:
        """Return the seconds that a write sent now may take; 0: no write may be sent."""

    def holder(self) -> str:
        """Return the identity of the leader, as far as it is known here; "" if there is none."""


class SoleLeader:
    """The `Leadership` of a process that runs without election (``--leader-elect=false``)."""

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def is_leader(self) -> bool:
        """Return True."""
        return True

    def time_left(self) -> float:
        """Return infinity: without an election the process leads for ever."""
        return inf

    def writable_seconds(self) -> float:
        """Return infinity: without an election the process leads for ever."""
        return inf

    def holder(self) -> str:
        """Return the identity of this process."""
        return self._identity


class _Lead(msgspec.Struct, frozen=True):
    """One successful renewal; replaced as a whole, so other threads read it without a lock."""

    holds_until: float
    renew_by: float
    writes_from: float


class LeaderElector:
    """One candidate. One thread calls `step`; the `Leadership` methods are callable from any.

    Args:
        lock: The lease.
        identity: Unique among all candidates and restarts ("<host>_<random>").
        settings: The durations.
        clock: The time; only its monotonic time affects decisions.
        rng: Source of the jitter between candidates.
        on_started_leading: Called by `step` when the lease was acquired; must be quick.
        on_stopped_leading: Called by `step`, with the reason, when the lease was lost. By then
            `writable_seconds` has stopped the writers; the process must end with `EXIT_LOST_LEASE`.
    """

    def __init__(
        self,
        lock: LeaseLock,
        identity: str,
        settings: LeaseSettings,
        *,
        clock: Clock,
        rng: random.Random,
        on_started_leading: Callable[[], None],
        on_stopped_leading: Callable[[str], None],
    ) -> None:
        self._lock = lock
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._on_started_leading = on_started_leading
        self._on_stopped_leading = on_stopped_leading
        self._observed: ObservedLease | None = None
        self._must_read = True  # what is known of the lease may be outdated
        self._lead: _Lead | None = None
        self._over = False
        self._has_written = False  # a write may have reached the server, with or without an answer
        self._released = False
        self._last_trouble = ""
        self._lease_seconds = 0.0

    def is_leader(self) -> bool:
        """Return whether this process certainly leads now."""
        return self.time_left() > 0

    def time_left(self) -> float:
        """Return the seconds for which the lease certainly still holds; 0 if it does not."""
        lead = self._lead
        return 0.0 if lead is None else max(lead.holds_until - self._clock.monotonic(), 0.0)

    def writable_seconds(self) -> float:
        """Return the seconds that a write sent now may take.

        0 while a new leader settles, and in the `quiet_seconds` of the lease.
        """
        lead = self._lead
        if lead is None or self._clock.monotonic() < lead.writes_from:
            return 0.0
        return max(self.time_left() - self._settings.quiet_seconds, 0.0)

    def settle_seconds_left(self) -> float:
        """Return the seconds that a new leader still has to wait before its first write."""
        lead = self._lead
        return 0.0 if lead is None else max(lead.writes_from - self._clock.monotonic(), 0.0)

    def waited_seconds(self) -> float:
        """Return how long the lease took: since the last renewal of the holder before was seen.

        0 if there was no such holder, or it released the lease.
        """
        return self._lease_seconds

    def holder(self) -> str:
        """Return the identity of the holder last seen; "" if there was none."""
        observed = self._observed
        return "" if observed is None else observed.holder

    def step(self) -> float | None:
        """Try once to acquire or renew the lease; return the seconds to rest (None: it is over)."""
        started = self._clock.monotonic()
        hurry = False
        if not self._is_too_late(started):
            try:
                self._try_once()
                self._last_trouble = ""
            except (Conflict, AlreadyExists):
                self._must_read = True
                hurry = self._lead is not None  # a leader must know the current holder at once
            except ApiFailure as failure:
                self._must_read = True  # a write may have reached the server all the same
                self._report_trouble(failure)
            if self._released:  # during this try
                self._lead = None
                self._give_up()
        now = self._clock.monotonic()
        if not self._over and self._is_too_late(now):
            self._lose("not renewed within the renew deadline")
        if self._over:
            return None
        return 0.0 if hurry else self._rest(now - started)

    def release(self) -> None:
        """Release the lease, so that the next candidate need not wait until it expires.

        Called once at shutdown, when the writers have stopped and `step` is not called any more. A
        step that is still running because the server is slow releases a lease that it acquires.
        """
        self._lead = None
        self._over = True
        self._released = True
        self._give_up()

    def _give_up(self) -> None:
        """Write an empty holder into the lease if this process holds it."""
        if not self._has_written:
            return
        try:
            lease = self._lock.read()
            if lease is None or lease.spec.holder_identity != self._identity:
                return
            spec = msgspec.structs.replace(
                lease.spec,
                holder_identity="",
                lease_duration_seconds=RELEASED_LEASE_SECONDS,
                renew_time=rfc3339_micro(self._clock.now()),
            )
            self._lock.write(spec, lease.metadata.resource_version, self._promise())
            log.info("released the lease", identity=self._identity)
        except ApiFailure as failure:
            log.warning("could not release the lease, it will expire", error=str(failure))

    def _try_once(self) -> None:
        if self._must_read:
            lease = self._lock.read()
            now = self._clock.monotonic()
            self._observed = None if lease is None else observe(self._observed, lease, now)
        now = self._clock.monotonic()
        verdict = judge_lease(self._observed, self._identity, now, self._settings.lease_seconds)
        if verdict is not LeaseVerdict.WAIT:
            self._write(verdict)
        elif self._lead is not None:
            self._lose(f"taken by {self.holder()}")

    def _write(self, verdict: LeaseVerdict) -> None:
        """Create, acquire or renew the lease, and update the state of this process."""
        observed = self._observed
        sent_at = self._clock.monotonic()
        version = "" if observed is None else observed.resource_version
        self._has_written = True
        lease = self._lock.write(self._build_spec(verdict), version, self._promise())
        self._observed = observe(None, lease, sent_at)
        self._must_read = False
        if self._released:
            return
        if self._lead is not None:
            self._lead = self._build_lead(sent_at, self._lead.writes_from)
            return
        settle = self._settle_seconds(observed)
        now = self._clock.monotonic()
        lead = self._build_lead(sent_at, now + settle)
        if now >= lead.renew_by:  # the answer took too long for the lease to be of use
            self._must_read = True
            return
        self._lead = lead
        waited = now - observed.since if observed is not None and observed.holder else 0.0
        self._lease_seconds = waited
        log.info(
            "acquired the lease",
            identity=self._identity,
            lease_seconds=round(waited, 3),
            settle_seconds=settle,
        )
        self._on_started_leading()

    def _settle_seconds(self, last: ObservedLease | None) -> float:
        """Return how long to wait for the last write of the holder before; None: not known."""
        if last is not None and not last.holder:
            return 0.0  # it released the lease
        promised = 0.0 if last is None else last.quiet_seconds
        return max(self._settings.settle_seconds - promised, 0.0)

    def _promise(self) -> str:
        return f"{self._settings.quiet_seconds:g} {self._identity}"

    def _build_spec(self, verdict: LeaseVerdict) -> LeaseSpec:
        now = rfc3339_micro(self._clock.now())
        old = None if self._observed is None else self._observed.spec
        transitions = 0 if old is None else old.lease_transitions or 0
        renewed = verdict is LeaseVerdict.RENEW
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._settings.lease_seconds,
            acquire_time=old.acquire_time if renewed and old is not None else now,
            renew_time=now,
            lease_transitions=transitions + (verdict is LeaseVerdict.ACQUIRE),
        )

    def _build_lead(self, sent_at: float, writes_from: float) -> _Lead:
        return _Lead(
            holds_until=sent_at + self._settings.lease_seconds,
            renew_by=sent_at + self._settings.renew_deadline_seconds,
            writes_from=writes_from,
        )

    def _is_too_late(self, now: float) -> bool:
        """Return whether this leader has missed its renew deadline, or has stopped leading."""
        return self._over or (self._lead is not None and now >= self._lead.renew_by)

    def _lose(self, reason: str) -> None:
        self._lead = None  # first: from here on the gate lets no write pass
        self._over = True
        log.error("lost the lease", identity=self._identity, reason=reason)
        self._on_stopped_leading(reason)

    def _rest(self, elapsed: float) -> float:
        """Return the seconds to rest after a try that took `elapsed` seconds."""
        if self._lead is None:
            now, luck = self._clock.monotonic(), self._rng.random()
            return rest_of_candidate(self._observed, self._settings, now, luck)
        to_deadline = self._lead.renew_by - self._clock.monotonic()
        return max(min(self._settings.retry_seconds - elapsed, to_deadline), 0.0)

    def _report_trouble(self, failure: ApiFailure) -> None:
        """Log a failed try; repeat the same one only at debug level, as it recurs every 2 s."""
        text = str(failure)
        report = log.debug if text == self._last_trouble else log.warning
        self._last_trouble = text
        report("lease not reached", identity=self._identity, error=text)
