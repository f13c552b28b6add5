"""What `koord-queue submit` does when it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from koord_queue.acts.manifest import Draft, Wishes, placed, read_drafts
from koord_queue.answers.decoding import decode
from koord_queue.answers.tried import Tried
from koord_queue.cli.targets import FIELD_MANAGER
from koord_queue.cli.try_run import read_file
from koord_queue.cli.waiting import Job, Waiting
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.dry_run import DryRuns, read_manifest
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.resources import Resource, Resources
from koord_queue.session.session import Session
from koord_queue.show.forecasts import Wall
from koord_queue.show.paragraphs import write_lines
from koord_queue.show.printer import printable
from koord_queue.show.tried import tried_lines
from shared_api.durations import DurationError, parse_seconds

Json = dict[str, Any]


def run(
    session: Session,
    *,
    filename: str,
    queue: str,
    quota: str,
    priority: int | None,
    wait: bool,
    timeout: str | None,
    dry_run: bool,
) -> None:
    """Create objects, and follow jobs; the arguments are the options of the command."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait.")
    seconds = None if timeout is None else _seconds(timeout)
    drafts = read_drafts(read_manifest(read_file(filename)), Wishes(queue, quota, priority))
    submission = _Submission(session, drafts)
    answers = submission.send(dry_run=True)
    if dry_run:
        submission.print_try_out(answers)
        return
    created = submission.send(dry_run=False)
    if wait:
        jobs = [Job.of(resource, answer) for (resource, _), answer in created]
        click.get_current_context().exit(Waiting(session, jobs).follow(seconds))


class _Submission:
    """The objects of one manifest, and where they are created."""

    def __init__(self, session: Session, drafts: Sequence[Draft]) -> None:
        self._session = session
        self._cluster = session.cluster()
        self._dry_runs = DryRuns(self._cluster)
        resources = Resources(self._cluster)
        asked = session.choice.namespace is not None
        self._objects: list[tuple[Draft, Resource, Json]] = []
        for draft in drafts:
            resource = resources.find(draft.api_version, draft.kind)
            body = draft.body
            if resource.is_namespaced:
                body = placed(draft, session.namespace, is_asked=asked)
            self._objects.append((draft, resource, body))

    def send(self, *, dry_run: bool) -> list[tuple[tuple[Resource, Json], bytes]]:
        """Create the objects, or find out whether they can be; return them with their answers.

        Raises:
            CommandError: One is refused; the message says which, and what was created before it.
        """
        sent: list[tuple[tuple[Resource, Json], bytes]] = []
        query = (("fieldManager", FIELD_MANAGER), *((("dryRun", "All"),) if dry_run else ()))
        for draft, resource, body in self._objects:
            path = resource.path(body["metadata"].get("namespace", ""))
            if dry_run and (why := self._dry_runs.why_not(resource)):
                self._session.out.note(f"{draft.kind} {body['metadata'].get('name', '')}: {why}")
                sent.append(((resource, body), msgspec.json.encode(body)))
                continue
            try:
                answer = self._cluster.send("POST", path, msgspec.json.encode(body), query=query)
            except CommandError as error:
                raise _refusal(draft, error, len(sent), dry_run=dry_run) from error
            sent.append(((resource, body), answer))
            if not dry_run:
                self._print_object(resource, draft, answer, "created")
        return sent

    def print_try_out(self, sent: list[tuple[tuple[Resource, Json], bytes]]) -> None:
        """Show what would become of the objects as the API server would have them."""
        for (draft, resource, _), (_, answer) in zip(self._objects, sent, strict=True):
            self._print_object(resource, draft, answer, "created (dry run)")
        items = [msgspec.Raw(answer) for _, answer in sent]
        manifest = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
        out = self._session.out
        try:
            question = questions.try_(
                manifest, self._session.namespace, is_json=True, defaulted=True
            )
            tried = self._session.sources().answer(question)
        except (NotServed, Refused) as error:
            text = f"what would become of them is not known: {error.message}"
            out.note(f"{text}. {error.next_step}".rstrip())
            return
        write_lines(out, tried_lines(decode(tried, Tried), Wall(self._session.clock.now())))

    def _print_object(self, resource: Resource, draft: Draft, answer: bytes, text: str) -> None:
        name = msgspec.json.decode(answer, type=_Named).metadata.name
        self._session.out.line(printable(f"{resource.shown(draft.kind, name)} {text}"))
        self._session.out.flush()


class _Named(msgspec.Struct):
    class Meta(msgspec.Struct):
        name: str = ""

    metadata: Meta = msgspec.field(default_factory=Meta)


def _refusal(draft: Draft, error: CommandError, created: int, *, dry_run: bool) -> CommandError:
    step = error.next_step
    if dry_run:
        step = f"Nothing was created. {step}".rstrip()
    elif created:
        step = f"The {created} objects before it are created. {step}".rstrip()
    which = f"{draft.place} ({draft.kind} {draft.name})"
    return CommandError(f"{which}: {error.message}", step, error.exit_code)


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except DurationError as error:
        raise click.UsageError(f"--timeout: {error}.") from error
