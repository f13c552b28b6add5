"""A replica that leads when a test tells it to."""

from __future__ import annotations


class Follower:
    """A `Leadership` of a replica that does not lead until the test makes it leader.

    Attributes:
        leads: Whether it leads.
    """

    def __init__(self) -> None:
        self.leads = False

    def is_leader(self) -> bool:
        return self.leads

    def time_left(self) -> float:
        return 10.0 if self.leads else 0.0

    def writable_seconds(self) -> float:
        return self.time_left()

    def holder(self) -> str:
        return "somebody"
