"""Previews of the pods of jobs, as the API server would create them (opt-in).

A reconcile never waits for the API server: what is known is taken from memory, what is not is asked
for on a thread of its own (`step`), and the job is held until there is an answer. After some
seconds without one the watched objects count (`pod_admission`), and the unit says so.

    reconcile ──► wish ──► step: read the whole job ──► a question per distinct template ──► answer
                           step: a known answer is renewed at its time ──────────────────► changed?

Jobs in memory have no whole templates, and a pod with half of its fields would be refused for what
is missing (Pod Security wants security contexts). So the job is read, once per job and template.

What changes the answers (webhooks, policies, LimitRanges, profiles) is watched: then everything is
asked again, twice, since an API server itself applies a change a moment later. And every ten
minutes, for what is behind a webhook and in no object. Until the new answer arrives the old one
counts.
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
    NO_ANSWER,
    PodAnswer,
    Question,
    admit_by_answers,
    answer_of,
    answer_of_refusal,
    can_be_asked,
    mark_of,
    question_of,
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
from queue_controllers.watches.owner_lookup import Remembered
from shared_api.backoff import Backoff
from shared_api.client.errors import ApiError, ApiFailure, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.process.clock import Clock

ASK_AGAIN_SECONDS: Final = 600.0
"""How often everything is asked again without a change: a webhook may have rules of its own."""

NEW_JOB_SECONDS: Final = 5.0
"""How long a job without a unit waits for an answer."""

KNOWN_JOB_SECONDS: Final = 30.0
"""The same for one with a unit, which has an earlier answer in it: after a restart all are asked
about at once."""

SETTLED_SECONDS: Final = (1.0, 10.0)
"""When everything is asked again after a change: API servers apply policies within a second or so;
one that they have just compiled, or behind a slow etcd, within some more."""

FAILURE_BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=60.0)
"""Between tries of a question that is not answered."""

REFUSAL_BACKOFF: Final = Backoff(base_seconds=2.0, cap_seconds=ASK_AGAIN_SECONDS)
"""Between questions about a pod that was refused, or of which nothing can be said now."""

IDLE_SECONDS: Final = 3600.0
"""After so long without a reconcile of any of its jobs an answer is forgotten, not renewed: a job
is reconciled before its release in any case."""

MAX_ANSWERS: Final = 5_000
"""Distinct templates that are remembered, with the pod that is asked for: some kB each. Renewing
them takes 8 requests per second."""

MAX_WISHES: Final = 10_000
"""Jobs that wait for answers; for further ones the watched objects count."""

REMIND_SECONDS: Final = 60.0
"""How often the log says that there is no answer."""

PREVIEWS: Final = ResourceType("", "v1", "pods", "Pod", namespaced=True, object_type=ScheduledPod)

_UNANSWERED: Final = PodAnswer(note=NO_ANSWER)

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
    """What is to be asked of one pod set."""

    mark: str
    stamp: PodStamp
    added: AddedParts


class _Wish(msgspec.Struct):
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
    """A question, and the last answer to it."""

    question: Question
    answer: PodAnswer
    due: float
    used: float
    failures: int = 0
    """In a row: not answered, refused, or nothing could be said."""


class PodPreviews:
    """Previews of jobs' pods; a `JobPreviews` of the reconcilers.

    Called on all of their threads; `step` is called on one.

    Args:
        client: The way to the API server.
        clock: When to ask again.
        on_changed: Called with the namespace in which an answer has changed.
        ask_again_seconds: How often everything is asked again.
    """

    def __init__(
        self,
        client: PreviewClient,
        clock: Clock,
        *,
        on_changed: Callable[[str], None],
        ask_again_seconds: float = ASK_AGAIN_SECONDS,
    ) -> None:
        self._client = client
        self._clock = clock
        self._on_changed = on_changed
        self._ask_again_seconds = ask_again_seconds
        self.wake: Callable[[], None] = lambda: None
        # Guards the fields below; no request is sent while it is held.
        self._lock = threading.Lock()
        self._wishes: dict[Uid, _Wish] = {}
        self._known: dict[str, _Known] = {}
        self._rounds: dict[str, tuple[float, ...]] = {}
        self._keys: Remembered[tuple[Uid, str], str] = Remembered()
        self._told_until = 0.0

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
            answers = self._answers_to(job.uid, parts, now)
            wish = None
            if missing := {name: part for name, part in parts.items() if name not in answers}:
                wish = self._wish(request, adapter, missing, now)
        if missing:
            self.wake()
            patience = KNOWN_JOB_SECONDS if request.has_unit else NEW_JOB_SECONDS
            if wish is not None and now - wish.since < patience:
                return msgspec.structs.replace(
                    apply_pod_admission(job, objects), unknown_demand=AWAITS_PREVIEW
                )
            answers |= dict.fromkeys(missing, _UNANSWERED)
        facts = admit_by_answers(job, objects, answers)
        return msgspec.structs.replace(facts, stamped_quota=quota)

    def recall(self, request: PreviewRequest) -> JobFacts:
        """Return the same by the existing answers; sends no request.

        Without an answer for a job, the watched objects count.
        """
        job, objects, now = request.job, request.context.admission, self._clock.monotonic()
        quota = quota_of_job(job, request.context)
        parts = _parts_of(request.adapter, job, quota)
        with self._lock:
            answers = self._answers_to(job.uid, parts, now)
            wish = self._wishes.get(job.uid)
            since = None if wish is None else wish.since
        is_complete = len(answers) == len(parts)
        if not parts or (since is None and not is_complete):
            return apply_pod_admission(job, objects)
        patience = KNOWN_JOB_SECONDS if request.has_unit else NEW_JOB_SECONDS
        if since is not None and not is_complete and now - since < patience:
            return msgspec.structs.replace(
                apply_pod_admission(job, objects), unknown_demand=AWAITS_PREVIEW
            )
        answers = {name: answers.get(name, _UNANSWERED) for name in parts}
        facts = admit_by_answers(job, objects, answers)
        return msgspec.structs.replace(facts, stamped_quota=quota)

    def _answers_to(self, uid: Uid, parts: Mapping[str, _Part], now: float) -> dict[str, PodAnswer]:
        answers = {}
        for name, part in parts.items():
            key = self._keys.get((uid, part.mark))
            known = None if key is None else self._known.get(key)
            if known is not None:
                known.used = now
                answers[name] = known.answer
        return answers

    def _wish(
        self,
        request: PreviewRequest,
        adapter: GivesFullTemplates,
        parts: dict[str, _Part],
        now: float,
    ) -> _Wish | None:
        """Return what is to be asked about a job; None if too many wait."""
        job, wake = request.job, request.wake
        wish = self._wishes.get(job.uid)
        if wish is None:
            if len(self._wishes) >= MAX_WISHES:
                return None
            wish = _Wish(job.kind, adapter, job.metadata, parts, wake, since=now, due=now)
            self._wishes[job.uid] = wish
        elif wish.parts != parts:
            wish.parts, wish.job, wish.since, wish.due = parts, job.metadata, now, now
        return wish

    def ask_anew(self, namespace: str) -> None:
        """Ask again in a namespace, "" for all, whose previews may have changed."""
        now = self._clock.monotonic()
        with self._lock:
            rounds = self._rounds.get(namespace, ())
            # One that is due soon is not delayed by further changes.
            first = min([*rounds[:1], now + SETTLED_SECONDS[0]])
            self._rounds[namespace] = (first, now + SETTLED_SECONDS[-1])
        self.wake()

    # --- the thread -----------------------------------------------------------------------------

    def step(self) -> float | None:
        """Ask one question, of a waiting job first; return when the next is due."""
        now = self._clock.monotonic()
        with self._lock:
            self._begin_rounds(now)
            wish = min(self._wishes.values(), key=lambda each: each.due, default=None)
            known = min(self._known.values(), key=lambda each: each.due, default=None)
            rests = [at for rounds in self._rounds.values() for at in rounds[:1]]
        if wish is not None and wish.due <= now:
            self._fulfil(wish)
            return 0.0
        if known is not None and known.due <= now:
            self._renew(known, now)
            return 0.0
        rests += [each.due for each in (wish, known) if each is not None]
        return max(min(rests) - now, 0.01) if rests else None

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
                if namespace in {"", known.question.namespace}:
                    known.due = now

    def _fulfil(self, wish: _Wish) -> None:
        """Ask what is to be known about a job, and wake it."""
        with self._lock:
            parts = dict(wish.parts)
            wish.due = self._clock.monotonic() + FAILURE_BACKOFF.seconds(wish.failures)
            wish.failures += 1
        try:
            keys = self._ask_about(wish, parts)
        except NotFound:
            keys = None
        except ApiFailure as failure:
            self._note_silence(wish.job.namespace, failure)
            return
        with self._lock:
            for name, key in (keys or {}).items():
                self._keys.put((wish.job.uid, parts[name].mark), key)
            # Keep waiting for what the job has asked since, or has no template for.
            if keys is None or (wish.parts == parts and keys.keys() == parts.keys()):
                self._wishes.pop(wish.job.uid, None)
        wish.wake(wish.job.key)

    def _ask_about(self, wish: _Wish, parts: Mapping[str, _Part]) -> dict[str, str] | None:
        """Return the keys of the questions about a job, by pod set; None if it is gone.

        Each is answered.

        Raises:
            ApiFailure: The server has not answered.
        """
        kind, job = wish.kind, wish.job
        jobs = ResourceType(
            kind.group, kind.version, kind.plural, kind.kind, namespaced=True, object_type=object
        )
        whole = msgspec.json.decode(self._client.get_raw(jobs.path(job.namespace, job.name)))
        if whole["metadata"]["uid"] != job.uid:
            return None
        templates = wish.adapter.full_templates(whole)
        keys = {}
        for name, part in parts.items():
            if name not in templates:
                continue
            template = take_off_body(templates[name], part.added)
            question = question_of(template, part.stamp, kind.as_controller(job), job.namespace)
            with self._lock:
                is_known = question.key in self._known
            if not is_known:
                self._learn(question, self._ask(question))
            keys[name] = question.key
        return keys

    def _learn(self, question: Question, answer: PodAnswer) -> None:
        now = self._clock.monotonic()
        with self._lock:
            if len(self._known) >= MAX_ANSWERS:
                least = min(self._known.values(), key=lambda each: each.used)
                del self._known[least.question.key]
            known = _Known(question, answer, due=0.0, used=now)
            self._known[question.key] = known
            self._set_due(known, now)

    def _renew(self, known: _Known, now: float) -> None:
        """Ask a question again; report it if its answer has changed."""
        if now - known.used > IDLE_SECONDS:
            with self._lock:
                self._known.pop(known.question.key, None)
            return
        with self._lock:
            known.due = now + FAILURE_BACKOFF.seconds(known.failures)
        try:
            answer = self._ask(known.question)
        except ApiFailure as failure:
            known.failures += 1
            self._note_silence(known.question.namespace, failure)
            return
        with self._lock:
            is_news = answer != known.answer
            if is_news:
                known.answer, known.failures = answer, 0
            self._set_due(known, self._clock.monotonic())
        if is_news:
            self._on_changed(known.question.namespace)

    def _set_due(self, known: _Known, now: float) -> None:
        if known.answer.spec is not None:
            known.failures, known.due = 0, now + self._ask_again_seconds
            return
        known.due = now + min(REFUSAL_BACKOFF.seconds(known.failures), self._ask_again_seconds)
        known.failures += 1

    def _ask(self, question: Question) -> PodAnswer:
        """Return the answer to one question.

        Raises:
            ApiFailure: There is none.
        """
        try:
            pod = self._client.create(PREVIEWS, question.namespace, question.body, dry_run=True)
        except ApiError as refusal:
            answer = answer_of_refusal(refusal.status, refusal.message, question)
            if answer is None:
                raise
            return answer
        return answer_of(pod, question)

    def _note_silence(self, namespace: str, failure: ApiFailure) -> None:
        now = self._clock.monotonic()
        if now >= self._told_until:
            self._told_until = now + REMIND_SECONDS
            log.warning("no answer to a preview", namespace=namespace, error=str(failure))


def _parts_of(adapter: GenericJob[Any], job: JobFacts, quota: str) -> dict[str, _Part]:
    """Return what is asked about a job, by pod set; empty if nothing is."""
    askable = [each for each in job.pod_sets if can_be_asked(each)]
    if not isinstance(adapter, GivesFullTemplates) or not askable:
        return {}
    if job.unknown_demand or not has_pods_to_come(job):
        return {}
    name, _ = choose_unit_name(job, is_taken=False)
    stamps = build_stamps_of(job, f"{job.metadata.namespace}/{name}", quota)
    return {
        each.name: _Part(mark_of(each, stamps[each.name]), stamps[each.name], each.added)
        for each in askable
    }
