"""The owners of owners: read from the API server, and cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queue_controllers.decision.owners import Above, NotReadError
from queue_controllers.watches.owner_lookup import (
    BELIEVED_SECONDS,
    MAX_FIELD_CHARS,
    NO_SUCH_KIND,
    NO_SUCH_OBJECT,
    OwnerReader,
    Remembered,
    memory_of,
)
from shared_api.client.errors import ServerError
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.objects.meta import OwnerReference, Uid
from tests.queue_controllers.owner_kit import wrap_job
from tests.sample_jobs import open_crd

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "top", "uid": "top"}
THINGS = open_crd("Thing", "things", "x.io")
CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": True}
OWNERS = Match(plural="cronjobs", verb="get")


def make_cron_job(world: World, *above: dict[str, Any], name: str = "nightly") -> dict[str, Any]:
    """Create a CronJob with these owners; return the owner reference of its jobs."""
    owners = [{**each, "controller": True} for each in above]
    metadata = {"name": name, "namespace": "team", "ownerReferences": owners}
    template = {
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}],
                }
            }
        }
    }
    spec = {"schedule": "0 0 * * *", "jobTemplate": template}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}
    made = world.direct.create(body)
    return {**CRON_JOB, "name": name, "uid": made["metadata"]["uid"]}


def gets(world: World) -> int:
    """Return how many requests for single objects of kinds that own jobs arrived."""
    return sum(
        entry.info.verb == "get" and entry.info.plural in {"cronjobs", "things"}
        for entry in world.server.journal
    )


def reference(body: dict[str, Any]) -> OwnerReference:
    return OwnerReference(
        api_version=body["apiVersion"], kind=body["kind"], name=body["name"], uid=Uid(body["uid"])
    )


def cron_job_named(name: str) -> OwnerReference:
    """Return a reference to a CronJob that does not exist."""
    return reference({**CRON_JOB, "name": name, "uid": name})


def test_a_job_under_a_cron_job_of_a_job_is_left_alone(world: World) -> None:
    world.start()
    wrapper = wrap_job(world.direct, "nightly", pods=2, kind="CronJob")
    world.job(suspend=False, owners=[make_cron_job(world, wrapper)])
    world.settle()
    assert world.units() == []
    assert not world.is_suspended()


def test_a_job_under_a_cron_job_without_owner_is_managed_with_one_read(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world)
    for name in ("main", "second"):
        world.job(name, owners=[cron_job])
        world.settle()
    world.admit()
    world.settle()
    assert not world.is_suspended()
    assert world.units() == ["main", "second"]
    assert gets(world) == 1


def test_a_job_under_an_object_that_its_owner_has_not_created(
    world: World,
) -> None:
    world.direct.create(THINGS)
    above = wrap_job(world.direct, "top", pods=2)
    for name, owners in (("above", [above]), ("free", [])):
        meta = {"name": name, "namespace": "team", "ownerReferences": owners}
        thing = world.direct.create({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": meta})
        owner = {"apiVersion": "x.io/v1", "kind": "Thing", "name": name, "controller": True}
        world.start()
        world.job(name, owners=[{**owner, "uid": thing["metadata"]["uid"]}])
        world.settle()
    assert world.units() == ["above", "free"]


def test_an_answer_is_cached_for_a_while(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world)
    reader = OwnerReader(world.host.client, world.clock)
    assert reader("team", reference(cron_job)) == Above()
    world.direct.patch(
        "cronjobs",
        "nightly",
        {"metadata": {"ownerReferences": [{**RAY_JOB, "controller": True}]}},
        namespace="team",
    )
    assert reader("team", reference(cron_job)) == Above()
    world.clock.advance(BELIEVED_SECONDS)
    above = reader("team", reference(cron_job)).owner
    assert above is not None
    assert above.kind == "RayJob"


def test_a_kind_that_may_not_be_read_ends_the_chain_and_is_not_read_again(world: World) -> None:
    world.start()
    world.server.faults.fail(403, times=5, match=OWNERS)
    for number in range(3):
        world.job(f"job-{number}", owners=[make_cron_job(world, name=f"cron-{number}")])
    world.settle()
    assert len(world.units()) == 3
    assert gets(world) == 1


@pytest.mark.parametrize(
    "api_version", ["x.io/v1", "v9", "../v1", "a/b/c", ""], ids=lambda text: text or "none"
)
def test_a_missing_kind_ends_the_chain(world: World, api_version: str) -> None:
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    before = len(world.server.journal)
    thing = {"apiVersion": api_version, "kind": "Thing", "name": "t"}
    assert reader("team", reference({**thing, "uid": "one"})).missing == NO_SUCH_KIND
    asked = len(world.server.journal) - before
    assert asked <= 1
    assert reader("team", reference({**thing, "uid": "two"})).missing == NO_SUCH_KIND
    assert len(world.server.journal) - before == asked


def test_another_object_of_the_name_is_not_the_owner(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world, RAY_JOB)
    reader = OwnerReader(world.host.client, world.clock)
    for each in ({"uid": "an-earlier-one"}, {"name": "gone", "uid": "gone"}):
        assert reader("team", reference({**cron_job, **each})) == Above(missing=NO_SUCH_OBJECT)


def test_used_answers_are_kept_however_many_others_arrive(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED", 10)
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    in_use = [cron_job_named(f"used-{number}") for number in range(5)]
    for number in range(40):
        for owner in (*in_use, cron_job_named(f"other-{number}")):
            assert reader("team", owner).owner is None
    assert gets(world) == len(in_use) + 40, "each was read once"


def test_answers_that_were_not_used_lately_are_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED", 10)
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    for name in ("first", *map(str, range(20)), "first"):
        assert reader("team", cron_job_named(name)).owner is None
    assert gets(world) == 22


def test_known_answers_count_while_the_server_fails(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world, RAY_JOB)
    reader = OwnerReader(world.host.client, world.clock)
    assert reader("team", reference(cron_job)).owner is not None
    world.clock.advance(BELIEVED_SECONDS)
    world.server.faults.fail(500, times=100, match=OWNERS)
    assert reader("team", reference(cron_job)).owner is not None


def test_a_failing_server_decides_nothing(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world, RAY_JOB)
    reader = OwnerReader(world.host.client, world.clock)
    world.server.faults.fail(500, times=100, match=OWNERS)
    with pytest.raises(ServerError):
        reader("team", reference(cron_job))
    world.server.faults.clear()
    assert reader("team", reference(cron_job)).owner is not None


def test_an_answer_about_a_uid_in_another_namespace_does_not_count(world: World) -> None:
    world.start()
    cron_job = make_cron_job(world, RAY_JOB)
    reader = OwnerReader(world.host.client, world.clock)
    assert reader("other", reference({**cron_job, "name": "no-such"})).owner is None
    above = reader("team", reference(cron_job)).owner
    assert above is not None
    assert above.kind == "RayJob"


def test_kinds_that_may_not_be_listed_end_the_chain(world: World) -> None:
    world.start()
    world.server.faults.fail(
        403, times=EVERY_TIME, match=Match(when=lambda info: info.path == "/apis/x.io/v1")
    )
    owner = {"apiVersion": "x.io/v1", "kind": "Thing", "name": "mine", "uid": "u"}
    world.job(owners=[{**owner, "controller": True}])
    world.settle()
    assert world.units() == ["main"]


def test_a_job_ends_without_an_answer_about_its_owner(world: World) -> None:
    cron_job = make_cron_job(world)
    world.start()
    world.job(owners=[cron_job])
    world.settle()
    world.admit()
    world.settle()
    world.run_pods()
    world.server.faults.fail(503, times=EVERY_TIME, match=OWNERS)
    world.complete()
    world.start()
    world.settle(5.0)
    assert world.phase() == "Succeed"
    assert gets(world) == 1, "asked before its end"


def test_cached_answers_are_recalled_without_a_read(world: World) -> None:
    owner = make_cron_job(world, RAY_JOB)
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    asked = OwnerReference(
        api_version="batch/v1", kind="CronJob", name="nightly", uid=Uid(owner["uid"])
    )
    with pytest.raises(NotReadError, match="CronJob nightly"):
        reader.recall("team", asked)
    read = reader("team", asked)
    world.direct.delete("cronjobs", "nightly", "team")
    world.clock.advance(10 * BELIEVED_SECONDS)
    before = len(world.server.journal)
    assert reader.recall("team", asked) == read
    with pytest.raises(NotReadError):
        reader.recall("other", asked)
    assert len(world.server.journal) == before


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * (MAX_FIELD_CHARS + 1), id="longer than any"),
        pytest.param("\N{SNOWMAN}", id="not ASCII"),
    ],
)
def test_an_owner_that_cannot_be_is_neither_asked_about_nor_remembered(
    world: World, field: str, text: str
) -> None:
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    owner = reference({**make_cron_job(world, RAY_JOB), field: text})
    before = len(world.server.journal)
    assert reader("team", owner) == Above(missing=NO_SUCH_OBJECT)
    assert reader.recall("team", owner) == Above(missing=NO_SUCH_OBJECT)
    assert len(world.server.journal) == before


def test_an_owner_of_an_owner_that_cannot_be_is_not_remembered(world: World) -> None:
    cron_job = make_cron_job(world, {**RAY_JOB, "uid": "x" * (MAX_FIELD_CHARS + 1)})
    world.start()
    reader = OwnerReader(world.host.client, world.clock)
    assert reader("team", reference(cron_job)) == Above()
    longest = make_cron_job(world, {**RAY_JOB, "uid": "x" * MAX_FIELD_CHARS}, name="other")
    assert reader("team", reference(longest)).owner is not None


def test_large_values_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED_BYTES", 10)
    remembered: Remembered[str, str] = Remembered(len)
    remembered.put("in use", "abc")
    for name in ("a", "b", "c", "d", "e"):
        remembered.put(name, "123456")
        assert remembered.get("in use") == "abc"
    assert [name for name in "abcde" if remembered.get(name) is not None] == ["d", "e"]


def test_a_value_that_is_replaced_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED_BYTES", 10)
    remembered: Remembered[str, str] = Remembered(len)
    remembered.put("idle", "abc")
    for _ in range(9):
        remembered.put("renewed", "1234")
    assert remembered.get("idle") == "abc"


def test_many_small_values_take_more_memory_than_their_text() -> None:
    assert memory_of({"a": "x" * 3000}) < 3300
    assert memory_of([{} for _ in range(1000)]) > 100_000
