"""Each port is asked something, by each kind of user that it tells apart."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute

from tests.flood.questions import USERS, Asked, Port, User, questions
from tests.properties.hidden_world import HiddenWorld, open_doors

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


def test_every_answer_of_the_page_is_asked_for() -> None:
    asked = {each.target.partition("?")[0] for each in questions(Port.PAGE, ASKED)}
    routes = [each for each in open_doors(HiddenWorld(0)).page.routes if isinstance(each, APIRoute)]
    missing = {each.path for each in routes if not any(map(each.path_regex.match, asked))}
    assert missing == {"/page/events"}, "a stream of news has no end to wait for"
