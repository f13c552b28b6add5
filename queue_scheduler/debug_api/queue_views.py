"""Views of queues and their JSON, built once for each state of a queue.

Of 500 queues few change between two requests, and a view takes ten times as long to build as its
facts take to copy and to compare.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pydantic_core import to_json

from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.snapshots import QueueSnapshot


class _Kept(NamedTuple):
    facts: QueueSnapshot
    view: views.QueueView
    text: bytes


class QueueViews:
    """Keeps the last view of each queue; entries are replaced whole, so threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def view(self, facts: QueueSnapshot) -> views.QueueView:
        """Return the view of a queue."""
        name = facts.queue.metadata.name
        kept = self._kept.get(name)
        # Facts are values that are shared and never changed, so most are compared by identity.
        if kept is None or kept.facts != facts:
            view = views.view_queue(facts)
            kept = self._kept[name] = _Kept(facts, view, to_json(view, by_alias=True))
        return kept.view

    def encode(self, page: views.QueuePage) -> bytes:
        """Return a page as JSON; views that are not of `view` are encoded anew."""
        rest = to_json(page.model_dump(by_alias=True, exclude={"items"}))
        items = b",".join(map(self._encode, page.items))
        return rest.removesuffix(b"}") + b',"items":[' + items + b"]}"

    def _encode(self, view: views.QueueView) -> bytes:
        kept = self._kept.get(view.name)
        if kept is not None and kept.view is view:
            return kept.text
        return to_json(view, by_alias=True)

    def keep_only(self, names: Collection[str]) -> None:
        """Forget queues that are not among these."""
        if len(self._kept) > len(names):
            self._kept = {name: self._kept[name] for name in names if name in self._kept}
