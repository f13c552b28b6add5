"""Which pods without a node count against a refused unit, for answers to users.

They are those of no quota, which will use what the nodes have, or claim a share of it, and those
that the queue's gate holds. Names of pods in other namespaces are not told: only how many there
are, since who reads of a unit may not be allowed to see them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from queue_scheduler.decision import Reason, Trait, reasons_with
from shared_api.objects.meta import Uid

PRESSED: Final = frozenset({Reason.NO_CAPACITY}) | reasons_with(Trait.RUNTIME)
"""Reasons that such pods may be behind."""

MAX_NAMED: Final = 3
"""How many pods a message names: it is a sentence, and the largest ones decide."""


class PressingPod(NamedTuple):
    """A pod, or the held pods of one job.

    Attributes:
        amount: What it asks for of one resource, in base units.
        name: `namespace/name`; of held pods, that of the first.
        job: The uid of the job of held pods.
    """

    amount: int
    name: str
    job: Uid


class PressingPods:
    """The pods that press one resource of one tree.

    Args:
        pods: All of them.
    """

    def __init__(self, pods: Iterable[PressingPod]) -> None:
        self._count = 0
        self._of: dict[str, list[PressingPod]] = {}
        for pod in sorted(pods, key=lambda each: (-each.amount, each.name)):
            self._count += 1
            self._of.setdefault(pod.name.partition("/")[0], []).append(pod)

    def describe(self, namespace: str, job: Uid) -> tuple[str, ...]:
        """Return the largest in a namespace, and how many others there are, in words.

        Args:
            namespace: The namespace of the unit that is refused.
            job: Its job, whose own pods do not press it.
        """
        own = [pod.name for pod in self._of.get(namespace, ()) if not job or pod.job != job]
        elsewhere = self._count - len(self._of.get(namespace, ()))
        named = own[:MAX_NAMED]
        more = len(own) - len(named)
        return (
            *named,
            *([f"{more} more of its namespace"] if more else ()),
            *([f"{elsewhere} of other namespaces"] if elsewhere else ()),
        )
