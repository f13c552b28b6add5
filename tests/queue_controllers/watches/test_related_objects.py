"""Facts about jobs from other objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.jobframework.generic_job import OtherObject
from queue_controllers.watches.related_objects import BELIEVED_SECONDS, RelatedObjectReader
from shared_api.client.errors import Forbidden, NotFound, ServerError
from shared_api.client.resource_types import OnlyMetadata
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.testing.virtual_clock import VirtualClock

OTHER = OtherObject(
    group="x.io", version="v1", plural="things", kind="Thing", name="t", object_type=OnlyMetadata
)


def job(generation: int = 1, uid: str = "job") -> ObjectMeta:
    return ObjectMeta(name="main", namespace="team", uid=Uid(uid), generation=generation)


def thing(version: str, owner: str = "job") -> OnlyMetadata:
    owners = (OwnerReference(uid=Uid(owner), controller=True),) if owner else ()
    return OnlyMetadata(metadata=ObjectMeta(resource_version=version, owner_references=owners))


class Server:
    """A server that answers as the test sets it, and counts."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def get(self, resource_type: Any, namespace: str, name: str) -> Any:
        self.asked.append(resource_type.path(namespace, name))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_answer_counts_while_the_job_stays_as_it_is() -> None:
    clock, server = VirtualClock(), Server(thing("1"))
    read = RelatedObjectReader(server, clock)
    assert read(job(), OTHER) == thing("1")
    assert server.asked == ["/apis/x.io/v1/namespaces/team/things/t"]
    server.answer = thing("2")
    clock.advance(BELIEVED_SECONDS - 1)
    assert read(job(), OTHER) == thing("1")
    assert read(job(generation=2), OTHER) == thing("2")
    server.answer = thing("3")
    clock.advance(BELIEVED_SECONDS)
    assert read(job(generation=2), OTHER) == thing("3")
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(NotFound(404), id="not there"),
        pytest.param(Forbidden(403), id="not to be read"),
        pytest.param(thing("1", owner=""), id="nobody's"),
        pytest.param(thing("1", owner="another"), id="another's"),
    ],
)
def test_missing_objects_are_read_again(answer: Any) -> None:
    clock, server = VirtualClock(), Server(answer)
    read = RelatedObjectReader(server, clock)
    assert read(job(), OTHER) is None
    server.answer = thing("1")
    assert read(job(), OTHER) == thing("1")
    server.answer = answer
    clock.advance(BELIEVED_SECONDS)
    assert read(job(), OTHER) == thing("1"), "an object that existed once counts"
    assert read(job(uid="other"), OTHER) is None


def test_an_object_above_the_job_need_not_be_controlled_by_it() -> None:
    read = RelatedObjectReader(Server(thing("1", owner="")), VirtualClock())
    above = msgspec.structs.replace(OTHER, is_child=False)
    assert read(job(), above) == thing("1", owner="")


def test_a_failing_server_is_reported_only_where_nothing_is_known() -> None:
    clock, server = VirtualClock(), Server(thing("1"))
    read = RelatedObjectReader(server, clock)
    read(job(), OTHER)
    server.answer = ServerError(503)
    assert read(job(generation=2), OTHER) == thing("1")
    with pytest.raises(ServerError):
        read(job(uid="other"), OTHER)


def test_cached_answers_are_recalled_without_a_read() -> None:
    clock, server = VirtualClock(), Server(thing("1"))
    read = RelatedObjectReader(server, clock)
    assert read.recall(job(), OTHER) is None
    read(job(), OTHER)
    clock.advance(10 * BELIEVED_SECONDS)
    assert read.recall(job(generation=2), OTHER) == thing("1")
    assert read.recall(job(uid="another"), OTHER) is None
    assert len(server.asked) == 1


def test_large_objects_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_controllers.watches.owner_lookup.MAX_REMEMBERED_BYTES", 5000)
    server = Server(thing("x" * 1000))
    read = RelatedObjectReader(server, VirtualClock())
    above = msgspec.structs.replace(OTHER, is_child=False)
    for number in range(20):
        read(job(uid=str(number)), above)
    kept = [number for number in range(20) if read.recall(job(uid=str(number)), above)]
    assert 2 <= len(kept) <= 8
    assert kept[-1] == 19


def test_an_answer_about_a_watched_object_counts_until_that_changes() -> None:
    def at(generation: int, uid: str = "t") -> OnlyMetadata:
        return OnlyMetadata(metadata=ObjectMeta(uid=Uid(uid), generation=generation))

    def watched(generation: int, uid: str = "t") -> OtherObject:
        return msgspec.structs.replace(OTHER, is_child=False, uid=Uid(uid), generation=generation)

    clock, server = VirtualClock(), Server(at(4))
    read = RelatedObjectReader(server, clock)
    assert read(job(), watched(4)) == at(4)
    clock.advance(10 * BELIEVED_SECONDS)
    assert read(job(generation=9), watched(4)) == at(4)
    assert len(server.asked) == 1
    server.answer = at(6)
    assert read(job(), watched(5)) == at(6)
    assert read(job(), watched(6)) == at(6), "it was read before its event came"
    assert len(server.asked) == 2
    server.answer = at(6, "later")
    assert read(job(), watched(1, "later")) == at(6, "later"), "another of its name"
