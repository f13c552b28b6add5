"""Engines as bytes: plugins lose their handle, and nothing but classes of engines is named."""

from __future__ import annotations

import os
import pickle
import random
import shutil
from contextlib import suppress
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any, Final, Self

import msgspec
import pytest
from msgspec.structs import replace

from queue_insight.record import checkpoint
from queue_insight.record.checkpoint import PIECE, _of_level, freeze, thaw
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.digest import digest
from queue_scheduler.cache.unit_state import UnitState, judge
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework import installed_packages
from queue_scheduler.framework.handle import Handle
from queue_scheduler.framework.offline_handle import OfflineHandle
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.schedules import key_of
from queue_scheduler.setup.plugin_handle import PluginHandle
from shared_api.client.transport import Transport
from shared_api.objects.pod import Container, Pod, PodSpec, ResourceRequirements
from shared_api.objects.quota_policy import UserLimit
from shared_api.well_known_labels import RELATED_QUEUE_UNIT
from tests.properties import engine_kit
from tests.properties.engine_kit import (
    Workers,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
    changed,
    started,
)
from tests.properties.real_quotas import new_engine
from tests.queue_scheduler.engine.test_limit_changes import Team, rule
from tests.queue_scheduler.setup.test_plugin_handle import build_caches
from tests.queue_scheduler.shell_kit import HeldWrites, SentEvents, ShellKit
from tests.queue_scheduler.tenants.test_quota_use import Teams, build_teams
from tests.reserved_world import build_reservation, build_spec


class KeepsHandle:
    """A plugin of another package that keeps what it got at start-up."""

    name = "KeepsHandle"

    def __init__(self, handle: Handle, extra: object = None) -> None:
        self.handle = handle
        self.extra = extra

    def fork(self) -> Self:
        return type(self)(self.handle, self.extra)


def build_handle() -> PluginHandle:
    caches = build_caches(ShellKit())
    return PluginHandle(caches, Fraction(5, 4), SentEvents(), HeldWrites())


class Named:
    """Pickled as a call of whatever is given."""

    def __init__(self, function: object, *args: object) -> None:
        self._call = (function, args)

    def __reduce__(self) -> Any:
        return self._call


def in_pieces(piece: bytes, level: int = 0) -> bytes:
    """Return a checkpoint of one piece."""
    return msgspec.msgpack.encode([[piece] if number == level else [] for number in range(3)])


def test_a_thawed_engine_decides_as_before() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue(build_queue("a", "Block"))
    for number in range(3):
        engine.on_queue_unit(build_unit(f"u{number}", "a", created=number))
    twin = thaw(freeze(engine.fork()))
    assert digest(twin) == digest(engine)
    want = [engine.decide_next("a", 0.0) for _ in range(3)]
    assert [twin.decide_next("a", 0.0) for _ in range(3)] == want
    assert isinstance(want[0], Dequeue)
    assert digest(twin) == digest(engine)


HUGE: Final = str(2**63 - 1)
MANY: Final = {f"example.com/r{number}": "1" for number in range(2_000)}


@pytest.mark.parametrize("mode", list(QuotaMode))
@pytest.mark.parametrize("requests", [{"memory": HUGE}, MANY], ids=["huge", "many resources"])
def test_no_demand_of_a_user_keeps_an_engine_from_being_read(
    mode: QuotaMode, requests: dict[str, Any]
) -> None:
    """Else one job would leave all without answers: insight begins with a checkpoint."""
    engine = new_engine(QuotaSettings(mode=mode))
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue(build_queue("a", "Block"))
    for number, count in enumerate((1, 3, 2**31 - 1)):
        unit = build_unit(f"u{number}", "a", created=number, pods=(("main", count, 1),))
        container = Container(resources=ResourceRequirements(requests=requests))
        (pods,) = unit.spec.pod_set
        template = replace(pods.template, spec=PodSpec(containers=(container,)))
        spec = replace(unit.spec, pod_set=(replace(pods, template=template),))
        engine.on_queue_unit(replace(unit, spec=spec))
        for node in ("", "n1"):
            for unit_key in ("", f"ns/u{number}"):
                name = f"p{number}-{node}-{bool(unit_key)}"
                annotations = {RELATED_QUEUE_UNIT: unit_key}
                meta = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations}
                containers = [{"resources": {"requests": requests}}]
                body = {"metadata": meta, "spec": {"nodeName": node, "containers": containers}}
                engine.on_pod(msgspec.convert(body, Pod))
    for _ in range(5):
        engine.decide_next("a", 0.0)
    assert digest(thaw(freeze(engine.fork()))) == digest(engine)


def test_many_units_are_in_pieces_and_share_what_they_shared() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue(build_queue("a"))
    for number in range(2 * PIECE + 1):
        engine.on_queue_unit(build_unit(f"u{number}", "a"))
    turns = list[int]()
    data = freeze(engine.fork(), lambda: turns.append(0))
    assert [len(each) for each in msgspec.msgpack.decode(data)] == [1, 3, 1]
    assert len(turns) == 2  # of some 2,800 objects
    twin = thaw(data)
    assert digest(twin) == digest(engine)
    infos = [record.info for record in twin.units.records.values()]
    assert len({id(info.demand) for info in infos if info is not None}) == 1


def test_enums_are_written_by_their_values_whatever_python_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reduce(member: UnitState, _protocol: int) -> Any:
        return getattr, (type(member), member.name)  # that of Python 3.11.2

    monkeypatch.setattr(UnitState, "__reduce_ex__", reduce)
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_queue(build_queue("a", "Block"))
    engine.on_queue_unit(build_unit("u", "a"))
    twin = thaw(freeze(engine.fork()))
    (record,) = twin.units
    assert record.state is UnitState.WAITING


def test_policies_are_in_it_with_what_is_in_force() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota_policies_served(are_served=True)
    limits = (UserLimit(users=("ann",), max={"cpu": 1}), UserLimit(groups=("*",), running=2))
    engine.on_quota_policy(build_policy("p", ["a"], *limits))
    engine.on_quota_policy(build_policy("p", ["a"], UserLimit(users=("ann",), running=-1)))
    twin = thaw(freeze(engine.fork()))
    assert digest(twin) == digest(engine)
    assert twin.policies.limits_of("a").rules == engine.policies.limits_of("a").rules
    assert twin.policies.limits_of("a").for_group("x") is not None
    twin.on_quota_policy_gone("p")
    assert digest(twin) != digest(engine)


def test_reservations_are_in_it_with_what_is_in_force() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_schedules(expand_all([key_of(build_spec(rrule="FREQ=WEEKLY"))], engine_kit.WALL))
    engine.on_reservation(build_reservation(spec=build_spec(rrule="FREQ=WEEKLY")))
    engine.on_reservation(build_reservation(spec=build_spec(start="never")))
    twin = thaw(freeze(engine.fork()))
    assert digest(twin) == digest(engine)
    assert twin.reservations.rules() == engine.reservations.rules() != ()
    assert twin.usage.windows.concern("a")
    twin.on_reservation_gone("upgrade")
    assert digest(twin) != digest(engine)


def test_a_plugin_gets_an_offline_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("KeepsHandle", f"{__name__}:KeepsHandle", installed_packages.PLUGIN_GROUP)
    monkeypatch.setattr(installed_packages, "find_offered", lambda _group: [point])
    engine, _ = engine_kit.new_engine(KeepsHandle(build_handle()))
    plugin = thaw(freeze(engine.fork())).plugins.plugins[-1]
    assert isinstance(plugin, KeepsHandle)
    assert isinstance(plugin.handle, OfflineHandle)
    assert plugin.handle.oversell_rate == Fraction(5, 4)


def test_a_plugin_that_cannot_be_pickled_is_named() -> None:
    plugin = KeepsHandle(build_handle(), extra=lambda: None)
    engine, _ = engine_kit.new_engine(plugin)
    with pytest.raises(CheckpointError, match="KeepsHandle"):
        freeze(engine.fork())


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(Named(os.system, "true"), id="a function of the system"),
        pytest.param(Named(shutil.rmtree, "/nonexistent"), id="a function that deletes"),
        pytest.param(Named(eval, "1"), id="a builtin function"),
        pytest.param(Named(getattr, Pod, "__init__"), id="an attribute of a class"),
        pytest.param(Named(getattr, Pod(), "__class__"), id="a private attribute"),
        pytest.param(Named(getattr, Pod(), "metadata"), id="an attribute that is no method"),
        pytest.param(Named(Transport), id="a class that is no part of an engine"),
        pytest.param(Named(build_handle), id="a function of another package"),
        pytest.param(Named(freeze, 1), id="a function of this project"),
        pytest.param(Named(judge, build_unit("u")), id="a function of an allowed package"),
        pytest.param(Named(pickle.loads, b""), id="a second pickle, which nothing restricts"),
    ],
)
def test_a_hostile_pickle_is_refused(hostile: Named) -> None:
    for level in range(3):
        with pytest.raises(CheckpointError, match=r"not allowed|has no method|may not be called"):
            thaw(in_pieces(pickle.dumps([hostile], 5), level))


def test_what_an_allowed_module_imports_is_refused() -> None:
    name = b"queue_scheduler.framework.installed_packages\nentry_points\n"
    with pytest.raises(CheckpointError, match="not allowed"):
        thaw(in_pieces(b"\x80\x05c" + name + b")R."))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(freeze(engine_kit.new_engine()[0])[:-100], id="cut short"),
        pytest.param(pickle.dumps([1], 5), id="no pieces"),
        pytest.param(in_pieces(pickle.dumps([1], 5)), id="no engine"),
        pytest.param(in_pieces(pickle.dumps([object.__new__(Engine)], 5)), id="no parts"),
        pytest.param(in_pieces(pickle.dumps([Named(_of_level, -1, -1)], 5)), id="no such level"),
        pytest.param(in_pieces(pickle.dumps([Named(_of_level, 1, 0)], 5)), id="no such object"),
        pytest.param(in_pieces(b"cposix\nsystem\n(S'true'\ntR."), id="an old protocol"),
    ],
)
def test_damaged_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        thaw(data, also=("tests",))


def test_more_bytes_than_an_engine_has_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    data = freeze(engine_kit.new_engine()[0])
    monkeypatch.setattr(checkpoint, "MAX_BYTES", len(data) - 1)
    with pytest.raises(CheckpointError, match="bytes, at most"):
        thaw(data)


def test_a_changed_byte_is_refused_or_changes_the_engine_alone() -> None:
    """Whatever damage does, it ends with an engine or with one error, and leaves no trace."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue_unit(build_unit("u", "a"))
    data, chance, before = freeze(engine.fork()), random.Random(1), dict(vars(Engine))
    for _ in range(300):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(CheckpointError):
            thaw(bytes(changed))
    assert dict(vars(Engine)) == before


def test_limits_of_users_are_in_it() -> None:
    team = Team(cpu=8)
    team.limit("top", rule("ann", 8), rule("*", 4, pending=1))
    first = team.ask("ann", 6)
    assert team.rest() == [first]
    waits = team.ask("ann", 3)
    for _ in range(3):
        team.ask("bob", 3)
    team.rest()
    twin = thaw(freeze(team.engine.fork()))
    twin.validate()
    assert digest(twin) == digest(team.engine)
    record = twin.record(f"ns/{first}")
    assert record is not None
    workers = Workers(twin)
    workers.wake(twin.on_queue_unit(changed(record.unit, 999, "Succeed", admissions=())))
    assert started(workers.run()) == team.end(first)
    assert twin.units.records[f"ns/{waits}"].occupies


def test_turns_that_go_by_use_go_on_from_a_checkpoint() -> None:
    teams = Teams(*build_teams())
    teams.ask("a", 4)
    teams.run()
    teams.ask("a", 2)
    teams.ask("b", 2)
    twin = thaw(freeze(teams.engine.fork()))
    assert digest(twin) == digest(teams.engine)
    teams.engine = twin
    teams.workers.engine = twin
    teams.end()
    assert teams.run() == ["b", "b", "a", "a"]
