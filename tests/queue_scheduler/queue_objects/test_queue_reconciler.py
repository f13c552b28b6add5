"""Queues follow quotas: created, kept in step, deleted; queues made by users are left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from queue_scheduler.queue_objects import queue_reconciler
from queue_scheduler.queue_objects.queue_reconciler import (
    BY_NAME,
    POLICIES_UNKNOWN_SECONDS,
    UNKNOWN_SECONDS,
    UNREADABLE_SECONDS,
    CreateQueue,
    DeleteQueue,
    PatchQueue,
    QueueReconciler,
    QueuesAndQuotas,
    decide_queue,
)
from queue_scheduler.queueing.managed_queues import PolicyStatement
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUES
from shared_api.fake_api_server.faults import Match
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import FairShare, Queue
from shared_api.testing.object_builders import elastic_quota, elastic_quota_body, queue, queue_body
from tests.follower import Follower
from tests.properties.engine_kit import build_policy
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.scheduler_world import running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json, ShellKit
from tests.sample_jobs import OPEN_OBJECT
from tests.stepped_host import exhaust, writes_to

OURS = {"labels": {"create-by-koordqueue": "true"}, "uid": "q1"}
POLICY = "koord-queue/queue-policy"
PARENT = "quota.scheduling.koordinator.sh/parent"


class Room:
    """A server, the two caches, and their reconciler."""

    def __init__(self) -> None:
        self.kit = ShellKit()
        self.direct = self.kit.direct
        self.quotas: IndexedStore[ElasticQuota] = IndexedStore(
            indexes={BY_NAME: lambda quota: (quota.metadata.name,)}
        )
        self.queues: IndexedStore[Queue] = IndexedStore()
        self.names = self.kit.work_queue()
        self.are_quotas_known = True
        self.are_policies_known = True
        self.stated: PolicyStatement | None = None
        self.unreadable: set[str] = set()
        self.reconciler = QueueReconciler(
            self.kit.client,
            QUEUE_NAMESPACE,
            QueuesAndQuotas(
                quotas=self.quotas,
                queues=self.queues,
                are_quotas_known=lambda: self.are_quotas_known,
                is_readable=lambda key: key not in self.unreadable,
                are_policies_known=lambda: self.are_policies_known,
                stated_for=lambda _: self.stated,
            ),
            self.names,
            self.kit.may_write,
        )

    def look(self) -> None:
        """Let both caches catch up with the server, and the reconciler work."""
        self._list(QUEUES, self.queues, self.reconciler.on_queue)
        self.look_at_quotas()

    def look_at_quotas(self) -> None:
        self._list(ELASTIC_QUOTAS, self.quotas, self.reconciler.on_quota)
        exhaust(self.reconciler.step)

    def _list(self, kind: ResourceType[Any], store: IndexedStore[Any], apply: Any) -> None:
        page = self.kit.client.list_page(kind)
        items: list[Any] = list(page.items)
        changes = [change for item in items for change in store.put_observed(item)]
        keys = {item.metadata.key for item in items}
        changes += store.remove_vanished(keys, page.resource_version)
        for old, new in changes:
            apply(old, new)

    def add_quota(self, name: str = "team", **metadata: Any) -> None:
        self.direct.create(elastic_quota_body(name, max={"cpu": 1}, metadata=metadata))

    def queue(self, name: str = "team") -> Json:
        return self.direct.get("queues", name, QUEUE_NAMESPACE)

    def patch_annotations(self, plural: str, annotations: Mapping[str, str | None]) -> None:
        namespace = QUEUE_NAMESPACE if plural == "queues" else "default"
        patch = {"metadata": {"annotations": annotations}}
        self.direct.patch(plural, "team", patch, namespace=namespace)

    def has_queue(self, name: str = "team") -> bool:
        return self.direct.exists("queues", name, QUEUE_NAMESPACE)


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_quota_gets_a_queue(room: Room) -> None:
    room.add_quota(labels={POLICY: "Block"}, annotations={"koord-queue/max-depth": "3", "x": "y"})
    room.look()
    made = room.queue()
    assert made["metadata"]["labels"] == {"create-by-koordqueue": "true"}
    assert made["metadata"]["annotations"] == {
        "koord-queue/max-depth": "3",
        "koord-queue/copied-annotations": "koord-queue/max-depth",
    }
    assert made["spec"] == {"queuePolicy": "Block", "priority": 1000}


def test_the_queue_names_the_parent_and_has_a_default_policy(room: Room) -> None:
    room.direct.create(elastic_quota_body("team", parent="root-of-all"))
    room.look()
    labels = room.queue()["metadata"]["labels"]
    assert labels["quota.scheduling.koordinator.sh/parent"] == "root-of-all"
    assert room.queue()["spec"]["queuePolicy"] == "Priority"


def test_nothing_is_taken_from_a_queue_before_all_policies_are_known(room: Room) -> None:
    room.stated = PolicyStatement("p", FairShare(half_life="1h"))
    room.add_quota()
    room.look()
    assert room.queue()["spec"]["fairShare"] == {"halfLife": "1h"}
    room.stated, room.are_policies_known = None, False
    room.reconciler.reconcile_all()
    room.look()
    assert room.queue()["spec"]["fairShare"] == {"halfLife": "1h"}
    room.are_policies_known = True
    room.kit.clock.advance(POLICIES_UNKNOWN_SECONDS)
    room.look()
    assert "fairShare" not in room.queue()["spec"]


def test_the_queues_of_a_policy_are_reconciled_in_its_order(room: Room) -> None:
    """In every process: a set has another order under another hash seed."""
    quotas = [f"team-{number * 5 % 12}" for number in range(12)]
    room.reconciler.on_quota_policy(None, build_policy("p", quotas))
    assert [room.names.try_get() for _ in quotas] == quotas


def test_at_rest_nothing_is_written(room: Room) -> None:
    room.add_quota()
    room.look()
    room.look()
    room.reconciler.on_quota(None, room.quotas.list()[0])
    room.look()
    assert room.kit.writes("queues") == 1


def test_the_queue_follows_the_quotas_policy_and_annotations(room: Room) -> None:
    room.add_quota(labels={POLICY: "Block"})
    room.look()
    patch = {
        "metadata": {"labels": {POLICY: "FIFO"}, "annotations": {"koord-queue/max-depth": "9"}}
    }
    room.direct.patch("elasticquotas", "team", patch, namespace="default")
    room.look()
    assert room.queue()["spec"]["queuePolicy"] == "FIFO"
    assert room.queue()["metadata"]["annotations"]["koord-queue/max-depth"] == "9"


def test_annotations_of_a_quota_under_the_old_prefix_reach_its_queue(room: Room) -> None:
    legacy = {"kube-queue/max-depth": "1", "kube-queue/priority-threshold": "5"}
    today = {"koord-queue/max-depth": "2"}
    room.add_quota(labels={"kube-queue/queue-policy": "Block"}, annotations={**legacy, **today})
    room.look()
    made = room.queue()
    assert made["spec"]["queuePolicy"] == "Block"
    annotations = made["metadata"]["annotations"]
    assert annotations.pop("koord-queue/copied-annotations")
    assert annotations == {"koord-queue/max-depth": "2", "koord-queue/priority-threshold": "5"}
    patch = {"metadata": {"labels": {"kube-queue/queue-policy": "FIFO"}}}
    room.direct.patch("elasticquotas", "team", patch, namespace="default")
    room.look()
    assert room.queue()["spec"]["queuePolicy"] == "FIFO"


def test_an_annotation_removed_from_the_quota_is_removed_from_its_queue(room: Room) -> None:
    copied = {"koord-queue/max-depth": "3", "kube-queue/wait-for-pods-running": "true"}
    room.add_quota(annotations=copied)
    room.look()
    room.patch_annotations("queues", {"koord-queue/priority-threshold": "7", "mine": "too"})
    room.look()
    room.patch_annotations("elasticquotas", {"koord-queue/max-depth": None})
    room.look()
    mine = {"koord-queue/priority-threshold": "7", "mine": "too"}
    rest = "koord-queue/wait-for-pods-running"
    listed = {"koord-queue/copied-annotations": rest}
    assert room.queue()["metadata"]["annotations"] == {**mine, rest: "true", **listed}
    room.patch_annotations("elasticquotas", {"kube-queue/wait-for-pods-running": None})
    room.look()
    assert room.queue()["metadata"]["annotations"] == mine
    before = room.kit.writes("queues")
    room.look()
    assert room.kit.writes("queues") == before


def test_a_list_edited_by_users_is_corrected_and_removes_nothing_of_theirs(
    room: Room,
) -> None:
    room.add_quota(annotations={"koord-queue/max-depth": "3"})
    room.look()
    lies = {"koord-queue/copied-annotations": "mine,,koord-queue/max-depth", "mine": "1"}
    room.patch_annotations("queues", lies)
    room.look()
    annotations = room.queue()["metadata"]["annotations"]
    assert annotations["koord-queue/copied-annotations"] == "koord-queue/max-depth"
    assert (annotations["mine"], annotations["koord-queue/max-depth"]) == ("1", "3")


def test_the_parent_of_the_queue_is_that_of_its_quota(room: Room) -> None:
    room.add_quota()
    room.look()
    for parent in ("one", "two", None):
        patch = {"metadata": {"labels": {PARENT: parent}}}
        room.direct.patch("elasticquotas", "team", patch, namespace="default")
        room.look()
        assert room.queue()["metadata"]["labels"].get(PARENT) == parent


def test_a_policy_set_on_the_queue_stays_while_the_quota_names_none(room: Room) -> None:
    room.add_quota()
    room.look()
    mine = {"spec": {"queuePolicy": "FIFO", "priority": 5}}
    room.direct.patch("queues", "team", mine, namespace=QUEUE_NAMESPACE)
    room.look()
    assert room.queue()["spec"] == {"queuePolicy": "FIFO", "priority": 5}


def test_the_queue_is_deleted_with_its_quota(room: Room) -> None:
    room.add_quota()
    room.look()
    room.direct.delete("elasticquotas", "team", "default")
    room.look()
    assert not room.has_queue()


def test_no_queue_is_deleted_while_the_quotas_are_unknown(room: Room) -> None:
    """As after a restart while their kind is not served: users have set fields of the queue."""
    room.add_quota()
    room.look()
    room.are_quotas_known = False
    room.direct.delete("elasticquotas", "team", "default")
    room.look()
    assert room.queue()
    room.are_quotas_known = True
    room.kit.clock.advance(UNKNOWN_SECONDS)
    room.look()
    assert room.direct.list("queues") == []


def test_a_deleted_queue_is_created_again(room: Room) -> None:
    room.add_quota()
    room.look()
    room.look()  # the cache has seen the queue
    room.direct.delete("queues", "team", QUEUE_NAMESPACE)
    room.look()
    assert room.has_queue()


def test_a_queue_made_by_hand_is_never_touched(room: Room) -> None:
    room.direct.create(queue_body("team", policy="Block"))
    before = room.queue()
    room.add_quota(labels={POLICY: "FIFO"}, annotations={"koord-queue/max-depth": "9"})
    room.look()
    room.direct.delete("elasticquotas", "team", "default")
    room.look()
    assert room.queue() == before


def test_a_recreated_quota_keeps_its_queue(room: Room) -> None:
    room.add_quota()
    room.look()
    uid = room.queue()["metadata"]["uid"]
    room.direct.delete("elasticquotas", "team", "default")
    room.add_quota()
    room.look()
    assert room.queue()["metadata"]["uid"] == uid


def test_a_follower_writes_nothing_and_a_leader_catches_up(room: Room) -> None:
    room.kit.leads = False
    room.add_quota()
    room.look()
    assert not room.has_queue()
    room.kit.leads = True
    room.look()
    assert room.has_queue()


def test_a_replica_that_lost_the_lease_writes_no_queue_until_it_leads_again() -> None:
    lease = Follower()
    lease.leads = True
    with running_world() as world:
        world.start(leadership=lease)
        world.add_quota()
        world.settle()
        assert world.queue()
        lease.leads = False
        before = writes_to(world.server)
        world.add_quota("late")
        world.direct.delete("elasticquotas", "team", "default")
        world.settle(5.0)
        assert writes_to(world.server) == before
        lease.leads = True
        world.settle(2.0)
        assert world.queue("late")
        assert not world.direct.exists("queues", "team", QUEUE_NAMESPACE)


def test_a_busy_server_is_asked_again_when_it_said(room: Room) -> None:
    match = Match(verb="create", plural="queues")
    room.kit.server.faults.fail(429, match=match, retry_after_seconds=60)
    room.add_quota()
    room.look()
    assert room.reconciler.step() == pytest.approx(60.0)


@pytest.mark.parametrize("status", [403, 409, 422, 503])
def test_a_failed_write_is_retried(room: Room, status: int) -> None:
    room.kit.server.faults.fail(status, times=5, match=Match(verb="create", plural="queues"))
    room.add_quota()
    room.look()
    for _ in range(6):
        room.kit.clock.advance(1.0)
        exhaust(room.reconciler.step)
    assert room.has_queue()


def test_a_queue_created_meanwhile_by_a_user_is_theirs(room: Room) -> None:
    room.add_quota()
    page = room.kit.client.list_page(ELASTIC_QUOTAS)
    for item in page.items:
        assert isinstance(item, ElasticQuota)
        for old, new in room.quotas.put_observed(item):
            room.reconciler.on_quota(old, new)
    room.direct.create(queue_body("team", policy="FIFO"))
    exhaust(room.reconciler.step)  # it meets AlreadyExists
    room.kit.clock.advance(1.0)
    room.look()
    assert room.queue()["spec"]["queuePolicy"] == "FIFO"


@pytest.mark.parametrize("was_good", [False, True])
def test_an_unreadable_queue_is_not_written(room: Room, was_good: bool) -> None:
    room.direct.create(queue_body("team", metadata={"labels": OURS["labels"]}))
    if was_good:
        room.look()
    room.unreadable = {f"{QUEUE_NAMESPACE}/team"}
    room.add_quota(labels={POLICY: "Block"})
    before = room.kit.writes("queues")
    room.look_at_quotas()
    assert room.kit.writes("queues") == before
    room.unreadable = set()
    room.kit.clock.advance(UNREADABLE_SECONDS)
    room.look()
    assert room.queue()["spec"]["queuePolicy"] == "Block"


def test_an_unreadable_queue_is_reported_once_and_never_created_again() -> None:
    """As on a server with upstream's schema, or without one."""
    with running_world() as world:
        crd = "queues.scheduling.x-k8s.io"
        versions = world.direct.get("customresourcedefinitions", crd)["spec"]["versions"]
        loose = [{**each, "schema": {"openAPIV3Schema": OPEN_OBJECT}} for each in versions]
        world.direct.patch("customresourcedefinitions", crd, {"spec": {"versions": loose}})
        odd = queue_body("team")
        world.direct.create({**odd, "spec": {"priority": "high"}})
        world.add_quota()
        world.start(settle_seconds=120.0)
        assert "$.spec.priority" in world.note("team", "Unreadable")
        assert "create queues" not in writes_to(world.server)
        assert writes_to(world.server).count("patch queues/status") == 1


# --- only the decision ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota"]
)
def test_special_quotas_have_no_queue(name: str) -> None:
    assert decide_queue(name, QUEUE_NAMESPACE, elastic_quota(name), None) is None


def test_a_restart_while_quotas_are_not_served_deletes_no_queue() -> None:
    with running_world() as world:
        world.add_quota()
        world.start()
        crd = "elasticquotas.scheduling.sigs.k8s.io"
        versions = world.direct.get("customresourcedefinitions", crd)["spec"]["versions"]
        not_served = [{**each, "served": False} for each in versions]
        world.direct.patch("customresourcedefinitions", crd, {"spec": {"versions": not_served}})
        world.start(settle_seconds=10.0)
        assert world.queue()


def test_only_the_queue_of_that_uid_is_deleted() -> None:
    got = decide_queue("team", QUEUE_NAMESPACE, None, queue("team", metadata=OURS))
    assert isinstance(got, DeleteQueue)
    assert got.uid == "q1"
    going = {**OURS, "deletionTimestamp": "2026-11-01T10:00:00Z"}
    assert decide_queue("team", QUEUE_NAMESPACE, None, queue("team", metadata=going)) is None
    assert decide_queue("team", QUEUE_NAMESPACE, None, queue("team")) is None
    assert decide_queue("team", QUEUE_NAMESPACE, None, None) is None


def test_a_patch_is_for_the_queue_of_that_uid() -> None:
    quota = elastic_quota("team", metadata={"labels": {POLICY: "Block"}})
    got = decide_queue("team", QUEUE_NAMESPACE, quota, queue("team", metadata=OURS))
    assert got == PatchQueue({"spec": {"queuePolicy": "Block"}, "metadata": {"uid": "q1"}})


def test_the_switch_of_the_quota_is_copied() -> None:
    meta = {"annotations": {"quota-koord-queue-enable": "true"}}
    got = decide_queue("team", QUEUE_NAMESPACE, elastic_quota("team", metadata=meta), None)
    assert isinstance(got, CreateQueue)
    got_annotations = got.body["metadata"]["annotations"]
    assert got_annotations.pop("koord-queue/copied-annotations") == "quota-koord-queue-enable"
    assert got_annotations == meta["annotations"]


def test_a_queue_created_for_a_node_is_not_deleted_for_lack_of_a_quota() -> None:
    node = {"koord-queue/quota-fullname": "root/a"}
    made = queue("root-a", metadata={**OURS, "annotations": node})
    assert decide_queue("root-a", QUEUE_NAMESPACE, None, made) is None
    somebodys = queue("root-a", metadata={"annotations": node, "uid": "q1"})
    assert decide_queue("root-a", QUEUE_NAMESPACE, None, somebodys) is None


def test_a_queue_whose_reconcile_raises_is_reconciled_again(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_once(monkeypatch, queue_reconciler, "decide_queue")
    room.add_quota()
    room.look()
    assert not room.has_queue()
    room.kit.clock.advance(1.0)
    exhaust(room.reconciler.step)
    assert room.has_queue(), "without an event"
