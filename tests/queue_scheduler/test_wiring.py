"""The whole scheduler over the fake API server: the path of a unit, and what can happen to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queue_scheduler.configuration import KoordQueueConfiguration, PluginEntry, parse_flags
from queue_scheduler.framework.plugin_questions import list_quotas, view_all_quotas
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.wiring import _engine_settings
from shared_api.fake_api_server.faults import Match
from shared_api.objects.meta import Condition, Timestamp
from shared_api.program_flags import ConfigurationError
from shared_api.queue_unit_phases import condition_body
from shared_api.testing.object_builders import queue_body
from tests.follower import Follower
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.sample_jobs import QUOTA_CRD
from tests.stepped_host import writes_to


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as world:
        yield world


def break_the_admitted_of_two(world: SchedulerWorld) -> None:
    """Admit unit a, make its demand unreadable, and let b wait for its room."""
    world.start()
    world.add_quota(cpu=1)
    world.settle()
    world.add_unit("a")
    world.settle(0.2)
    pods = world.unit("a")["spec"]["podSet"][0]
    broken = [{**pods, "template": {"spec": {"containers": "x"}}}]
    world.direct.patch("queueunits", "a", {"spec": {"podSet": broken}}, namespace="default")
    world.add_unit("b")
    world.settle()


def test_a_unit_goes_from_creation_to_admission(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota()
    world.settle()
    assert world.queue()["metadata"]["labels"] == {"create-by-koordqueue": "true"}
    world.add_unit("a")
    world.settle(0.2)
    assert world.phase("a") == "Dequeued"
    world.settle(6.0)
    assert world.queue()["status"]["admitted"] == 1
    assert writes_to(world.server).count("patch queueunits/status") == 1


@pytest.mark.parametrize("proved", [True, False])
def test_the_engine_is_told_whose_names_are_proved(proved: bool) -> None:
    flags = parse_flags([f"--names-are-proved={str(proved).lower()}"])
    settings = _engine_settings(flags, KoordQueueConfiguration())
    assert settings.names_are_proved is proved


def test_the_end_of_a_unit_starts_the_next(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota(cpu=1)
    world.add_unit("a")
    world.settle()
    world.add_unit("b")
    world.settle(4.0)
    assert world.reason("b") == "OverQuotaMax"
    world.finish("a")
    world.settle(0.2)
    assert world.phase("b") == "Dequeued"


def test_a_restart_counts_admitted_units_before_it_decides(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota(cpu=1)
    world.add_unit("a")
    world.settle()
    world.add_unit("b")
    world.start()
    world.settle(3.0)
    assert (world.phase("a"), world.phase("b")) == ("Dequeued", "Enqueued")


def test_a_restart_counts_an_admitted_unit_that_cannot_be_read(world: SchedulerWorld) -> None:
    break_the_admitted_of_two(world)
    world.start()
    world.settle()
    assert (world.phase("a"), world.phase("b")) == ("Dequeued", "Enqueued")
    world.finish("a")
    world.settle(0.2)
    assert world.phase("b") == "Dequeued"


def test_an_unreadable_unit_releases_what_an_eviction_frees(
    world: SchedulerWorld,
) -> None:
    break_the_admitted_of_two(world)
    assert (world.phase("a"), world.phase("b")) == ("Dequeued", "Enqueued")
    earlier = Timestamp("2026-11-01T09:00:00Z")
    asked = Condition(
        type="Evicted", status="True", reason="BackoffTimeout", last_transition_time=earlier
    )
    freed = {"phase": "TimeoutBackoff", "admissions": [], "conditions": [condition_body(asked)]}
    world.direct.patch(
        "queueunits", "a", {"status": freed}, namespace="default", subresource="status"
    )
    world.settle(10.0)
    assert (world.phase("a"), world.phase("b")) == ("Enqueued", "Dequeued")
    assert world.reason("a") == "Unreadable"
    before = writes_to(world.server)
    world.settle(30.0)
    assert writes_to(world.server) == before


def test_a_system_at_rest_writes_nothing_nor_does_a_restart(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota(cpu=1)
    for name in ("a", "b"):
        world.add_unit(name)
    world.settle(10.0)
    before = world.server.resource_version
    world.settle(30.0)
    assert world.server.resource_version == before
    world.start()
    world.settle(10.0)
    assert world.server.resource_version == before


def test_a_follower_is_ready_and_writes_nothing_until_it_leads(world: SchedulerWorld) -> None:
    leadership = Follower()
    world.start(leadership=leadership)
    world.direct.create(queue_body("team"))
    world.add_quota()
    world.add_unit("a")
    world.settle(5.0)
    assert world.scheduler is not None
    assert all(check()[0] for check in world.scheduler.ready_checks().values())
    assert writes_to(world.server) == []
    attempts = {"queue": "team", "result": "scheduled"}
    value = world.metrics.registry.get_sample_value
    assert value("job_schedule_attempts_total", attempts) is None
    leadership.leads = True
    world.scheduler.on_started_leading()
    world.settle(2.0)
    assert world.phase("a") == "Dequeued"


def test_everything_arrives_in_the_wrong_order(world: SchedulerWorld) -> None:
    world.start()
    world.add_unit("a")
    world.settle(3.0)
    assert world.reason("a") == "NoQuota"
    world.add_quota()
    world.settle()
    assert world.phase("a") == "Dequeued"


def test_without_the_quota_crd_units_wait_until_it_exists() -> None:
    with running_world(quotas=False) as world:
        world.start()
        assert world.scheduler is not None
        checks = world.scheduler.ready_checks()
        assert all(check()[0] for check in checks.values())
        assert "not served" in checks["elasticquotas-synced"]()[1]
        world.add_unit("a")
        world.settle(4.0)
        assert world.reason("a") == "NoQuota"
        world.direct.create(QUOTA_CRD)
        world.add_quota()
        world.settle(10.0)
        assert world.phase("a") == "Dequeued"


def test_not_ready_before_the_caches_are_complete(world: SchedulerWorld) -> None:
    world.server.faults.fail(503, times=10_000, match=Match(plural="pods"))
    world.start()
    assert world.scheduler is not None
    ok, detail = world.scheduler.ready_checks()["pods-synced"]()
    assert not ok
    assert "pods not listed yet" in detail
    world.add_quota()
    world.add_unit("a")
    world.settle(3.0)
    assert world.phase("a") == "Enqueued"
    world.server.faults.clear()
    world.settle(5.0)
    assert world.phase("a") == "Dequeued"


def test_a_stopped_scheduler_does_nothing_more(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota()
    world.settle()
    scheduler = world.scheduler
    assert scheduler is not None
    world.stop()
    assert [thread.name for thread in scheduler.threads() if thread.is_alive()] == []
    before = world.server.resource_version
    world.add_unit("a")
    assert world.server.resource_version == before + 1


def test_a_queue_and_its_worker_end_together(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota()
    world.settle()
    assert world.scheduler is not None
    assert "queue/team" in {thread.name for thread in world.scheduler.threads()}
    world.direct.delete("elasticquotas", "team", "default")
    world.settle()
    assert not world.direct.exists("queues", "team", QUEUE_NAMESPACE)
    assert "queue/team" not in {thread.name for thread in world.scheduler.threads()}
    world.add_unit("late")
    world.settle()
    assert world.phase("late") == "Enqueued"


def test_an_unknown_plugin_is_refused_at_start(world: SchedulerWorld) -> None:
    wrong = KoordQueueConfiguration(plugins=(PluginEntry("Elastic"),))
    with pytest.raises(ConfigurationError, match="'Elastic' is unknown"):
        world.start(configuration=wrong)


def test_without_the_quota_plugin_there_are_no_quotas_to_show() -> None:
    assert view_all_quotas(PluginRunner([])) == []
    assert list_quotas(PluginRunner([])) == ()
