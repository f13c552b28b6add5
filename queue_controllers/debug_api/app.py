"""The routes of the controllers' debug API: GET only, from caches, and nothing is a coroutine.

| path | answer |
|---|---|
| / | all paths |
| /debug/jobs/{namespace}/{kind}/{name} | one job: whether it is managed, and why or why not |
| /openapi.json | the contract |

A token with the right to `get` a job may read the answer about it. If the kind is unknown or
ambiguous, the answer is a 404, which any valid token may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Request

from queue_controllers.debug_api.explanation import Explanation, JobStanding, explain_job
from queue_controllers.debug_api.kind_names import find_kinds, resource_name
from queue_controllers.debug_api.views import JobAnswer, view_job
from queue_controllers.decision.owners import NotReadError
from queue_controllers.extension_server import ExtensionServer
from queue_controllers.jobframework.generic_job import JobFacts, JobKind
from queue_controllers.reconcile.job_reader import Lookups, find_units
from shared_api.authorization.rights import ResourceRight, Right, TokenOnly
from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_types import PODS
from shared_api.debug_api.access import right_on_path
from shared_api.debug_api.debug_app import build_debug_app, problems
from shared_api.debug_api.router_group import Guard
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.objects.queue_unit import QueueUnit
from shared_api.question_errors import Code, QuestionError

TITLE: Final = "Koord-Queue controllers' debug API"

Name = Annotated[str, Path(max_length=SUBDOMAIN_LENGTH)]
KindName = Annotated[
    str,
    Path(
        max_length=2 * SUBDOMAIN_LENGTH,
        description="`Job`, `jobs`, `jobs.batch`, or the key of an extension",
    ),
]


class JobDebugApi:
    """The sources of the routes' answers.

    Args:
        servers: The servers of the enabled kinds.
        known: All kinds that have an adapter, enabled or not.
        units: All units.
        lookups: What this process has read of other objects; an answer causes no reads.
        is_leader: Whether this replica decides.
    """

    def __init__(
        self,
        servers: Sequence[ExtensionServer[Any]],
        known: Iterable[JobKind],
        *,
        units: IndexedStore[QueueUnit],
        lookups: Lookups,
        is_leader: Callable[[], bool],
    ) -> None:
        self._servers = {each.name: each for each in servers}
        others = (each for each in known if each.key not in self._servers)
        self._kinds = [*(each.adapter.kind for each in servers), *others]
        self._units = units
        self._lookups = lookups
        self._is_leader = is_leader

    def right_of(self, request: Request) -> Right:
        """Return the right that a request needs: to get its job, or its path if it names no job."""
        params = request.path_params
        if not {"namespace", "kind", "name"} <= params.keys():
            return right_on_path(request)
        found = find_kinds(params["kind"], self._kinds)
        if len({resource_name(each) for each in found}) != 1:
            return TokenOnly()
        kind, namespace = found[0], params["namespace"]
        if not kind.has_object:  # made of pods, and named by them
            return ResourceRight(verb="get", group="", resource=PODS.plural, namespace=namespace)
        return ResourceRight(
            verb="get",
            group=kind.group,
            resource=kind.plural,
            namespace=namespace,
            name=params["name"],
        )

    def job(self, namespace: Name, kind: KindName, name: Name) -> JobAnswer:
        """One job: whether it is managed, why or why not, and what is wrong with it."""
        found, key = self._kind_of(kind), f"{namespace}/{name}"
        server = self._servers.get(found.key)
        if server is None:
            return self._answer(found, key, _not_enabled(found))
        is_complete, detail = server.watch.check()
        if not is_complete:
            raise _not_now(f"{detail}: ask again in a moment")
        if not server.watch.is_served():
            return self._answer(found, key, _not_served(detail))
        if (failure := _undecodable(server, key)) is not None:
            unit = find_units(self._units, found, key, failure.uid).own
            return self._answer(found, key, _unreadable(failure), unit=unit)
        return self._explain(server, key)

    def _explain(self, server: ExtensionServer[Any], key: str) -> JobAnswer:
        kind = server.adapter.kind
        try:
            view = server.reconciler.view_of(key, self._lookups)
        except NotReadError as error:
            leads = self._is_leader()
            why = "has not read that yet" if leads else "does not lead, and reads none"
            way = "ask again in a moment" if leads else "ask the replica that leads"
            detail = f"the answer depends on {error}, and this replica {why}: {way}"
            raise _not_now(detail) from error
        if view is None or view.job is None:
            raise QuestionError(Code.NOT_FOUND, _not_there(kind, key))
        explanation = explain_job(view, view.job)
        return self._answer(kind, key, explanation, job=view.job, unit=view.unit)

    def _kind_of(self, word: str) -> JobKind:
        """Return the kind that a word names; of several versions, the one that is served.

        Raises:
            QuestionError: NOT_FOUND: it names no kind, or several.
        """
        found = find_kinds(word, self._kinds)
        names = sorted({resource_name(each) for each in found})
        if len(names) == 1:
            enabled = [each for each in found if each.key in self._servers]
            served = (each for each in enabled if self._servers[each.key].watch.is_served())
            return next(served, (enabled or found)[0])
        if names:
            detail = f"{word!r} is the name of several kinds: ask for {' or '.join(names)}"
        else:
            known = ", ".join(sorted({resource_name(each) for each in self._kinds}))
            detail = f"no kind of job is named {word!r} here; there are: {known}"
        raise QuestionError(Code.NOT_FOUND, detail)

    def _answer(
        self,
        kind: JobKind,
        key: str,
        explanation: Explanation,
        *,
        job: JobFacts | None = None,
        unit: QueueUnit | None = None,
    ) -> JobAnswer:
        is_leader = self._is_leader()
        return view_job(kind, key, explanation, leader=is_leader, job=job, unit=unit)


def build_app(api: JobDebugApi, access: Guard, version: str) -> FastAPI:
    """Return the application; every route checks `access` first, `/openapi.json` too."""
    app = build_debug_app(TITLE, version, access)
    app.get("/debug/jobs/{namespace}/{kind}/{name}", responses=problems(404))(api.job)
    return app


def _undecodable(server: ExtensionServer[Any], key: str) -> DecodeFailure | None:
    """Return why a job cannot be decoded; None if it can, or does not exist."""
    informer, kind = server.watch.informer, server.adapter.kind
    if informer is None or (kind.held_by_gates and kind.plural != PODS.plural):
        return None
    return informer.undecodable().get(key)


def _not_enabled(kind: JobKind) -> Explanation:
    message = (
        f"No job of its kind is managed: extension {kind.key} ({kind.kind}, {kind.api_version}) is"
        " not enabled, so such jobs run at once. Have it added to --enabled-extensions (the chart's"
        " value extension)"
    )
    return Explanation(managed=False, reason=JobStanding.KIND_NOT_ENABLED, message=message)


def _not_served(detail: str) -> Explanation:
    message = f"No job of its kind is managed now: {detail}"
    return Explanation(managed=False, reason=JobStanding.KIND_NOT_SERVED, message=message)


def _unreadable(failure: DecodeFailure) -> Explanation:
    message = (
        "It cannot be read, and nothing is done about it until it can:"
        f" {failure.error}. Correct what that names"
    )
    return Explanation(managed=False, reason=JobStanding.UNREADABLE, message=message)


def _not_there(kind: JobKind, key: str) -> str:
    namespace, _, name = key.partition("/")
    if kind.held_by_gates:
        return (
            f"no pods of {resource_name(kind)} {name!r} in namespace {namespace!r} wait at the"
            " queue's gate, or name its queue: others are not the queue's"
        )
    return (
        f"there is no {kind.kind} {name!r} in namespace {namespace!r} (of {kind.api_version}): see"
        f" kubectl get {resource_name(kind)} --namespace {namespace}"
    )


def _not_now(detail: str) -> QuestionError:
    return QuestionError(Code.UNAVAILABLE, detail)
