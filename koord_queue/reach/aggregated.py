"""The aggregated API, through the API server: with the rights of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord_queue.reach.errors import NotServed

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster
    from koord_queue.reach.questions import AnswerT, Question


class AggregatedApi:
    """A `Source`. Errors of the aggregator, which are no `Status`, become `NotServed`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer. See `Source`."""
        if question.aggregated_api is None:
            raise NotServed(f"the aggregated API does not have {question.name}")
        try:
            return question.aggregated_api(self._cluster)
        except NotServed as error:
            raise NotServed(f"the aggregated API is not served here ({error.message})") from error
