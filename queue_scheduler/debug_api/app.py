"""The routes of the debug API: from snapshots and forks, and nothing here is a coroutine.

| path | answer |
|---|---|
| / | all paths |
| /debug/queues | all queues: policy, quotas, counts, head, last refusal |
| /debug/queues/{name} | one queue, its units in order and those on hold, why each waits |
| /debug/queueunits/{namespace}/{name} | one unit |
| /debug/quotas | the quota trees: min, max, runtime, used, charged, demand |
| /debug/accounts | who has used how much |
| /debug/user-limits | what users and groups have, where that is limited |
| /debug/reservations | when units must not run, and what runs into that |
| /apis/v1/queue, /apis/v1/userquota | upstream's paths, with content |
| /debug/plugins/{plugin}/... | routes that plugins add |
| /openapi.json | the contract of all but the plugins' |

`queue_insight.debug_api` adds the routes of questions that take long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.account_views import AccountPage
from queue_scheduler.debug_api.additions import Additions, NoAdditions
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.limit_views import UserLimitPage
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, At, Limit, Name, Offset, QuotaName
from queue_scheduler.debug_api.reservation_views import ReservationPage
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import may_read_for
from shared_api.debug_api.debug_app import build_debug_app, problems
from shared_api.debug_api.router_group import Guard

UPSTREAM_QUEUES: Final = "/apis/v1/queue"


def build_app(
    state: StateAnswers,
    access: Guard,
    plugin_routes: Iterable[Route],
    version: str,
    additions: Sequence[Additions] = (),
) -> FastAPI:
    """Return the application; every route asks `access` first, `/openapi.json` too.

    Args:
        state: Answers about now.
        access: Judges requests.
        plugin_routes: What plugins add.
        version: The program's.
        additions: Further routes. The first answers about earlier times, too.
    """
    app = build_debug_app("Koord-Queue debug API", version, access)
    past = additions[0] if additions else NoAdditions()
    _add_pages(app, state, past, access)
    _add_reservations(app, state, past, access)
    _add_upstream_pages(app, state, access)
    _add_units(app, state, past, access)
    for each in additions:
        each.add_routes(app, access)
    app.router.routes.extend(plugin_routes)
    return app


def _add_pages(app: FastAPI, state: StateAnswers, additions: Additions, access: Guard) -> None:
    """Add the routes of queues and quotas."""

    @app.get("/debug/queues", response_model=views.QueuePage, responses=problems(429))
    def queues(
        request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> Response:
        """All queues, by name.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        if at is None:
            view = state.queues(offset, limit)
        else:
            view = additions.answer_past(request, views.QueuePage)
        shown = hide(view, may_read_for(access, request))
        return Response(state.queue_views.encode(shown), media_type="application/json")

    @app.get("/debug/queues/{name}", responses=problems(404, 429))
    def queue(
        request: Request,
        name: Name,
        offset: Offset = 0,
        limit: Limit = DEFAULT_PAGE,
        at: At = None,
    ) -> views.QueueDetail:
        """One queue and a page of its units: pending ones in order, then those on hold.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        if at is None:
            view = state.queue(name, offset, limit)
        else:
            view = additions.answer_past(request, views.QueueDetail)
        return hide(view, may_read_for(access, request))

    @app.get("/debug/quotas", responses=problems(429))
    def quotas(request: Request, at: At = None) -> views.QuotaTreePage:
        """All quotas, as trees."""
        if at is None:
            return state.quotas()
        return additions.answer_past(request, views.QuotaTreePage)

    @app.get("/debug/accounts", responses=problems(404, 429))
    def accounts(request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE) -> AccountPage:
        """Who has used how much, where accounts are kept.

        Accounts of namespaces that the caller may not read are summed up by quota, without names.
        """
        may_read = may_read_for(access, request)
        return hide(state.accounts(may_read, offset, limit), may_read)

    @app.get("/debug/user-limits", responses=problems(429))
    def user_limits(
        request: Request, quota: QuotaName = "", offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> UserLimitPage:
        """What users and groups have in quotas that limit them, and may have at most.

        A row is a sum over units; those of which the caller may not read all are counted.
        """
        return state.user_limits(may_read_for(access, request), quota, offset, limit)


def _add_reservations(
    app: FastAPI, state: StateAnswers, additions: Additions, access: Guard
) -> None:
    """Add the route of reservations."""

    @app.get("/debug/reservations", responses=problems(429))
    def reservations(
        request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> ReservationPage:
        """All reservations, by name: when units must not run, and what runs into that.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        if at is None:
            view = state.reservations(offset, limit)
        else:
            view = additions.answer_past(request, ReservationPage)
        return hide(view, may_read_for(access, request))


def _add_upstream_pages(app: FastAPI, state: StateAnswers, access: Guard) -> None:
    """Add the routes under upstream's paths."""

    @app.get(UPSTREAM_QUEUES, response_model=views.UpstreamQueues)
    def upstream_queues(
        request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> Response:
        """Queues and a page of the pending units of each, under upstream's path.

        If a queue has more units, the header `Link` names the next page (`rel="next"`). Units of
        namespaces that the caller may not read are left out.
        """
        pages, may_read = state.waiting_pages(offset, limit), may_read_for(access, request)
        # As text at once: as models, all waiting units together take a kilobyte each.
        members = [
            views.encode_upstream_queue(
                name, [each for each in page.units if may_read(each.unit.metadata.namespace)]
            )
            for name, page in pages.items()
        ]
        link = f"{UPSTREAM_QUEUES}?offset={offset + limit}&limit={limit}"
        has_more = any(page.has_more for page in pages.values())
        headers = {"Link": f'<{link}>; rel="next"'} if has_more else None
        body = b"{" + b",".join(members) + b"}"
        return Response(body, headers=headers, media_type="application/json")

    app.get("/apis/v1/userquota")(state.upstream_quotas)


def _add_units(app: FastAPI, state: StateAnswers, additions: Additions, access: Guard) -> None:
    """Add the routes of single units."""

    @app.get("/debug/queueunits/{namespace}/{name}", responses=problems(404, 429))
    def queue_unit(request: Request, namespace: Name, name: Name, at: At = None) -> views.UnitView:
        """One unit, with its position, why it waits, and the units that it would preempt.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        # The API server is asked without the turn, so that other requests do not wait for it.
        if at is None:
            view = state.queue_unit(namespace, name)
        else:
            view = additions.answer_past(request, views.UnitView)
        return hide(view, may_read_for(access, request))
