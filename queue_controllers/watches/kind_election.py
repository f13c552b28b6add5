"""Which extension serves a kind that several know, each in a version of its own.

Two operators have a kind MPIJob in the group kubeflow.org, in different versions. A CRD has one
name, so that a server has the one or the other; one that serves both versions has the same objects
in both. Only one extension may manage them: two would both hold, release and end each of them.

What the server serves decides. If it serves several, the extension that is enabled first has its
turn and the others wait; the one that has served until then stops before another begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from queue_controllers.jobframework.generic_job import JobKind
from shared_api.program_flags import FlagError


class KindTurn:
    """The turn of one extension; called on its server's thread.

    Args:
        kind: Its kind.
        before: The kinds of extensions that come before it, of the same objects.
        holders: Who has its turn, by names of objects; shared by all turns.
    """

    def __init__(
        self, kind: JobKind, before: tuple[JobKind, ...], holders: dict[tuple[str, str], str]
    ) -> None:
        self._kind = kind
        self._before = before
        self._holders = holders

    def take(self, is_served: Callable[[JobKind], bool]) -> str | None:
        """Take the turn, once the kind is served; return "" when the extension has it.

        Else None if the kind is not served, or which extension has it. What `is_served` raises is
        passed on: whose turn it is stays as it is.
        """
        first = next((each for each in (*self._before, self._kind) if is_served(each)), None)
        if first is None:
            return None
        holder = first.key
        if first is self._kind:
            # In one step, whatever other threads ask.
            holder = self._holders.setdefault(_objects_of(self._kind), holder)
        if holder == self._kind.key:
            return ""
        return f"waits while extension {holder} serves that kind in another version"

    def give_back(self) -> None:
        """Give the turn to others: the extension has stopped."""
        self._holders.pop(_objects_of(self._kind), None)


def take_turns(kinds: Iterable[JobKind]) -> dict[tuple[str, str], KindTurn]:
    """Return the turn of each extension, by apiVersion and kind.

    Args:
        kinds: All that are enabled, in their order.

    Raises:
        FlagError: Two know one kind in one version: both would always have their turn.
    """
    earlier: dict[tuple[str, str], tuple[JobKind, ...]] = {}
    holders: dict[tuple[str, str], str] = {}
    turns = {}
    for kind in kinds:
        before = earlier.get(_objects_of(kind), ())
        for each in before:
            if each.version == kind.version:
                raise FlagError(
                    f"extensions {each.key} and {kind.key} both queue {kind.kind}"
                    f" ({kind.api_version}): enable one of them"
                )
        earlier[_objects_of(kind)] = (*before, kind)
        turns[kind.api_version, kind.kind] = KindTurn(kind, before, holders)
    return turns


def _objects_of(kind: JobKind) -> tuple[str, str]:
    return (kind.group, kind.kind)
