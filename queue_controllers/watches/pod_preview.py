"""Previews of the pods of jobs, as the API server would create them (opt-in).

A reconcile never waits for the API server: known results are read from memory, and dry runs are
sent on a thread of their own (`step`), while the job is held. If there is no result after some
seconds, the watched objects count (`pod_admission`), and the unit says so.

    reconcile ──► waiting job ──► step: read the whole job ──► one dry run per template ──► result
                                  step: repeat a known dry run when it is due ──────────► changed?

Cached jobs do not have whole templates, and a pod with only some of its fields would be refused for
the missing ones (Pod Security wants security contexts). So the job is read, once per job and
template.

Objects that may change results (webhooks, policies, LimitRanges, profiles) are watched. After a
change all dry runs are repeated twice, since an API server applies a change a moment later. They
are also repeated every ten minutes, for rules of a webhook that are in no object. Until the new
result arrives the old one counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
import structlog

from queue_controllers.decision.job_ownership import quota_of_job
from queue_controllers.decision.pod_admission import apply_pod_admission, has_pods_to_come
from queue_controllers.decision.pod_stamps import build_stamps_of
from queue_controllers.decision.previewed_pod import (
    NO_RESPONSE,
    DryRun,
    PreviewResult,
    apply_results,
    build_dry_run,
    can_be_previewed,
    fingerprint_of,
    read_error,
    read_response,
)
from queue_controllers.decision.queue_unit_builder import choose_unit_name
from queue_controllers.jobframework.generic_job import (
    AWAITS_PREVIEW,
    GenericJob,
    GivesFullTemplates,
    JobFacts,
    JobKind,
    PodStamp,
)
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.jobframework.template_updates import AddedParts, take_off_body
from queue_controllers.reconcile.job_reader import PreviewRequest
from queue_controllers.watches.owner_lookup import Remembered, memory_of
from shared_api.backoff import Backoff
from shared_api.client.errors import ApiError, ApiFailure, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.client.response_decoding import read_whole
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.process.clock import Clock
from shared_api.work_queue import log_failure

REPEAT_SECONDS: Final = 600.0
"""How often all dry runs are repeated without a change: a webhook may have rules of its own."""

NEW_JOB_SECONDS: Final = 5.0
"""How long a job without a unit waits for a result."""

KNOWN_JOB_SECONDS: Final = 30.0
"""How long a job with a unit waits: its unit has an earlier result, and after a restart all jobs
wait at once."""

SETTLED_SECONDS: Final = (1.0, 10.0)
"""When all dry runs are repeated after a change: API servers apply policies within about a second;
one that they have just compiled, or behind a slow etcd, takes longer."""

FAILURE_BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=60.0)
"""Between tries of a dry run without a response."""

REFUSAL_BACKOFF: Final = Backoff(base_seconds=2.0, cap_seconds=REPEAT_SECONDS)
"""Between dry runs of a pod that was refused, or about which nothing is known now."""

IDLE_SECONDS: Final = 3600.0
"""A result is forgotten, not renewed, if none of its jobs was reconciled for this long: a job is
reconciled before its release in any case."""

MAX_RESULTS: Final = 5_000
"""Results that are kept, one per distinct template, with its pod. Renewing them takes 8 requests
per second."""

MAX_RESULT_BYTES: Final = 64 << 20
"""How much memory they may take in all, by `memory_of`: the usual ones have 20 kB each, and a user
may write templates of more than a MB."""

MAX_WAITING_JOBS: Final = 10_000
"""Jobs that wait for results; for further ones the watched objects count."""

REMIND_SECONDS: Final = 60.0
"""How often the log says that there is no response."""

PREVIEWS: Final = ResourceType("", "v1", "pods", "Pod", namespaced=True, object_type=ScheduledPod)

_NO_RESULT: Final = PreviewResult(note=NO_RESPONSE)

log = structlog.get_logger("pod_preview")


class PreviewClient(Protocol):
    """What is used of the `ResourceClient`."""

    def get_raw(self, path: str) -> bytes:
        """Return the body of a path; raises ApiFailure."""

    def create(
        self,
        resource_type: ResourceType[ScheduledPod],
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool,
    ) -> ScheduledPod:
        """Return a pod as it would be created; raises ApiFailure."""


class _Part(msgspec.Struct, frozen=True):
    """What the dry run of one pod set needs."""

    fingerprint: str
    stamp: PodStamp
    added: AddedParts


class _WaitingJob(msgspec.Struct):
    """A job some of whose pods have no preview yet."""

    kind: JobKind
    adapter: GivesFullTemplates
    job: ObjectMeta
    parts: dict[str, _Part]
    wake: Callable[[str], None]
    since: float
    due: float
    failures: int = 0


class _Known(msgspec.Struct):
    """A dry run, and its last result."""

    dry_run: DryRun
    result: PreviewResult
    size: int
    """In bytes of memory."""
    due: float
    used: float
    failures: int = 0
    """In a row: without a response, refused, or with only a note."""


class PodPreviews:
    """Previews of jobs' pods; a `JobPreviews` of the reconcilers.

    Called on all of their threads; `step` is called on one.

    Args:
        client: The way to the API server.
        clock: The time, for repeated dry runs.
        on_changed: Called with the namespace in which a result has changed.
        repeat_seconds: How often all dry runs are repeated.
        on_error: Counts exceptions about single jobs.
    """

    def __init__(
        self,
        client: PreviewClient,
        clock: Clock,
        *,
        on_changed: Callable[[str], None],
        repeat_seconds: float = REPEAT_SECONDS,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error
        self._client = client
        self._clock = clock
        self._on_changed = on_changed
        self._repeat_seconds = repeat_seconds
        self.wake: Callable[[], None] = lambda: None
        # Guards the fields below; no request is sent while it is held.
        self._lock = threading.Lock()
        self._waiting: dict[Uid, _WaitingJob] = {}
        self._known: dict[str, _Known] = {}  # by the key of the dry run
        self._rounds: dict[str, tuple[float, ...]] = {}  # namespace or "" -> when all are repeated
        self._keys: Remembered[tuple[Uid, str], str] = Remembered()
        self._quiet_until = 0.0

    # --- reconciles -----------------------------------------------------------------------------

    def __call__(self, request: PreviewRequest) -> JobFacts:
        """Return the facts of a job with its pod sets as its pods will be."""
        adapter, job, objects = request.adapter, request.job, request.context.admission
        quota = quota_of_job(job, request.context)
        parts = _parts_of(adapter, job, quota)
        if not parts or not isinstance(adapter, GivesFullTemplates):
            return apply_pod_admission(job, objects)
        now = self._clock.monotonic()
        with self._lock:
            results = self._results_of(job.uid, parts, now)
            waiting = None
            if missing := {name: part for name, part in parts.items() if name not in results}:
                waiting = self._note_waiting(request, adapter, missing, now)
        if missing:
            self.wake()
            patience = KNOWN_JOB_SECONDS if request.has_unit else NEW_JOB_SECONDS
            if waiting is not None and now - waiting.since < patience:
                return msgspec.structs.replace(
                    apply_pod_admission(job, objects), unknown_demand=AWAITS_PREVIEW
                )
            results |= dict.fromkeys(missing, _NO_RESULT)
        facts = apply_results(job, objects, results)
        return msgspec.structs.replace(facts, stamped_quota=quota)

    def recall(self, request: PreviewRequest) -> JobFacts:
        """Return the same by the known results; sends no request.

        Without a result for a job, the watched objects count.
        """
        job, objects, now = request.job, request.context.admission, self._clock.monotonic()
        quota = quota_of_job(job, request.context)
        parts = _parts_of(request.adapter, job, quota)
        with self._lock:
            results = self._results_of(job.uid, parts, now)
            waiting = self._waiting.get(job.uid)
            since = None if waiting is None else waiting.since
        is_complete = len(results) == len(parts)
        if not parts or (since is None and not is_complete):
            return apply_pod_admission(job, objects)
        patience = KNOWN_JOB_SECONDS if request.has_unit else NEW_JOB_SECONDS
        if since is not None and not is_complete and now - since < patience:
            return msgspec.structs.replace(
                apply_pod_admission(job, objects), unknown_demand=AWAITS_PREVIEW
            )
        results = {name: results.get(name, _NO_RESULT) for name in parts}
        facts = apply_results(job, objects, results)
        return msgspec.structs.replace(facts, stamped_quota=quota)

    def _results_of(
        self, uid: Uid, parts: Mapping[str, _Part], now: float
    ) -> dict[str, PreviewResult]:
        results = {}
        for name, part in parts.items():
            key = self._keys.get((uid, part.fingerprint))
            known = None if key is None else self._known.get(key)
            if known is not None:
                known.used = now
                results[name] = known.result
        return results

    def _note_waiting(
        self,
        request: PreviewRequest,
        adapter: GivesFullTemplates,
        parts: dict[str, _Part],
        now: float,
    ) -> _WaitingJob | None:
        """Return a job that waits for results, noted as such; None if too many wait."""
        job, wake = request.job, request.wake
        waiting = self._waiting.get(job.uid)
        if waiting is None:
            if len(self._waiting) >= MAX_WAITING_JOBS:
                return None
            waiting = _WaitingJob(job.kind, adapter, job.metadata, parts, wake, since=now, due=now)
            self._waiting[job.uid] = waiting
        elif waiting.parts != parts:
            waiting.parts, waiting.job, waiting.since, waiting.due = parts, job.metadata, now, now
        return waiting

    def repeat_dry_runs(self, namespace: str) -> None:
        """Repeat the dry runs of a namespace, "" for all, whose results may have changed."""
        now = self._clock.monotonic()
        with self._lock:
            rounds = self._rounds.get(namespace, ())
            # A round that is due soon is not delayed by further changes.
            first = min([*rounds[:1], now + SETTLED_SECONDS[0]])
            self._rounds[namespace] = (first, now + SETTLED_SECONDS[-1])
        self.wake()

    # --- the thread -----------------------------------------------------------------------------

    def step(self) -> float | None:
        """Serve a waiting job, else repeat a dry run; return the seconds until the next is due."""
        now = self._clock.monotonic()
        with self._lock:
            self._begin_rounds(now)
            waiting = min(self._waiting.values(), key=lambda each: each.due, default=None)
            known = min(self._known.values(), key=lambda each: each.due, default=None)
            rests = [at for rounds in self._rounds.values() for at in rounds[:1]]
        if waiting is not None and waiting.due <= now:
            self._try(waiting.job.key, lambda: self._preview_job(waiting))
            return 0.0
        if known is not None and known.due <= now:
            self._try(known.dry_run.namespace, lambda: self._renew(known, now))
            return 0.0
        rests += [each.due for each in (waiting, known) if each is not None]
        return max(min(rests) - now, 0.01) if rests else None

    def _try(self, about: str, work: Callable[[], None]) -> None:
        """Do what has a due time of its own, which `work` moves before it can raise."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it costs this job a pause, and no other
            log_failure(about, error)
            self._on_error()

    def _begin_rounds(self, now: float) -> None:
        for namespace, rounds in list(self._rounds.items()):
            if rounds[0] > now:
                continue
            left = tuple(at for at in rounds if at > now)
            if left:
                self._rounds[namespace] = left
            else:
                del self._rounds[namespace]
            for known in self._known.values():
                if namespace in {"", known.dry_run.namespace}:
                    known.due = now

    def _preview_job(self, waiting: _WaitingJob) -> None:
        """Send the dry runs that a job waits for, and wake it."""
        with self._lock:
            parts = dict(waiting.parts)
            waiting.due = self._clock.monotonic() + FAILURE_BACKOFF.seconds(waiting.failures)
            waiting.failures += 1
        try:
            keys = self._preview_templates(waiting, parts)
        except NotFound:
            keys = None
        except ApiFailure as failure:
            self._warn_no_response(waiting.job.namespace, failure)
            return
        with self._lock:
            for name, key in (keys or {}).items():
                self._keys.put((waiting.job.uid, parts[name].fingerprint), key)
            # It keeps waiting for parts that were noted since, or that have no template.
            if keys is None or (waiting.parts == parts and keys.keys() == parts.keys()):
                self._waiting.pop(waiting.job.uid, None)
        waiting.wake(waiting.job.key)

    def _preview_templates(
        self, waiting: _WaitingJob, parts: Mapping[str, _Part]
    ) -> dict[str, str] | None:
        """Send the dry runs of a job that have no result; return their keys by pod set.

        Returns:
            None if the job is gone.

        Raises:
            ApiFailure: There is no response to one of them.
        """
        kind, job = waiting.kind, waiting.job
        jobs = ResourceType(
            kind.group, kind.version, kind.plural, kind.kind, namespaced=True, object_type=object
        )
        whole = read_whole(self._client.get_raw(jobs.path(job.namespace, job.name)))
        if whole["metadata"]["uid"] != job.uid:
            return None
        templates = waiting.adapter.full_templates(whole)
        keys = {}
        for name, part in parts.items():
            if name not in templates:
                continue
            template = take_off_body(templates[name], part.added)
            dry_run = build_dry_run(template, part.stamp, kind.as_controller(job), job.namespace)
            with self._lock:
                is_known = dry_run.key in self._known
            if not is_known:
                self._remember(dry_run, self._send(dry_run))
            keys[name] = dry_run.key
        return keys

    def _remember(self, dry_run: DryRun, result: PreviewResult) -> None:
        now, size = self._clock.monotonic(), _size_of(dry_run, result)
        with self._lock:
            self._make_room(size)
            known = _Known(dry_run, result, size, due=0.0, used=now)
            self._known[dry_run.key] = known
            self._set_due(known, now)

    def _make_room(self, size: int) -> None:
        """Forget the results that were used longest ago, until there is room for one more."""
        total = sum(each.size for each in self._known.values())
        for least in sorted(self._known.values(), key=lambda each: each.used):
            if len(self._known) < MAX_RESULTS and total + size <= MAX_RESULT_BYTES:
                return
            del self._known[least.dry_run.key]
            total -= least.size

    def _renew(self, known: _Known, now: float) -> None:
        """Repeat a dry run; report if its result has changed."""
        if now - known.used > IDLE_SECONDS:
            with self._lock:
                self._known.pop(known.dry_run.key, None)
            return
        with self._lock:
            known.due = now + FAILURE_BACKOFF.seconds(known.failures)
        try:
            result = self._send(known.dry_run)
        except ApiFailure as failure:
            known.failures += 1
            self._warn_no_response(known.dry_run.namespace, failure)
            return
        size = _size_of(known.dry_run, result)
        with self._lock:
            is_news = result != known.result
            if is_news:
                known.result, known.size, known.failures = result, size, 0
            self._set_due(known, self._clock.monotonic())
        if is_news:
            self._on_changed(known.dry_run.namespace)

    def _set_due(self, known: _Known, now: float) -> None:
        if known.result.spec is not None:
            known.failures, known.due = 0, now + self._repeat_seconds
            return
        known.due = now + min(REFUSAL_BACKOFF.seconds(known.failures), self._repeat_seconds)
        known.failures += 1

    def _send(self, dry_run: DryRun) -> PreviewResult:
        """Return the result of one dry run.

        Raises:
            ApiFailure: The response says nothing about the pod, or there is none.
        """
        try:
            pod = self._client.create(PREVIEWS, dry_run.namespace, dry_run.body, dry_run=True)
        except ApiError as refusal:
            result = read_error(refusal.status, refusal.message, dry_run)
            if result is None:
                raise
            return result
        return read_response(pod, dry_run)

    def _warn_no_response(self, namespace: str, failure: ApiFailure) -> None:
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + REMIND_SECONDS
            log.warning("no answer to a preview", namespace=namespace, error=str(failure))


def _size_of(dry_run: DryRun, result: PreviewResult) -> int:
    return memory_of(dry_run) + memory_of(result)


def _parts_of(adapter: GenericJob[Any], job: JobFacts, quota: str) -> dict[str, _Part]:
    """Return the parts of a job that are previewed, by pod set; empty if none are."""
    previewable = [each for each in job.pod_sets if can_be_previewed(each)]
    if not isinstance(adapter, GivesFullTemplates) or not previewable:
        return {}
    if job.unknown_demand or not has_pods_to_come(job):
        return {}
    name, _ = choose_unit_name(job, is_taken=False)
    stamps = build_stamps_of(job, f"{job.metadata.namespace}/{name}", quota)
    return {
        each.name: _Part(fingerprint_of(each, stamps[each.name]), stamps[each.name], each.added)
        for each in previewable
    }
