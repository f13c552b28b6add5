"""Priority: queues with a higher `spec.priority` are offered shared quota first."""

from __future__ import annotations

from shared_api.objects.queue import Queue


class Priority:
    """Ranks queues that compete for the same limits by their priority; a missing one is 0."""

    name = "Priority"

    def queue_rank(self, queue: Queue) -> int:
        """Return the queue's priority."""
        return queue.spec.priority or 0

    def fork(self) -> Priority:
        """Return itself: there is no state."""
        return self
