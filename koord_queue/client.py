"""A client for programs: what the commands do, with answers as values. It has no async form.

A `Client` asks the cluster of the kubeconfig, or a debug API; `replay` needs no cluster. Both raise
`CommandError`, whose `next_step` says what can be done about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from koord_queue.acts.change import AnyObject
from koord_queue.acts.following import (
    ENDED,
    JobObject,
    Progress,
    State,
    is_unit_of,
    own_end,
    progress,
    progress_without_unit,
)
from koord_queue.acts.manifest import Wishes, placed, read_drafts
from koord_queue.answers.decoding import decode
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast, QueueForecast
from koord_queue.answers.pending import Pending
from koord_queue.answers.tried import Tried
from koord_queue.answers.what_if import WhatIf
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.choice import SYSTEM_NAMESPACE, Choice
from koord_queue.reach.dry_run import DryRuns, apply_dry, read_manifest
from koord_queue.reach.errors import Missing
from koord_queue.reach.named import queue_name
from koord_queue.reach.resources import QUEUE_UNITS, ItemList, Resource, Resources
from koord_queue.session import edit_flags
from koord_queue.session.answer_context import AnswerContext, open_context
from koord_queue.session.session import Session
from shared_api.durations import DurationError, parse_seconds
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

AnswerT = TypeVar("AnswerT")
Json = dict[str, Any]
Manifest = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A path, the text of YAML or JSON, or objects. A text with a line break or a brace is no path."""

FIELD_MANAGER: Final = "koord-queue-client"
POLL_SECONDS: Final = 1.0
"""Between two looks at a job that is followed."""

__all__ = [
    "Client",
    "CommandError",
    "FollowTimeout",
    "Manifest",
    "Progress",
    "State",
    "Submitted",
]


class FollowTimeout(CommandError):
    """A job that is followed has not ended in time; it goes on."""


class Client:
    """Asks the queue of a cluster; a context manager, which closes its connections.

    Args:
        namespace: The namespace for names that have none; default: the context's.
        context: The context of the kubeconfig.
        kubeconfig: The file; default: as kubectl.
        server: Ask the debug API at this URL for answers, instead of the cluster's APIs; default:
            the variable KOORD_QUEUE_SERVER, if it is set.
        token_file: A bearer token for `server`.
        ca_file: Authorities of the certificate of `server`.
        system_namespace: Where Koord-Queue is installed; default: the variable
            KOORD_QUEUE_NAMESPACE, or koord-queue.
        dump: Ask this dump, at its time, not a cluster.
    """

    def __init__(  # noqa: PLR0913 - the options that all commands have, by their names
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
        server: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        system_namespace: str | None = None,
        dump: str | None = None,
    ) -> None:
        choice = Choice(
            namespace=namespace,
            context=context,
            kubeconfig=kubeconfig,
            server=server or os.environ.get("KOORD_QUEUE_SERVER") or None,
            token_file=token_file,
            ca_file=ca_file,
            system_namespace=system_namespace
            or os.environ.get("KOORD_QUEUE_NAMESPACE")
            or SYSTEM_NAMESPACE,
        )
        self._session = Session(choice)
        self._dump = dump
        self._known: AnswerContext | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close connections."""
        self.close()

    def close(self) -> None:
        """Close connections, and end a port-forward."""
        self._session.close()

    # --- questions ----------------------------------------------------------------------------

    def explain(self, unit: str, *, changes: bool = False) -> Explanation:
        """Return why a job waits, or what it was admitted on.

        Args:
            unit: `job/train`, or the name of a queue unit.
            changes: Also the smallest changes that would start it.

        Raises:
            CommandError: There is no such unit, or no server answers.
        """
        context = self._context
        question = questions.explain(*context.find(unit), changes=changes)
        return decode(context.source.answer(question), Explanation)

    def forecast(self, unit: str) -> Forecast:
        """Return when a job starts and ends, by the last forecast.

        Raises:
            CommandError: It does not wait, or no server answers.
        """
        context = self._context
        question = questions.forecast(*context.find(unit))
        return decode(context.source.answer(question), Forecast)

    def queue_forecast(self, queue: str) -> QueueForecast:
        """Return when the jobs of a queue start. Raises as `forecast`."""
        question = questions.queue_forecast(queue_name(queue))
        return decode(self._context.source.answer(question), QueueForecast)

    def pending(self, *, queue: str | None = None, everywhere: bool = False) -> list[Pending]:
        """Return the units that wait: those of the namespace, or `everywhere`.

        Args:
            queue: Only those of this queue.
            everywhere: Whether units of all namespaces that may be read are listed.

        Raises:
            CommandError: No server answers.
        """
        context = self._context
        namespace = None if everywhere else context.namespace()
        return context.source.answer(questions.pending(namespace, queue))

    def try_(self, manifest: Manifest, *, changes: bool = False) -> Tried:
        """Return what would become of jobs that are submitted now. Nothing is created.

        Raises:
            CommandError: The manifest cannot be read, the API server refuses an object of it, or
                no server answers.
        """
        context, text = self._context, _manifest_text(manifest)
        namespace = context.namespace()
        if self._dump is None:
            text = apply_dry(self._session.cluster(), text, namespace)
        question = questions.try_(
            text, namespace, is_json=True, changes=changes, defaulted=self._dump is None
        )
        return decode(context.source.answer(question), Tried)

    def what_if(
        self,
        *,
        quotas: Sequence[str] = (),
        queues: Sequence[str] = (),
        nodes: Sequence[str] = (),
        ended: Sequence[str] = (),
        edits: Sequence[Mapping[str, Any]] = (),
        horizon: float | str | None = None,
        seed: int | None = None,
    ) -> WhatIf:
        """Return what edits would change, all made together. Nothing is changed.

        Args:
            quotas: As `--quota` of the command: `team-a.max.cpu=+40`.
            queues: As `--queue`: `team-a.policy=FIFO`.
            nodes: As `--node`: `gpu-1.copies=2`.
            ended: Jobs or units that are taken to end now.
            edits: Further edits, as docs/what-if.md has them.
            horizon: Also what changes until then: seconds, or `6h`.
            seed: The seed of what is drawn for that.

        Raises:
            CommandError: An edit cannot be read, or no server answers.
        """
        context = self._context
        found = [*map(dict, edits), *map(edit_flags.queue_edit, queues)]
        found += map(edit_flags.node_edit, nodes)
        for named in ended:
            namespace, name = context.find(named)
            found.append({"kind": "QueueUnit", "namespace": namespace, "name": name, "end": True})
        if quotas:
            flags = [edit_flags.read_quota_flag(each) for each in quotas]
            found += edit_flags.quota_edits(flags, context.quotas())
        question: Json = {"edits": found}
        if horizon is not None:
            question["horizonSeconds"] = _seconds(horizon)
        if seed is not None:
            question["seed"] = seed
        what_if = questions.what_if(msgspec.json.encode(question))
        return decode(context.source.answer(what_if), WhatIf)

    # --- jobs ---------------------------------------------------------------------------------

    def submit(
        self,
        manifest: Manifest,
        *,
        queue: str = "",
        quota: str = "",
        priority: int | None = None,
    ) -> list[Submitted]:
        """Create the objects of a manifest, once all have passed the server's dry run.

        Args:
            manifest: A path, a text, or objects.
            queue: The queue of its jobs; "": as the manifest says, like the next ones.
            quota: The quota of its jobs.
            priority: The priority of its jobs.

        Returns:
            Its jobs, in order; if it has none, its objects.

        Raises:
            CommandError: It cannot be read, or the server refuses an object; `next_step` says
                whether something was created.
        """
        cluster = self._session.cluster()
        resources = Resources(cluster)
        drafts = read_drafts(
            read_manifest(_manifest_text(manifest)), Wishes(queue, quota, priority)
        )
        asked = self._session.choice.namespace is not None
        placed_objects: list[tuple[Resource, Json]] = []
        for draft in drafts:
            resource = resources.find(draft.api_version, draft.kind)
            body = draft.body
            if resource.is_namespaced:
                body = placed(draft, self._session.namespace, is_asked=asked)
            placed_objects.append((resource, body))
        self._create(placed_objects, dry_run=True)
        created = self._create(placed_objects, dry_run=False)
        jobs = [each for each in created if each.kind in KNOWN_JOB_KINDS]
        return jobs or created

    def job(self, kind: str, name: str, *, api_version: str = "batch/v1") -> Submitted:
        """Return a job that exists, to follow it.

        Raises:
            CommandError: There is none.
        """
        cluster = self._session.cluster()
        resource = Resources(cluster).find(api_version, kind)
        body = cluster.get(resource.path(self._session.namespace, name))
        return Submitted(self._session, resource, _read_created(body, api_version, kind))

    def _create(
        self, objects: Sequence[tuple[Resource, Json]], *, dry_run: bool
    ) -> list[Submitted]:
        created: list[Submitted] = []
        cluster = self._session.cluster()
        dry_runs = DryRuns(cluster)
        query = (("fieldManager", FIELD_MANAGER), *((("dryRun", "All"),) if dry_run else ()))
        for resource, body in objects:
            if dry_run and dry_runs.why_not(resource):
                continue
            path = resource.path(body["metadata"].get("namespace", ""))
            try:
                answer = cluster.send("POST", path, msgspec.json.encode(body), query=query)
            except CommandError as error:
                count = 0 if dry_run else len(created)
                so_far = f"{count} objects before it are created." if count else "Nothing was."
                step = f"{error.next_step} {so_far}".strip()
                raise CommandError(f"{body['kind']}: {error.message}", step) from error
            read = _read_created(answer, body["apiVersion"], body["kind"])
            created.append(Submitted(self._session, resource, read))
        return created

    @property
    def _context(self) -> AnswerContext:
        if self._known is None:
            self._known = open_context(self._session, self._dump)
        return self._known


class Submitted:
    """A job in the cluster.

    Attributes:
        kind, namespace, name, uid: Of the job.
    """

    def __init__(self, session: Session, resource: Resource, created: AnyObject) -> None:
        self._session = session
        self._resource = resource
        self._created = created
        self._unit_name = ""
        self.kind = created.kind
        self.namespace = created.metadata.namespace
        self.name = created.metadata.name
        self.uid = created.metadata.uid

    def __repr__(self) -> str:
        """Return it as kubectl prints it."""
        return f"<{self._resource.shown(self.kind, self.name)} in {self.namespace}>"

    @property
    def named(self) -> str:
        """The name by which a `Client` knows it: `job/train`."""
        return f"{self.kind.lower()}/{self.name}"

    def follow(self, timeout: float | None = None) -> Iterator[Progress]:
        """Yield what it does, whenever that changes, until it has ended.

        Args:
            timeout: Seconds; None: without limit.

        Raises:
            FollowTimeout: It has not ended in time.
            CommandError: The API server refuses or does not answer.
        """
        clock = self._session.clock
        begun = clock.monotonic()
        last: Progress | None = None
        while True:
            elapsed = clock.monotonic() - begun
            now = self._look(elapsed)
            if now != last:
                last = now
                yield now
            if now.state in ENDED:
                return
            if timeout is not None and elapsed >= timeout:
                raise FollowTimeout(
                    f"{self.named} has not ended within {timeout:g} s: it {now.text}",
                    "It goes on; follow it again, or ask why: explain.",
                )
            left = POLL_SECONDS if timeout is None else min(POLL_SECONDS, timeout - elapsed)
            clock.sleep(left)

    def wait(self, timeout: float | None = None) -> State:
        """Return how it has ended. Arguments and errors as those of `follow`."""
        state = State.NEW
        for each in self.follow(timeout):
            state = each.state
        return state

    def _look(self, elapsed: float) -> Progress:
        unit = self._find_unit()
        if unit is not None:
            return progress(unit)
        try:
            path = self._resource.path(self.namespace, self.name)
            body = self._session.cluster().get(path)
        except Missing:
            body = b""
        is_there = bool(body) and _uid_of(body) == self.uid
        return progress_without_unit(
            is_there=is_there,
            end=own_end(msgspec.json.decode(body, type=JobObject)) if is_there else None,
            had_unit=bool(self._unit_name),
            seconds=elapsed,
        )

    def _find_unit(self) -> QueueUnit | None:
        cluster = self._session.cluster()
        if self._unit_name:
            try:
                body = cluster.get(QUEUE_UNITS.path(self.namespace, self._unit_name))
            except Missing:
                return None
            return msgspec.json.decode(body, type=QueueUnit)
        for page in cluster.pages(QUEUE_UNITS.path(self.namespace)):
            for unit in msgspec.json.decode(page, type=ItemList[QueueUnit]).items:
                if is_unit_of(unit, self._created):
                    self._unit_name = unit.metadata.name
                    return unit
        return None


def _read_created(answer: bytes, api_version: str, kind: str) -> AnyObject:
    found = msgspec.json.decode(answer, type=AnyObject)
    return msgspec.structs.replace(found, api_version=api_version, kind=kind)


def _uid_of(body: bytes) -> str:
    return msgspec.json.decode(body, type=AnyObject).metadata.uid


def _manifest_text(manifest: Manifest) -> bytes:
    """Return a manifest as the text of JSON.

    Raises:
        CommandError: A file cannot be read, or it is neither YAML nor JSON.
    """
    if isinstance(manifest, Mapping):
        return msgspec.json.encode(manifest)
    if not isinstance(manifest, str | Path):
        return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(manifest)})
    text = manifest if isinstance(manifest, str) else ""
    if "\n" in text or "{" in text:
        content = text.encode()
    else:
        try:
            content = Path(manifest).read_bytes()
        except OSError as error:
            raise CommandError(f"{manifest}: {error.strerror or error}") from error
    items = read_manifest(content)
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})


def _seconds(horizon: float | str) -> float:
    try:
        return parse_seconds(horizon) if isinstance(horizon, str) else float(horizon)
    except DurationError as error:
        raise CommandError(f"horizon: {error}") from error
