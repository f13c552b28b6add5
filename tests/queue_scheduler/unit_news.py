"""An informer of units for shells that reconcile one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import UnitAccess
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import WriteSink
from shared_api.objects.queue_unit import QueueUnit
from shared_api.work_queue import WorkQueue
from tests.queue_scheduler.shell_kit import ShellKit
from tests.stepped_host import exhaust


class UnitListener(Protocol):
    """Receives events of units."""

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Receive an event of a unit."""
        ...


class UnitShell(UnitListener, Protocol):
    """A shell over `UnitReconciler`."""

    def step(self) -> float | None:
        """Reconcile one unit."""
        ...


def access_of(
    kit: ShellKit,
    due: WorkQueue[str] | None = None,
    writes: WriteSink | None = None,
    report: Callable[[Notice], None] | None = None,
) -> UnitAccess:
    """Return the access of a shell to units."""
    return UnitAccess(
        shared=kit.shared,
        writes=writes or kit.dispatcher,
        note_written=kit.note_written,
        may_write=kit.may_write,
        due=due or kit.work_queue(),
        read_unit=lambda namespace, name: kit.client.get(QUEUE_UNITS, namespace, name),
        report=report or kit.reported.append,
    )


class UnitNews:
    """Delivers to the engine, and then to the shell, what has changed on the server."""

    def __init__(self, kit: ShellKit) -> None:
        self._kit = kit
        self._heard: dict[str, QueueUnit] = {}

    def forget(self) -> None:
        """Begin with a list again, like a restarted process."""
        self._heard.clear()

    def hear(self, listener: UnitListener) -> None:
        """Deliver what is new."""
        items = self._kit.client.list_page(QUEUE_UNITS).items
        there = {unit.metadata.key: unit for unit in items if isinstance(unit, QueueUnit)}
        for key in sorted(self._heard.keys() | there.keys()):
            old, new = self._heard.get(key), there.get(key)
            if old == new:
                continue
            if new is not None:
                self._kit.shared.apply(Engine.on_queue_unit, new)
            elif old is not None:
                self._kit.shared.apply(Engine.on_queue_unit_gone, old)
            listener.on_queue_unit(old, new)
        self._heard = there

    def pass_time(self, shell: UnitShell, seconds: float, *, hears: bool = True) -> None:
        """Let time pass, and every shell do what there is to do."""
        clock = self._kit.clock
        until = clock.monotonic() + seconds
        while clock.monotonic() < until:
            if hears:
                self.hear(shell)
            exhaust(shell.step)
            self._kit.send()
            clock.advance(0.5)
