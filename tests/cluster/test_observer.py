"""The observer sees events of a real API server, before and after a restart of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.cluster.judgement import History
from tests.cluster.observer import Observer
from tests.cluster.queue_world import UNITS, QueueWorld
from tests.waiting import until


def admit(world: QueueWorld, name: str) -> None:
    """Write an admission that no scheduler has decided."""
    granted = [{"name": name, "replicas": 1, "running": 0}]
    world.patch_unit(name, {"status": {"phase": "Dequeued", "admissions": granted}})


def test_an_exceeded_quota_is_seen_on_a_real_server(controlplane_binaries: Path) -> None:
    """Two units of one CPU in a quota of one; the second after the server was down."""
    with ExitStack() as stack:
        world = stack.enter_context(QueueWorld(controlplane_binaries))
        observer = stack.enter_context(Observer(world.plane.client_for()))
        world.create_quota("small", cpu_max=1)
        for name in ("one", "two"):
            world.create_unit(name, "small", cpu=1)
        admit(world, "one")
        until(lambda: phases(observer).get("one") == "Dequeued")
        world.plane.kill_api_server()
        world.plane.restart_api_server()
        admit(world, "two")
        until(lambda: phases(observer).get("two") == "Dequeued")
        world.api.request("DELETE", f"{UNITS.format('default')}/one")
        until(lambda: any(seen.is_gone for seen in observer.seen))
    history = History()
    history.take_all(observer.seen)
    [violation] = history.violations
    assert violation.startswith("two takes quota small to 2000m CPU of 1000m, itself 1000m")
    assert history.used == {"small": 1000}


def phases(observer: Observer) -> dict[str, str]:
    """Return the last phase of every unit that was seen."""
    units = [seen.body for seen in observer.seen if seen.plural == "queueunits"]
    return {unit["metadata"]["name"]: unit["status"]["phase"] for unit in units}
