"""A pod is deleted at once, in the very version that was judged, and only by a leader."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.lost_pods.pod_deleter import PodDeleter
from queue_controllers.reconcile.execute import NotLeadingError
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.event_recorder import Event
from shared_api.client.resource_types import PODS
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.objects.pod import Pod
from shared_api.testing.object_builders import namespace_body
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.client_kit import client_to
from tests.follower import Follower
from tests.queue_controllers.lost_pods.lost_pods_kit import node, tainted

EARLY = "2026-11-01T10:00:00Z"


class Place:
    """A server with one pod, and what deletes it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.direct = self.server.direct
        self.direct.create(namespace_body("team"))
        meta = {"name": "p", "namespace": "team"}
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        self.pod = msgspec.convert(self.direct.create(body), Pod)
        self.events: list[Event] = []
        self.leadership = Follower()
        self.leadership.leads = True
        self.deleter = PodDeleter(client_to(self.server, self.clock), self.leadership, self)

    def record(self, event: Event) -> None:
        self.events.append(event)

    def pods(self) -> list[Any]:
        return self.direct.list("pods")


@pytest.fixture
def place() -> Place:
    return Place()


def test_its_node_is_not_waited_for(place: Place) -> None:
    place.deleter.delete(place.pod)
    assert place.pods() == []


def test_a_pod_that_has_changed_stays(place: Place) -> None:
    place.direct.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}, namespace="team")
    with pytest.raises(Conflict):
        place.deleter.delete(place.pod)
    assert len(place.pods()) == 1


def test_another_pod_of_the_name_stays(place: Place) -> None:
    meta = msgspec.structs.replace(place.pod.metadata, uid="uid-old")
    with pytest.raises(Conflict):
        place.deleter.delete(msgspec.structs.replace(place.pod, metadata=meta))
    assert len(place.pods()) == 1


def test_a_pod_that_is_gone(place: Place) -> None:
    place.deleter.delete(place.pod)
    with pytest.raises(NotFound):
        place.deleter.delete(place.pod)


def test_only_a_leader_deletes(place: Place) -> None:
    place.leadership.leads = False
    with pytest.raises(NotLeadingError):
        place.deleter.delete(place.pod)
    assert len(place.pods()) == 1


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(None, "now", id="it is deleted"),
        pytest.param({}, None, id="it is ready"),
        pytest.param(
            {"ready": "Unknown", "since": EARLY, "taints": (tainted(EARLY),)},
            EARLY,
            id="lost",
        ),
    ],
)
def test_what_the_server_knows_of_a_node(
    place: Place, fields: dict[str, Any] | None, want: str | None
) -> None:
    if fields is not None:
        place.direct.create(node("n", **fields))
    since = place.deleter.read_loss("n", place.clock.now())
    got = None if since is None else rfc3339(since)
    assert got == (rfc3339(place.clock.now()) if want == "now" else want)


def test_the_job_is_told(place: Place) -> None:
    place.deleter.report(PODS, place.pod.metadata, "It is deleted.")
    (event,) = place.events
    assert (event.reason, event.note, event.regarding.name) == (
        "LostPodDeleted",
        "It is deleted.",
        "p",
    )
