"""Where the commands about quotas get them from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord_queue.answers.quota_trees import quotas_of_objects, read_quota_page
from koord_queue.answers.quotas import Quota
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.resources import ELASTIC_QUOTAS, ItemList
from shared_api.objects.elastic_quota import ElasticQuota

if TYPE_CHECKING:
    from koord_queue.session.session import Session


def read_quotas(session: Session) -> tuple[Quota, ...]:
    """Return the roots of all quotas: from the scheduler, or from the objects alone, with a note.

    Raises:
        CommandError: Neither answers.
    """
    try:
        return read_quota_page(session.debug("/debug/quotas"))
    except (NotServed, Refused) as error:
        if session.choice.server:
            raise
        roots = _read_objects(session, error)
        session.out.note(
            f"{error.message}; shown is what the ElasticQuotas say: what is charged, granted and"
            " borrowed is not known"
        )
        return roots


def _read_objects(session: Session, first: CommandError) -> tuple[Quota, ...]:
    try:
        pages = list(session.cluster().pages(ELASTIC_QUOTAS.path("")))
    except NotServed as error:
        raise CommandError(
            f"{first.message}; and there are no ElasticQuotas: {error.message}", first.next_step
        ) from error
    objects = [
        each
        for page in pages
        for each in msgspec.json.decode(page, type=ItemList[ElasticQuota]).items
    ]
    return quotas_of_objects(objects)
