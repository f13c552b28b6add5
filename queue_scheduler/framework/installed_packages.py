"""What installed packages offer by entry point: plugins, queue policies, models of run times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from shared_api.program_flags import ConfigurationError

PLUGIN_GROUP: Final = "koord_queue.scheduler_plugins"
POLICY_GROUP: Final = "koord_queue.queue_policies"


def find_offered(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name; none of them is imported yet."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def find_packages() -> frozenset[str]:
    """Return the names of the top-level packages that offer plugins or queue policies."""
    points = (*find_offered(PLUGIN_GROUP), *find_offered(POLICY_GROUP))
    return frozenset(point.value.partition(":")[0].partition(".")[0] for point in points)


def offered_by_name(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; none of them is imported yet.

    Raises:
        ConfigurationError: Two packages offer one name.
    """
    points = find_offered(group)
    refuse_twins((point.name for point in points), f"two packages offer {{!r}} as {group}")
    return {point.name: point for point in points}


def load_offered(point: EntryPoint) -> Callable[..., Any]:
    """Import what a package offers.

    Raises:
        ConfigurationError: It cannot be imported; the message names the entry point.
    """
    try:
        loaded: Callable[..., Any] = point.load()
    except Exception as error:
        msg = f"{point.group} {point.name!r} ({point.value}) cannot be loaded: {error!r}"
        raise ConfigurationError(msg) from error
    return loaded


def refuse_twins(names: Iterable[str], words: str) -> None:
    """Check that no name occurs twice.

    Args:
        names: The names.
        words: The message, with a place for the name.

    Raises:
        ConfigurationError: One does.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigurationError(words.format(name))
        seen.add(name)
