"""Units and queues that are no objects: of a dump, or of a moment that the record knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from koord_queue.answers.decoding import decode
from koord_queue.answers.queues import Queue
from koord_queue.answers.units import Unit
from koord_queue.reach.dump import open_dump
from koord_queue.reach.questions import debug_pages
from koord_queue.show.documents import show_document
from koord_queue.show.unit_rows import ORDER
from shared_api.lifecycle import ADMITTED, LifecycleState, lifecycle_state

if TYPE_CHECKING:
    import msgspec

    from koord_queue.session.session import Session

UNIT_COLUMNS: Final = ("NAMESPACE", "NAME", "STATE", "QUEUE", "QUOTA", "POS", "MESSAGE")
QUEUE_COLUMNS: Final = ("QUEUE", "POLICY", "PENDING", "ADMITTED", "QUOTAS")

_STATES: Final = {
    "held": LifecycleState.ON_HOLD.cell,
    "waiting": LifecycleState.WAITING.cell,
    "conflict": LifecycleState.WAITING.cell,
    "assumed": LifecycleState.RESERVED.cell,
    "ended": LifecycleState.FINISHED.cell,
}
"""The scheduler's states in the words of `units`; of an admitted unit its phase says more."""
_ADMITTED: Final = "admitted"


class Listed(NamedTuple):
    """Units or queues.

    Attributes:
        values: What is shown of each.
        trees: All that the API says of each.
    """

    values: list[Any]
    trees: list[Any]


def units_of_dump(session: Session, dump: str) -> Listed:
    """Return all units of a dump."""
    source = open_dump(dump)
    source.note_differences(session.out.note)
    return Listed(source.units(), source.tree("units"))


def queues_of_dump(session: Session, dump: str) -> Listed:
    """Return all queues of a dump."""
    source = open_dump(dump)
    source.note_differences(session.out.note)
    return Listed(source.queues(), source.tree("queues"))


def units_at(session: Session, at: str, namespace: str | None) -> Listed:
    """Return the units that waited at a moment, of a namespace or (None) of all."""
    found = Listed([], [])
    for queue in queues_at(session, at).values:
        for raw in _pages(session, f"/debug/queues/{queue.name}", at):
            unit = decode(bytes(raw), Unit)
            if namespace in {None, unit.namespace}:
                found.values.append(unit)
                found.trees.append(decode(bytes(raw), object))
    return found


def queues_at(session: Session, at: str) -> Listed:
    """Return the queues of a moment."""
    raws = list(_pages(session, "/debug/queues", at))
    return Listed(
        [decode(bytes(raw), Queue) for raw in raws], [decode(bytes(raw), object) for raw in raws]
    )


def _pages(session: Session, path: str, at: str) -> Iterator[msgspec.Raw]:
    return debug_pages(session.debug, path, (("at", at),))


def sort_units(units: Listed, by: str) -> Listed:
    """Return units in order: `queue`, `age`, `priority` or `name`, as `units` has them."""
    pairs = sorted(zip(*units, strict=True), key=lambda pair: _KEYS[by](pair[0]))
    return Listed([value for value, _ in pairs], [tree for _, tree in pairs])


def _by_queue(unit: Unit) -> tuple[object, ...]:
    state = state_of(unit)
    place = ORDER.index(state) if state in ORDER else len(ORDER)
    return (place, unit.queue, unit.position, *_by_age(unit))


def _by_age(unit: Unit) -> tuple[object, ...]:
    return (unit.created, unit.namespace, unit.name)


_KEYS: Final[dict[str, Callable[[Unit], tuple[Any, ...]]]] = {
    "queue": _by_queue,
    "age": _by_age,
    "priority": lambda unit: (-unit.priority, *_by_age(unit)),
    "name": lambda unit: (unit.namespace, unit.name),
}


def show_units(session: Session, units: Listed, form: str) -> None:
    """Write units as a table, by name, or with all that the API says."""
    rows = [_cells_of_unit(each) for each in units.values]
    _show(session, units, form, "queueunit", UNIT_COLUMNS, rows)


def show_queues(session: Session, queues: Listed, form: str) -> None:
    """Write queues as a table, by name, or with all that the API says."""
    rows = [
        (each.name, each.policy, str(each.pending), str(each.admitted), ",".join(each.quotas))
        for each in queues.values
    ]
    _show(session, queues, form, "queue", QUEUE_COLUMNS, rows)


def _show(
    session: Session,
    listed: Listed,
    form: str,
    kind: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    """Write objects in one of the forms; `kind` is that of `-o name`."""
    if form in {"json", "yaml"}:
        show_document(session.out, listed.trees, form)
    elif form == "name":
        for each in listed.values:
            session.out.paragraph(f"{kind}.scheduling.x-k8s.io/{each.name}")
    else:
        session.out.table(columns, rows)


def state_of(unit: Unit) -> str:
    """Return the state of a unit as a cell: one word, as `units` has it where there is one."""
    state = unit.state
    if state == _ADMITTED:
        progress = lifecycle_state(unit.phase)
        # While its eviction is written it is charged, and its phase is that of a unit that waits.
        return (progress if progress in ADMITTED else LifecycleState.STARTING).cell
    return _STATES.get(state) or state.title().replace(" ", "")


def _cells_of_unit(unit: Unit) -> tuple[str, ...]:
    return (
        unit.namespace,
        unit.name,
        state_of(unit),
        unit.queue,
        unit.quota,
        str(unit.position or ""),
        unit.refusal.message if unit.refusal is not None else "",
    )
