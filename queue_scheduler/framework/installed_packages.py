"""What installed packages offer: plugins and queue policies, by entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

PLUGIN_GROUP: Final = "koord_queue.scheduler_plugins"
POLICY_GROUP: Final = "koord_queue.queue_policies"


def find_offered(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name; none of them is imported yet."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def find_packages() -> frozenset[str]:
    """Return the names of the top-level packages that offer plugins or queue policies."""
    points = (*find_offered(PLUGIN_GROUP), *find_offered(POLICY_GROUP))
    return frozenset(point.value.partition(":")[0].partition(".")[0] for point in points)
