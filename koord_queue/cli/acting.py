"""Carries out acts: reads, changes, looks whether it counts, and says how to undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import click
import msgspec

from koord_queue.acts.change import Already, Change, Json, On, Target
from koord_queue.acts.on_queues import set_stop_policy
from koord_queue.acts.on_units import hold, is_held, release
from koord_queue.answers.decoding import decode
from koord_queue.answers.what_if import WhatIf
from koord_queue.cli.targets import Place, Targets, UnitTarget
from koord_queue.errors import EXIT_FAILED, CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import Conflicting, Missing, Refused
from koord_queue.reach.named import queue_name
from koord_queue.session.session import Session
from koord_queue.show.paragraphs import write_lines
from koord_queue.show.patches import patch_lines
from koord_queue.show.printer import printable
from koord_queue.show.what_if import what_if_lines
from shared_api.objects.queue import Queue
from shared_api.queue_unit_phases import occupies_quota

UnitAct = Callable[[Target], Change | Already]

MAX_TRIES: Final = 5
"""Writes of one change while others write the same object: they rarely do twice in a row."""
SETTLE_SECONDS: Final = 10.0
"""How long the controllers may take to carry a change over; usually it takes tenths of a second."""
LOOK_SECONDS: Final = 0.2
"""Between two looks whether they have."""


class Acting:
    """One act on several targets.

    A target that cannot be changed is reported, and the others are changed all the same.
    """

    def __init__(self, session: Session, *, dry_run: bool) -> None:
        self._session = session
        self._dry_run = dry_run
        self.now = session.clock.now
        self._edits: list[Json] = []
        self._undo: dict[tuple[str, tuple[str, ...]], list[str]] = {}

    @cached_property
    def _targets(self) -> Targets:
        return Targets(self._session.cluster())  # not before the options are checked

    def on_units(self, names: Sequence[str], act: UnitAct) -> None:
        """Act on units, each named as `job/train` or by its own name.

        Raises:
            CommandError: One target alone cannot be changed.
            click.exceptions.Exit: One of several cannot.
        """
        self._for_all(names, lambda named: self._on_unit(named, act))

    def on_queues(self, names: Sequence[str], policy: str) -> None:
        """Give queues a stop policy. Raises as `on_units`."""
        self._for_all(names, lambda named: self._on_queue(named, policy))

    def read_queue(self, name: str) -> Queue | None:
        """Return the queue of a name; None if it may not be read.

        Raises:
            CommandError: There is none.
        """
        try:
            return self._targets.queue(self._session.choice.system_namespace, name).queue
        except Refused:
            return None

    # --- one target ---------------------------------------------------------------------------

    def _on_unit(self, named: str, act: UnitAct) -> None:
        namespace, name = self._session.unit(named)
        for _ in range(MAX_TRIES):
            found = self._targets.unit(namespace, name, named)
            change = act(found.target)
            if isinstance(change, Already):
                self._session.out.line(
                    printable(f"{(found.job or found.unit).shown} {change.outcome}")
                )
                return
            try:
                self._write(found.place(change.on), change)
            except Conflicting:
                continue
            if change.edit != {"patch": {}}:
                edit = {"kind": "QueueUnit", "namespace": namespace, "name": name}
                self._edits.append({**edit, **change.edit})
            self._finish(found, change, act)
            return
        raise CommandError(f"{named} keeps changing", "Try again.")

    def _on_queue(self, named: str, policy: str) -> None:
        name = queue_name(named)
        found = self._targets.queue(self._session.choice.system_namespace, name)
        change = set_stop_policy(found.queue, policy)
        if isinstance(change, Already):
            self._print_outcome(found.place.shown, change.outcome)
            return
        place = self._targets.quota(name) if change.on is On.QUOTA else found.place
        self._write(place, change)
        self._edits.append({"kind": "Queue", "name": name, **change.edit})
        self._print_change(place.shown, change)
        self._note(change)

    def _write(self, place: Place, change: Change) -> None:
        self._targets.write(place, change, dry_run=self._dry_run)

    def _finish(self, found: UnitTarget, change: Change, act: UnitAct) -> None:
        """Look whether a change counts, and say what has become of it."""
        place = found.place(change.on)
        late = "" if self._dry_run or change.counts is None else self._settle(found, change, act)
        self._print_change(place.shown, change)
        self._note(change)
        if late:
            self._session.out.note(late)

    def _settle(self, found: UnitTarget, change: Change, act: UnitAct) -> str:
        """Wait until a change of a job counts for its unit; return why it does not yet, or "".

        Raises:
            CommandError: The unit was to be put on hold, and started before that.
        """
        clock, unit, named = self._session.clock, found.unit, found.target.named
        until = clock.monotonic() + SETTLE_SECONDS
        assert change.counts is not None
        while True:
            try:
                now = self._targets.read_unit(unit.namespace, unit.name)
            except Missing:
                return f"{unit.shown} is gone"
            if act is hold and occupies_quota(now) and not is_held(now):
                self._take_back(found)
                raise CommandError(
                    f"{named} started before it could be put on hold, and keeps running",
                    "`requeue` has it wait again; `deactivate` stops it until it is activated.",
                )
            if change.counts(now):
                return ""
            if clock.monotonic() >= until:
                return (
                    f"the unit of {named} does not say so yet: a setting, a PriorityClass or a"
                    " ceiling may stand against it, or the controllers do not run"
                    " (`koord-queue check`)"
                )
            clock.sleep(LOOK_SECONDS)

    def _take_back(self, found: UnitTarget) -> None:
        """Undo a hold that came too late, so that it does not count when the unit waits again."""
        now = self._targets.unit(found.unit.namespace, found.unit.name, found.target.named)
        undone = release(now.target)
        if isinstance(undone, Change):
            self._targets.write(now.place(undone.on), undone, dry_run=False)

    # --- all of them --------------------------------------------------------------------------

    def _for_all(self, names: Sequence[str], do: Callable[[str], None]) -> None:
        failed = 0
        for named in dict.fromkeys(names):
            try:
                do(named)
            except CommandError as error:
                if len(names) == 1:
                    raise
                failed += 1
                self._session.out.flush()
                click.echo(f"error: {printable(f'{named}: {error.message}')}", err=True)
        if self._dry_run:
            self._show_effects()
        else:
            for line in self._undo_lines():
                self._session.out.note(f"to undo: {line}")
        if failed:
            raise click.exceptions.Exit(EXIT_FAILED)

    def _print_change(self, shown: str, change: Change) -> None:
        if not self._dry_run:
            self._print_outcome(shown, change.outcome)
            return
        self._print_outcome(shown, f"{change.outcome} (dry run)")
        for line in patch_lines(change.patch):
            self._session.out.line(printable(f"  {line}"))

    def _print_outcome(self, shown: str, outcome: str) -> None:
        self._session.out.line(printable(f"{shown} {outcome}"))

    def _note(self, change: Change) -> None:
        if change.note:
            self._session.out.note(change.note)
        if change.undo:
            verb, target, *more = change.undo
            self._undo.setdefault((verb, tuple(more)), []).append(target)

    def _undo_lines(self) -> Iterator[str]:
        """Yield the commands that undo what was done, one for all targets of a kind."""
        program = click.get_current_context().find_root().info_name or "koord-queue"
        choice = self._session.choice
        where = [
            *(("-n", choice.namespace) if choice.namespace else ()),
            *(("--context", choice.context) if choice.context else ()),
        ]
        for (verb, more), targets in self._undo.items():
            yield " ".join((program, verb, *targets, *more, *where))

    def _show_effects(self) -> None:
        """Show what the changes would set off, or that no server answers."""
        if not self._edits:
            return
        try:
            question = questions.what_if(msgspec.json.encode({"edits": self._edits}))
            answer = self._session.sources().answer(question)
        except CommandError as error:
            text = (
                "which units would then start, wait or be evicted is not known:"
                f" only the scheduler's debug API foretells it, and {error.message}"
            )
            self._session.out.note(f"{text}. {error.next_step}".rstrip())
            return
        write_lines(self._session.out, what_if_lines(decode(answer, WhatIf)))
