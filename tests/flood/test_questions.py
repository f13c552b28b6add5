"""Each port is asked something, by each kind of user that it tells apart."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from tests.flood.questions import USERS, Asked, Port, User, questions
from tests.properties.hidden_world import Doors, HiddenWorld, open_doors

ASKED = Asked("unit", "job", {"Authorization": "Bearer x"}, "x")


@pytest.mark.parametrize("port", Port)
def test_questions_differ_and_have_their_askers_credentials(port: Port) -> None:
    found = questions(port, ASKED)
    names = [each.name for each in found]
    assert len(names) == len(set(names)) >= 3
    assert all(each.headers["Authorization"] == "Bearer x" for each in found)


def test_each_port_is_flooded_by_strangers_and_what_needs_rights_by_all() -> None:
    assert USERS.keys() == set(Port)
    assert all(User.STRANGER in users for users in USERS.values())
    assert all(USERS[port] == tuple(User) for port in (Port.PAGE, Port.AGGREGATED))


def test_a_login_does_not_end_the_session_that_asks() -> None:
    asked = ASKED._replace(credentials={"Cookie": "session=1"})
    login = next(each for each in questions(Port.PAGE, asked) if "POST /page/session" in each.name)
    assert login.headers["Cookie"] == ""


@pytest.mark.parametrize(
    ("port", "door", "endless"),
    [
        (Port.SCHEDULER_DEBUG, attrgetter("debug"), set()),
        # A stream of news has no end to wait for.
        (Port.PAGE, attrgetter("page"), {"/page/events"}),
    ],
)
def test_every_answer_is_asked_for(
    port: Port, door: Callable[[Doors], FastAPI], endless: set[str]
) -> None:
    asked = {each.target.partition("?")[0] for each in questions(port, ASKED)}
    routes = door(open_doors(HiddenWorld(0))).routes
    answers = [each for each in routes if isinstance(each, APIRoute)]
    missing = {each.path for each in answers if not any(map(each.path_regex.match, asked))}
    assert missing == endless
