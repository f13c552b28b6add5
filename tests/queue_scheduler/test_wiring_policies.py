"""QuotaPolicies in the whole scheduler: which counts for which quota, and what status says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from queue_scheduler.configuration import KoordQueueConfiguration, PluginEntry
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from shared_api.crds import QUOTA_POLICY
from shared_api.testing.faults import Match
from shared_api.testing.object_builders import (
    elastic_quota_tree_body,
    queue_body,
    queue_unit_body,
    resource_quota_body,
    tree_node,
)
from shared_api.well_known_labels import QUOTA_NAME, USER
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json
from tests.sample_jobs import crd
from tests.stepped_host import writes_to

FOUR = {"users": ["ann"], "running": 4}
FIVE = {"users": ["ann"], "running": 5}
TOO_LARGE = {"users": ["ann"], "max": {"cpu": "1e300"}}
UNITS = ("a1", "a2", "a3", "b1", "b2")
WRITE = "patch quotapolicies/status"


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as found:
        yield found


def policy_body(name: str, quotas: list[str], *limits: Json, **meta: Any) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": name, "namespace": QUEUE_NAMESPACE, **meta},
        "spec": {"quotas": quotas, "userLimits": list(limits)},
    }


def edit(world: SchedulerWorld, name: str, body: Json, subresource: str = "") -> None:
    world.direct.patch(
        "quotapolicies", name, body, namespace=QUEUE_NAMESPACE, subresource=subresource
    )
    world.settle(3.0)


def status(world: SchedulerWorld, name: str) -> Json:
    found: Json = world.direct.get("quotapolicies", name, QUEUE_NAMESPACE)["status"]
    return found


def phase(world: SchedulerWorld, unit: str) -> str:
    found: str = world.direct.get("queueunits", unit, "default")["status"]["phase"]
    return found


def ready(world: SchedulerWorld, name: str) -> tuple[str, str]:
    found = condition_of(world.direct.get("quotapolicies", name, QUEUE_NAMESPACE), "Ready")
    return found["status"], found["reason"]


def reasons(world: SchedulerWorld, name: str) -> dict[str, str]:
    return {each["name"]: each["reason"] for each in status(world, name)["quotas"]}


def running(world: SchedulerWorld, quota: str) -> int | None:
    """Return how many units ann may have admitted in a quota, as the engine knows it."""

    def ask(engine: Engine) -> int | None:
        rule = engine.policies.limits_of(quota).for_user("ann")
        return None if rule is None else rule.running

    return world.ask(ask)


def test_a_policy_is_in_force_and_its_status_says_so(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start(settle_seconds=3.0)
    assert running(world, "team") == 4
    assert (ready(world, "p"), reasons(world, "p")) == (("True", "Ready"), {"team": "InForce"})
    found = status(world, "p")
    assert (found["observedGeneration"], found["userLimitsInForce"]) == (1, [FOUR])
    edit(world, "p", {"spec": {"userLimits": [FIVE]}})
    found = status(world, "p")
    assert (found["observedGeneration"], found["userLimitsInForce"]) == (2, [FIVE])
    assert found["conditions"][0]["observedGeneration"] == 2
    assert running(world, "team") == 5


def test_a_limit_holds_one_user_back_and_nobody_else(world: SchedulerWorld) -> None:
    world.add_quota(cpu=10)
    world.direct.create(policy_body("p", ["team"], {"users": ["ann"], "max": {"cpu": "2"}}))
    for name, user in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob"), ("b2", "bob")):
        world.add_unit(name, metadata={"labels": {QUOTA_NAME: "team", USER: user}})
    world.start(settle_seconds=3.0)
    assert [name for name in UNITS if phase(world, name) == "Dequeued"] == ["a1", "a2", "b1", "b2"]
    refusal = world.ask(lambda engine: refusal_of_unit(engine, "default/a3"))
    assert refusal is not None
    assert (refusal.reason, refusal.limit, refusal.used) == (Reason.USER_LIMIT, 2000, 2000)
    edit(world, "p", {"spec": {"userLimits": [{"users": ["ann"], "max": {"cpu": "3"}}]}})
    assert phase(world, "a3") == "Dequeued"


def test_nothing_is_written_without_a_change(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start(settle_seconds=3.0)
    before = writes_to(world.server).count(WRITE)
    assert before == 1
    world.settle(20.0)
    world.start(settle_seconds=5.0)
    assert writes_to(world.server).count(WRITE) == before


def test_an_unknown_quota_counts_once_it_exists(world: SchedulerWorld) -> None:
    world.direct.create(policy_body("p", ["team", "other"], FOUR))
    world.add_quota("other")
    world.start(settle_seconds=3.0)
    assert ready(world, "p") == ("False", "QuotaMissing")
    assert reasons(world, "p") == {"team": "QuotaMissing", "other": "InForce"}
    world.add_quota()
    world.settle(3.0)
    assert (ready(world, "p"), reasons(world, "p")["team"]) == (("True", "Ready"), "InForce")


def test_of_two_policies_the_older_counts(world: SchedulerWorld) -> None:
    for name in ("team", "other"):
        world.add_quota(name)
    world.direct.create(policy_body("old", ["team"], FOUR))
    world.clock.advance(2.0)
    world.direct.create(policy_body("new", ["team", "other"], FIVE))
    world.start(settle_seconds=3.0)
    assert (running(world, "team"), running(world, "other")) == (4, 5)
    assert (ready(world, "old"), ready(world, "new")) == (("True", "Ready"), ("False", "Conflict"))
    assert reasons(world, "new") == {"team": "Conflict", "other": "InForce"}
    found = condition_of(world.direct.get("quotapolicies", "new", QUEUE_NAMESPACE), "Ready")
    assert found["message"] == "quota team: QuotaPolicy old counts for it, since it is older"
    world.direct.delete("quotapolicies", "old", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert (running(world, "team"), ready(world, "new")) == (5, ("True", "Ready"))


def test_a_deleted_policy_counts_no_more(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start()
    world.direct.delete("quotapolicies", "p", QUEUE_NAMESPACE)
    world.settle()
    assert running(world, "team") is None


def test_a_policy_of_another_namespace_counts_for_nothing(world: SchedulerWorld) -> None:
    world.add_quota()
    body = policy_body("p", ["team"], FOUR, namespace="default")
    world.direct.create(body)
    world.start(settle_seconds=5.0)
    assert running(world, "team") is None
    assert "status" not in world.direct.get("quotapolicies", "p", "default")
    asked = [entry.info for entry in world.server.journal if entry.info.plural == "quotapolicies"]
    assert {each.namespace for each in asked} == {QUEUE_NAMESPACE}, "its rights end there"


def test_bad_settings_of_limits_leave_those_before_over_a_restart(
    world: SchedulerWorld,
) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start(settle_seconds=3.0)
    edit(world, "p", {"spec": {"userLimits": [TOO_LARGE]}})
    for _ in range(2):
        assert running(world, "team") == 4
        assert ready(world, "p") == ("False", "UnreadableLimit")
        assert status(world, "p")["userLimitsInForce"] == [FOUR]
        assert ("p", "UnreadableLimit") in world.events()
        world.start(settle_seconds=3.0)
    assert "'1e300' is larger" in world.note("p", "UnreadableLimit")


def test_an_edit_while_no_scheduler_runs_leaves_what_was_in_force(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start(settle_seconds=3.0)
    world.stop()
    patch = {"spec": {"userLimits": [TOO_LARGE]}}
    world.direct.patch("quotapolicies", "p", patch, namespace=QUEUE_NAMESPACE)
    world.start(settle_seconds=3.0)
    assert running(world, "team") == 4


def test_a_status_that_is_edited_by_hand_is_put_back(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start(settle_seconds=3.0)
    before = status(world, "p")
    edit(world, "p", {"status": {"quotas": [], "userLimitsInForce": [FIVE]}}, "status")
    assert (status(world, "p"), running(world, "team")) == (before, 4)


# --- what policies state for queues -------------------------------------------------------------

WEEK = {"levels": ["namespace"], "halfLife": "168h"}
DAY = {"halfLife": "24h"}
FROM = "koord-queue/fair-share-from"
QUEUE_WRITES = ("create queues", "patch queues", "delete queues")


def queue_policy(name: str, quotas: list[str], share: Json | None) -> Json:
    body = policy_body(name, quotas)
    body["spec"]["queue"] = {} if share is None else {"fairShare": share}
    return body


def fair_share(world: SchedulerWorld, queue: str = "team") -> tuple[Json | None, str | None]:
    """Return the `fairShare` of a queue, and the policy that it says it is from."""
    found = world.queue(queue)
    annotations = found["metadata"].get("annotations", {})
    return found["spec"].get("fairShare"), annotations.get(FROM)


def queue_writes(world: SchedulerWorld) -> int:
    return sum(each in QUEUE_WRITES for each in writes_to(world.server))


def edit_queue(world: SchedulerWorld, body: Json, name: str = "team") -> None:
    world.direct.patch("queues", name, body, namespace=QUEUE_NAMESPACE)
    world.settle(3.0)


def test_a_queue_has_what_a_policy_states_until_the_policy_goes(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    assert fair_share(world) == (WEEK, "p")
    assert status(world, "p")["queueInForce"] == {"fairShare": WEEK}
    edit_queue(world, {"spec": {"fairShare": {"halfLife": "1h", "minimumCharge": "1s"}}})
    assert fair_share(world) == (WEEK, "p")
    edit_queue(world, {"metadata": {"annotations": {FROM: None}}, "spec": {"fairShare": None}})
    assert fair_share(world) == (WEEK, "p")
    edit(world, "p", {"spec": {"queue": {"fairShare": {"levels": None, "halfLife": "24h"}}}})
    assert fair_share(world) == (DAY, "p")
    assert status(world, "p")["queueInForce"] == {"fairShare": DAY}
    world.direct.delete("quotapolicies", "p", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert fair_share(world) == (None, None)


def test_what_a_policy_does_not_state_is_left_to_users(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], None))
    world.start(settle_seconds=3.0)
    edit_queue(world, {"spec": {"fairShare": DAY}})
    world.direct.delete("quotapolicies", "p", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert fair_share(world) == (DAY, None)


def test_a_quota_that_comes_later_gets_its_queue_as_stated(world: SchedulerWorld) -> None:
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    world.add_quota()
    world.settle(3.0)
    assert fair_share(world) == (WEEK, "p")
    assert queue_writes(world) == 1, "it is created with it"


def test_of_two_policies_the_older_counts_for_the_queue(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(queue_policy("old", ["team"], WEEK))
    world.clock.advance(2.0)
    world.direct.create(queue_policy("new", ["team"], DAY))
    world.start(settle_seconds=3.0)
    assert (fair_share(world), ready(world, "new")) == ((WEEK, "old"), ("False", "Conflict"))
    world.direct.delete("quotapolicies", "old", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert (fair_share(world), ready(world, "new")) == ((DAY, "new"), ("True", "Ready"))


def test_queues_are_not_written_again_after_a_restart(world: SchedulerWorld) -> None:
    quotas = [f"team-{number}" for number in range(20)]
    for each in quotas:
        world.add_quota(each)
    world.direct.create(queue_policy("p", quotas, WEEK))
    world.start(settle_seconds=3.0)
    before = queue_writes(world)
    assert before == 20
    for _ in range(2):
        world.start(settle_seconds=5.0)
    assert queue_writes(world) == before


def test_nothing_is_taken_from_a_queue_before_the_policies_are_known(
    world: SchedulerWorld,
) -> None:
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    world.stop()
    before = queue_writes(world)
    world.server.faults.fail(503, times=10_000, match=Match(plural="quotapolicies"))
    world.start(settle_seconds=10.0)
    assert (fair_share(world), queue_writes(world)) == ((WEEK, "p"), before)


def test_bad_settings_of_a_fair_share_leave_that_before_over_a_restart(
    world: SchedulerWorld,
) -> None:
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    edit(world, "p", {"spec": {"queue": {"fairShare": {"halfLife": "0s"}}}})
    for _ in range(2):
        assert fair_share(world) == (WEEK, "p")
        assert ready(world, "p") == ("False", "UnreadableFairShare")
        assert ("p", "UnreadableFairShare") in world.events()
        world.start(settle_seconds=3.0)


def test_a_queue_that_the_scheduler_did_not_make_is_left_alone(world: SchedulerWorld) -> None:
    world.direct.create(queue_body("team", fairShare=DAY))
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    assert fair_share(world) == (DAY, None)
    assert reasons(world, "p") == {"team": "NoQueueMade"}


def test_a_queue_that_an_import_made_has_what_a_policy_states(world: SchedulerWorld) -> None:
    labels = {"app.kubernetes.io/created-by": "koord-queue-import"}
    world.direct.create(queue_body("team", metadata={"labels": labels}))
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    assert (fair_share(world), reasons(world, "p")) == ((WEEK, "p"), {"team": "InForce"})
    world.direct.delete("elasticquotas", "team", "default")
    world.settle(3.0)
    assert fair_share(world) == (None, None), "its quota has gone, and the policy with that"


# --- quotas of other kinds ----------------------------------------------------------------------


def configured(*names: str) -> KoordQueueConfiguration:
    return KoordQueueConfiguration(plugins=tuple(map(PluginEntry, ("Priority", *names))))


def test_a_node_of_a_tree_is_named_by_its_path(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(tree_node("any", tree_node("a", tree_node("b")))))
    world.direct.create(policy_body("p", ["root/a/b", "a"], FOUR))
    world.start(configuration=configured("ElasticQuota"), settle_seconds=3.0)
    assert reasons(world, "p") == {"root/a/b": "InForce", "a": "QuotaMissing"}
    assert running(world, "root/a/b") == 4


def test_the_queue_of_a_node_has_what_a_policy_states(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(tree_node("any", tree_node("a", tree_node("b")))))
    world.direct.create(queue_policy("p", ["root/a/b"], WEEK))
    world.start(configuration=configured("ElasticQuota"), settle_seconds=3.0)
    assert fair_share(world, "root-a-b") == (WEEK, "p")
    edit_queue(world, {"spec": {"fairShare": None}}, "root-a-b")
    assert fair_share(world, "root-a-b") == (WEEK, "p")
    assert reasons(world, "p") == {"root/a/b": "InForce"}
    world.direct.delete("quotapolicies", "p", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert fair_share(world, "root-a-b") == (None, None)


def test_a_users_queue_of_a_node_is_left_alone(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(tree_node("any", tree_node("a"))))
    world.direct.create(queue_body("root-a", fairShare=DAY))
    world.direct.create(queue_policy("p", ["root/a"], WEEK))
    world.start(configuration=configured("ElasticQuota"), settle_seconds=3.0)
    assert fair_share(world, "root-a") == (DAY, None)
    assert reasons(world, "p") == {"root/a": "NoQueueMade"}


def test_no_queue_is_made_for_a_resource_quota(world: SchedulerWorld) -> None:
    world.direct.create(resource_quota_body("rq", hard={"requests.cpu": 2}))
    world.direct.create(queue_policy("p", ["default/rq"], WEEK))
    world.start(configuration=configured("defaultgroup", "ResourceQuota"), settle_seconds=3.0)
    assert (ready(world, "p"), reasons(world, "p")) == (
        ("False", "NoQueueMade"),
        {"default/rq": "NoQueueMade"},
    )
    assert fair_share(world, "default") == (None, None)


def test_a_resource_quota_is_named_with_its_namespace(world: SchedulerWorld) -> None:
    world.direct.create(resource_quota_body("rq", hard={"requests.cpu": 2}))
    world.direct.create(policy_body("p", ["default/rq", "rq"], FOUR))
    world.direct.create(queue_unit_body("u"))
    world.start(configuration=configured("defaultgroup", "ResourceQuota"), settle_seconds=3.0)
    assert reasons(world, "p") == {"default/rq": "InForce", "rq": "QuotaMissing"}
    assert world.phase("u") == "Dequeued"


# --- the kind -----------------------------------------------------------------------------------


def test_without_the_kind_the_program_works_and_finds_it_later() -> None:
    with running_world(policies=False) as world:
        world.add_quota()
        world.add_unit("u")
        world.start()
        assert world.phase("u") == "Dequeued"
        assert world.ask(lambda engine: engine.policies.are_served) is False
        world.direct.create(QUOTA_POLICY.body())
        world.direct.create(policy_body("p", ["team"], FOUR))
        world.settle(10.0)
        assert world.ask(lambda engine: engine.policies.are_served) is True
        assert (running(world, "team"), ready(world, "p")) == (4, ("True", "Ready"))


def test_when_the_kind_goes_its_policies_count_no_more(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.start()
    world.direct.delete("customresourcedefinitions", "quotapolicies.scheduling.x-k8s.io")
    world.settle(20.0)
    assert running(world, "team") is None
    assert world.ask(lambda engine: engine.policies.are_served) is False


def test_when_the_kind_goes_its_queues_are_left_to_users(world: SchedulerWorld) -> None:
    world.add_quota()
    world.direct.create(queue_policy("p", ["team"], WEEK))
    world.start(settle_seconds=3.0)
    assert fair_share(world) == (WEEK, "p")
    world.direct.delete("customresourcedefinitions", "quotapolicies.scheduling.x-k8s.io")
    world.settle(20.0)
    assert fair_share(world) == (None, None)


def test_nothing_is_decided_before_the_policies_are_known(world: SchedulerWorld) -> None:
    world.add_quota()
    world.add_unit("u")
    world.direct.create(policy_body("p", ["team"], FOUR))
    world.server.faults.fail(503, times=10_000, match=Match(plural="quotapolicies"))
    world.start(settle_seconds=5.0)
    assert world.phase("u") == "Enqueued"
    world.server.faults.clear()
    world.settle(60.0)
    assert world.phase("u") == "Dequeued"
