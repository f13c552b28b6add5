"""Which caches the scheduler has, and what is known from them."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.configuration import parse_flags
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.setup.object_caches import ObjectCaches, build_caches
from queue_scheduler.setup.quota_sources import QuotaSources
from shared_api.client.discovery import KindProbe
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.leader_election import SoleLeader
from shared_api.testing.object_builders import queue_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_check
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, new_server
from tests.stepped_host import SteppedHost


class CachesKit:
    """ObjectCaches of a server."""

    def __init__(self, *, checks_namespaces: bool = False) -> None:
        clock = VirtualClock()
        server = new_server(clock)
        self.direct = server.direct
        self._host = host = SteppedHost(server, clock, SoleLeader("test"))
        sources = QuotaSources(
            [ELASTIC_QUOTA],
            parse_flags([]),
            lambda kind, settings: self._make(kind, settings=settings),
            lambda kind: KindProbe(host.client, kind, clock),
            checks_namespaces=checks_namespaces,
        )
        self.caches: ObjectCaches = build_caches(self._make, sources, QUEUE_NAMESPACE)

    def _make(
        self,
        resource_type: ResourceType[Any],
        *,
        settings: InformerSettings | None = None,
        store: IndexedStore[Any] | None = None,
    ) -> SharedInformer[Any]:
        host = self._host
        return SharedInformer(
            host.client,
            resource_type,
            clock=host.clock,
            rng=host.rng,
            settings=settings,
            store=store,
        )


@pytest.mark.parametrize("are_sources", [False, True], ids=["for metrics", "map units"])
def test_what_maps_and_orders_units_is_started_before_them(*, are_sources: bool) -> None:
    caches = CachesKit(checks_namespaces=are_sources).caches
    order = caches.in_order()
    assert len(order) == len(set(map(id, order))) == 6
    units = order.index(caches.units)
    assert all(order.index(each) < units for each in (caches.quotas, caches.queues, caches.nodes))
    assert (order.index(caches.namespaces) < units) is are_sources


def test_a_namespace_is_missed_only_once_all_are_known() -> None:
    kit = CachesKit()
    assert kit.caches.has_namespace("gone")
    kit.caches.namespaces.step()
    got = [kit.caches.has_namespace(name) for name in ("default", "gone")]
    assert got == [True, False]


def test_a_check_is_there_if_it_exists_or_a_queue_lists_it() -> None:
    kit = CachesKit()
    kit.caches.checks.put_observed(build_check("exists"))
    lists = [{"name": "listed"}]
    kit.direct.create(queue_body("q", namespace=QUEUE_NAMESPACE, admissionChecks=lists))
    kit.caches.queues.step()
    got = [kit.caches.has_check(name) for name in ("exists", "listed", "neither")]
    assert got == [True, True, False]
