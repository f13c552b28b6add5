"""ResourceQuota: a unit's quota and queue, and what counts against `hard`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.extension_points import Supposed
from queue_scheduler.framework.plugin_questions import loan_of, view_all_quotas
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.refusal_texts import stable_message
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import Admission, ReclaimablePod
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.testing.object_builders import resource_quota
from tests.properties.engine_kit import build_pod, build_queue, build_unit
from tests.queue_scheduler.quota_source_kit import SourceEngine


def hard(name: str = "rq", namespace: str = "ns", **limits: Any) -> ResourceQuota:
    limits = {key.replace("requests_", "requests."): value for key, value in limits.items()}
    return resource_quota(name, namespace=namespace, hard=limits, metadata={"uid": f"uid-{name}"})


def world(*quotas: ResourceQuota, queues: tuple[str, ...] = ("default",)) -> SourceEngine:
    room = SourceEngine(ResourceQuotaPlugin())
    for quota in quotas:
        room.apply(quota)
    room.add_queues(*queues)
    return room


@pytest.mark.parametrize(
    ("queues", "unit", "want"),
    [
        pytest.param(("ns", "default"), {}, "ns", id="named like the namespace"),
        pytest.param(("default",), {}, "default", id="else default"),
        pytest.param(("mine", "ns"), {"queue": "mine"}, "mine", id="spec.queue"),
        pytest.param(
            ("mine", "ns"),
            {"annotations": {"koord-queue/queue-name": "mine"}},
            "mine",
            id="annotation",
        ),
        pytest.param(("ns",), {"quota": "gold", "queue": "gold"}, "ns", id="as controllers do"),
    ],
)
def test_where_a_unit_waits(queues: tuple[str, ...], unit: dict[str, Any], want: str) -> None:
    room = world(hard(cpu=4), queues=queues)
    room.add("u", **unit)
    assert room.place("u") == ("ns/rq", want)


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        pytest.param([], "namespace ns has no ResourceQuota", id="none"),
        pytest.param([hard("a"), hard("b")], "several (a, b), and none is named ns", id="two"),
        pytest.param(
            [resource_quota("a", namespace="ns", scopes=["BestEffort"])],
            "namespace ns has no ResourceQuota without scopes",
            id="one about some pods",
        ),
    ],
)
def test_without_exactly_one_quota_a_unit_is_on_hold_and_says_what_exists(
    quotas: list[ResourceQuota], says: str
) -> None:
    room = world(*quotas)
    room.add("u")
    assert room.reason("u") is Reason.NO_QUOTA
    assert says in stable_message(room.refusal("u"))
    room.apply(hard("ns", cpu=4))
    assert room.place("u") == ("ns/ns", "default")


def test_the_namespace_is_that_of_the_job() -> None:
    room = world(hard(namespace="jobs", cpu=4))
    room.add("u", job="j")
    assert room.reason("u") is Reason.NO_QUOTA, "its job's namespace is unknown: its own counts"


def test_no_usage_is_charged_in_a_namespace_that_its_unit_only_names() -> None:
    room = world(hard("jobs", namespace="jobs", cpu=9))
    unit = build_unit("u", cpu=3, job="j", version=2)
    assert unit.spec.consumer_ref is not None
    consumer = replace(unit.spec.consumer_ref, namespace="jobs")
    unit = replace(unit, spec=replace(unit.spec, consumer_ref=consumer))
    room.engine.on_queue_unit(unit)
    assert room.start("default") == []
    refusal = refusal_of_unit(room.engine, "ns/u")
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.NO_QUOTA, "ns")


def test_a_unit_waits_for_a_queue() -> None:
    room = world(hard(cpu=4), queues=())
    room.add("u")
    assert (room.reason("u"), room.refusal("u").other) == (Reason.NO_QUEUE, "default")
    room.engine.on_queue(build_queue("ns"))
    assert room.start("ns") == ["u"]


@pytest.mark.parametrize("key", ["cpu", "requests_cpu"])
def test_several_at_once_never_exceed_the_limit(key: str) -> None:
    limits: dict[str, Any] = {key: 4}
    room = world(hard(**limits))
    for name in "abc":
        room.add(name, cpu=2)
    assert room.start("default") == ["a", "b"]
    refusal = room.refusal("c")
    assert (refusal.reason, refusal.quota, refusal.limit, refusal.used) == (
        Reason.OVER_QUOTA_MAX,
        "ns/rq",
        4000,
        4000,
    )
    room.finish("a")
    assert room.start("default") == ["c"]


def test_pods_of_units_and_of_no_unit_are_counted() -> None:
    room = world(hard(pods=5, cpu=100))
    room.add("two", pods=(("main", 2, 1),))
    assert room.start("default") == ["two"]
    room.write("two")
    room.engine.on_pod(build_pod("foreign"))
    room.add("three", pods=(("main", 3, 1),))
    assert room.start("default") == []
    refusal = room.refusal("three")
    assert (refusal.resource, refusal.used, refusal.requested) == ("pods", 3, 3)
    twin = room.restarted(ResourceQuotaPlugin())
    twin.apply(hard(pods=5, cpu=100))
    twin.engine.on_pod(build_pod("foreign"))
    assert twin.start("default") == []
    assert twin.refusal("three").used == 3, "a restart counts the same pods"
    room.finish("two")
    assert room.start("default") == ["three"]


def test_of_a_reducible_unit_only_granted_pods_are_counted() -> None:
    room = world(hard(pods=5))
    room.add("a", pods=(("main", 2, 1),))
    room.add("b", pods=(("main", 4, 1, 2),))
    assert room.start("default") == ["a", "b"]
    room.add("c", pods=(("main", 1, 1),))
    assert room.start("default") == [], "two and three of four are all five"
    room.finish("a")
    assert room.start("default") == ["c"]


def test_granted_pods_are_counted_before_the_write() -> None:
    room = world(hard(pods=3))
    room.engine.on_pod(build_pod("of-b", cpu=4, unit="ns/b", quota=""))
    room.add("b", pods=(("main", 4, 1, 2),))
    assert room.start("default") == ["b"]
    (plugin,) = room.engine.plugins
    assert isinstance(plugin, ResourceQuotaPlugin)
    (view,) = view_all_quotas(PluginRunner([plugin]))
    assert view.used["pods"] == 2, "in addition to the pod of its earlier run"


def test_a_unit_that_lacks_a_required_request_is_on_hold_while_it_is_governed() -> None:
    room = SourceEngine(ResourceQuotaPlugin(frozenset({"cpu"})))
    room.apply(hard(requests_cpu=4, pods=9))
    room.add_queues("default")
    room.add("free", pods=(("main", 1, 0),))
    assert room.reason("free") is Reason.REQUESTS_MISSING
    assert "requests no cpu" in stable_message(room.refusal("free"))
    twin = refusal_of_unit(room.engine.fork(), "ns/free")
    assert twin is not None
    assert twin.reason is Reason.REQUESTS_MISSING
    room.apply(hard(pods=9))
    assert room.start("default") == ["free"]
    room.add("free-too", pods=(("main", 1, 0),))
    room.apply(
        replace(hard(requests_cpu=4), metadata=replace(hard().metadata, resource_version="3"))
    )
    assert room.reason("free-too") is Reason.REQUESTS_MISSING


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({"requests_cpu": 4}, ("cpu",), id="nothing of it"),
        pytest.param({"requests_cpu": 4, "pods": 9}, (), id="a pod of it"),
    ],
)
def test_a_unit_that_takes_nothing_of_its_quota_is_found(
    limits: dict[str, Any], want: tuple[str, ...]
) -> None:
    room = world(hard(**limits))
    room.add("free", pods=(("main", 1, 0),))
    (plugin,) = room.engine.plugins
    assert isinstance(plugin, ResourceQuotaPlugin)
    record = room.engine.record("ns/free")
    assert record is not None
    assert record.info is not None
    assert plugin.find_unrequested(record.info) == want


def used(room: SourceEngine) -> tuple[int, int]:
    """Return the pods and CPUs that are charged to the one quota."""
    (plugin,) = room.engine.plugins
    assert isinstance(plugin, ResourceQuotaPlugin)
    (view,) = view_all_quotas(PluginRunner([plugin]))
    return view.used.get("pods", 0), view.used.get("cpu", 0)


def running(pods: int) -> SourceEngine:
    """Return a unit that runs with this many pods, which are all there are."""
    room = world(hard(pods=4, cpu=100))
    room.add("a", pods=(("main", pods, 1),))
    assert room.start("default") == ["a"]
    room.write("a")
    room.change("a", phase="Running")
    return room


def live(room: SourceEngine, pods: int) -> None:
    for n in range(pods):
        room.engine.on_pod(build_pod(f"p{n}", unit="ns/a", quota=""))


def again(room: SourceEngine, pods: int = 0) -> SourceEngine:
    """Return another that gets the same facts."""
    twin = room.restarted(ResourceQuotaPlugin())
    twin.apply(hard(pods=4, cpu=100))
    live(twin, pods)
    twin.engine.validate()
    return twin


def test_pods_are_given_back_too() -> None:
    room = running(4)
    done = (ReclaimablePod(name="main", count=3),)
    room.change("a", reclaimable_pods=done)
    assert used(room) == used(again(room)) == (1, 1000)
    room.add("b", pods=(("main", 3, 1),))
    assert room.start("default") == ["b"]


def test_lowered_admissions_lower_the_pods() -> None:
    room = running(4)
    room.change("a", admissions=(Admission(name="main", replicas=2, running=2),))
    assert used(room) == used(again(room)) == (2, 2000)


@pytest.mark.parametrize("how", ["ended", "evicted", "deleted"])
def test_of_a_unit_without_quota_the_living_pods_count(how: str) -> None:
    room = running(4)
    live(room, 4)
    if how == "deleted":
        room.delete("a")
    else:
        room.change("a", phase="Succeed" if how == "ended" else "Enqueued", admissions=())
    assert used(room) == used(again(room, 4)) == (4, 4000)
    room.engine.on_pod_gone(build_pod("p3", unit="ns/a", quota=""))
    assert used(room) == used(again(room, 3)) == (3, 3000)
    room.add("b", pods=(("main", 2, 1),))
    assert "b" not in room.start("default")


def test_more_pods_than_were_granted_count() -> None:
    room = running(2)
    live(room, 3)
    assert used(room) == used(again(room, 3)) == (3, 3000)


def test_pods_of_no_unit_count_while_they_exist_and_pods_of_units_once() -> None:
    room = world(hard(cpu=4))
    room.engine.on_pod(build_pod("foreign", cpu=2, node=""))
    room.add("a", cpu=2)
    assert room.start("default") == ["a"]
    room.write("a")
    room.engine.on_pod(build_pod("of-a", cpu=2, unit="ns/a", quota=""))
    room.add("b", cpu=1)
    assert room.start("default") == []
    assert room.refusal("b").used == 4000
    room.engine.on_pod_gone(build_pod("foreign", cpu=2, node=""))
    assert room.start("default") == ["b"]


def test_pods_of_other_namespaces_do_not_count() -> None:
    room = world(hard(cpu=2), hard("other", namespace="other", cpu=9))
    room.engine.on_pod(build_pod("foreign", cpu=2, namespace="other"))
    room.add("a", cpu=2)
    assert room.start("default") == ["a"]


def test_pods_that_existed_before_their_quota_count() -> None:
    room = world()
    room.engine.on_pod(build_pod("foreign", cpu=3))
    room.add("a", cpu=2)
    room.apply(hard(cpu=4))
    assert room.start("default") == []
    assert room.refusal("a").used == 3000


def test_a_raised_limit_wakes() -> None:
    room = world(hard(cpu=1))
    room.add("a", cpu=2)
    assert room.start("default") == []
    assert room.reason("a") is Reason.EXCEEDS_QUOTA
    room.apply(hard(cpu=2))
    assert room.start("default") == ["a"]


def test_a_deleted_quota_holds_waiting_units_and_keeps_its_bookings() -> None:
    room = world(hard(cpu=4))
    room.add("runs", cpu=3)
    room.start("default")
    room.write("runs")
    room.add("waits", cpu=2)
    room.start("default")
    room.apply_gone(hard(cpu=4))
    assert room.reason("waits") is Reason.NO_QUOTA
    room.apply(hard(cpu=4))
    assert room.start("default") == []
    assert room.refusal("waits").used == 3000


def test_events_of_a_recreated_quota_are_not_of_the_old_one() -> None:
    room = world(hard(cpu=4))
    old = resource_quota("rq", namespace="ns", metadata={"uid": "before"})
    room.apply_gone(old)
    room.add("u")
    assert room.place("u") == ("ns/rq", "default")


def test_an_unreadable_amount_is_reported_on_the_quota() -> None:
    room = world(hard(cpu="lots"))
    (notice,) = room.engine.take_notices()
    assert (notice.kind, notice.key, notice.uid, notice.reason) == (
        "ResourceQuota",
        "ns/rq",
        "uid-rq",
        "UnreadableAmount",
    )
    assert room.engine.take_notices() == []
    room.add("u")
    assert room.start("default") == []
    assert room.reason("u") is Reason.BROKEN_CHAIN


def test_a_fork_is_independent() -> None:
    room = world(hard(cpu=4))
    plugin = next(iter(room.engine.plugins))
    assert isinstance(plugin, ResourceQuotaPlugin)
    fork = plugin.fork()
    fork.on_quota_source_gone(hard(cpu=4))
    assert [view.name for view in view_all_quotas(PluginRunner([plugin]))] == ["ns/rq"]
    assert view_all_quotas(PluginRunner([fork])) == []


def test_suppositions_without_other_units() -> None:
    room = world(hard(cpu=4, pods=3))
    room.add("runs", cpu=3)
    room.start("default")
    room.add("waits", cpu=2)
    room.start("default")
    record = room.engine.record("ns/waits")
    assert record is not None
    assert record.info is not None
    ask = room.engine.plugins.check_without
    assert ask(record.info, [Uid("uid-other")]) is not None
    assert ask(record.info, [Uid("uid-runs")]) is None
    besides = [Supposed("ns/rq", {"cpu": 1000})] * 3
    refusal = ask(record.info, [Uid("uid-runs")], besides)
    assert refusal is not None
    assert ask(record.info, [Uid("uid-runs")], [Supposed("ns/rq", {}, pods=2)]) is None
    refusal = ask(record.info, [Uid("uid-runs")], [Supposed("ns/rq", {}, pods=3)])
    assert refusal is not None
    assert (refusal.resource, refusal.used) == ("pods", 3)
    assert room.start("default") == [], "nothing has changed"


def test_its_units_say_what_they_were_admitted_on_and_borrow_nothing() -> None:
    room = world(hard(cpu=4))
    for name in "ab":
        room.add(name, cpu=1)
    assert room.start("default") == ["a", "b"]
    record = room.engine.record("ns/b")
    assert record is not None
    assert record.admitted_on is not None
    rows = [(each.resource, each.limit, each.used) for each in record.admitted_on.limits()]
    assert rows == [("cpu", 4000, 1000)]
    assert loan_of(room.engine.plugins, record.uid) is None
