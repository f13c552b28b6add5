"""Which of several extensions manages a kind."""

from __future__ import annotations

import re

import pytest

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import JobKind
from queue_controllers.watches.kind_election import KindTurn, take_turns
from shared_api.client.errors import ServerError
from shared_api.program_flags import FlagError


def kind(key: str, version: str, name: str = "MPIJob") -> JobKind:
    return JobKind(key=key, group="kubeflow.org", version=version, kind=name, plural="mpijobs")


class Server:
    """The served kinds, and the turns of two extensions, of which `new` is first."""

    def __init__(self, *served: str) -> None:
        self.served = served
        turns = take_turns([kind("new", "v2"), kind("old", "v1")])
        self.new, self.old = turns.values()

    def ask(self, turn: KindTurn) -> str | None:
        return turn.take(lambda each: each.version in self.served)


def test_each_waits_for_its_crd() -> None:
    server = Server()
    assert (server.ask(server.new), server.ask(server.old)) == (None, None)


@pytest.mark.parametrize(
    ("served", "want"),
    [
        pytest.param("v1", "old", id="only the old version is served"),
        pytest.param("v2", "new", id="only the new version is served"),
    ],
)
def test_the_served_version_decides(served: str, want: str) -> None:
    server = Server(served)
    answers = {"new": server.ask(server.new), "old": server.ask(server.old)}
    assert [key for key, answer in answers.items() if answer == ""] == [want]


def test_of_two_versions_the_extension_that_is_enabled_first_is_active() -> None:
    server = Server("v1", "v2")
    waits = "waits while extension new serves that kind in another version"
    assert server.ask(server.old) == waits
    assert server.ask(server.new) == ""
    assert server.ask(server.old) == waits


def test_the_former_extension_stops_before_another_starts() -> None:
    server = Server("v1")
    assert server.ask(server.old) == ""
    server.served = ("v1", "v2")
    assert server.ask(server.new) == "waits while extension old serves that kind in another version"
    assert server.ask(server.old) == "waits while extension new serves that kind in another version"
    server.old.give_back()
    assert server.ask(server.new) == ""


def test_a_held_turn_may_be_taken_again() -> None:
    server = Server("v1")
    assert (server.ask(server.old), server.ask(server.old)) == ("", "")


def test_a_failed_discovery_ends_no_turn() -> None:
    server = Server("v1")
    server.ask(server.old)

    def fail(_: JobKind) -> bool:
        raise ServerError(503)

    with pytest.raises(ServerError):
        server.old.take(fail)
    server.served = ("v2",)
    assert server.ask(server.new) == "waits while extension old serves that kind in another version"


def test_another_kind_of_the_group_is_ignored() -> None:
    turns = take_turns([kind("mpi", "v1"), kind("tf", "v2", "TFJob")])
    assert [each.take(lambda _: True) for each in turns.values()] == ["", ""]


def test_two_extensions_for_one_kind_in_one_version_are_refused() -> None:
    message = "extensions mpi and mine both queue MPIJob (kubeflow.org/v1): enable one of them"
    with pytest.raises(FlagError, match=re.escape(message)):
        take_turns([kind("mpi", "v1"), kind("mine", "v1")])


def test_all_built_in_ones_can_be_enabled_together() -> None:
    kinds = [each.kind for each in EXTENSIONS]
    assert list(take_turns(kinds)) == [(each.api_version, each.kind) for each in kinds]
