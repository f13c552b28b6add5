"""States that are kept for further pages: how many, for how long, and who may use a token."""

from __future__ import annotations

import base64
from http import HTTPStatus

import pytest

from queue_insight.visibility import snapshots
from queue_insight.visibility.snapshots import (
    KEPT_SECONDS,
    MAX_KEPT,
    MAX_OF_CALLER,
    KeptSnapshots,
    ListScope,
)
from queue_insight.visibility.statuses import StatusError
from queue_scheduler.engine.engine import Engine
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_unit
from tests.queue_insight.insight_kit import new_engine

SCOPE = ListScope("ann", "/pendingunits", "")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def kept(clock: VirtualClock) -> KeptSnapshots:
    return KeptSnapshots(clock)


def code_of(kept: KeptSnapshots, token: str, scope: ListScope = SCOPE) -> HTTPStatus:
    """Return how a token is answered."""
    try:
        kept.find(token, scope)
    except StatusError as error:
        return error.code
    return HTTPStatus.OK


def keep(kept: KeptSnapshots, user: str = "ann", engine: Engine | None = None) -> str:
    """Keep a state; return its token."""
    scope = SCOPE._replace(user=user)
    return kept.token(kept.keep(engine or new_engine(), user), 7, scope)


def test_a_token_leads_to_its_state(kept: KeptSnapshots) -> None:
    engine = new_engine()
    name = kept.keep(engine, "ann")
    assert kept.find(kept.token(name, 7, SCOPE), SCOPE) == (name, engine, 7)


@pytest.mark.parametrize(
    "scope",
    [
        SCOPE._replace(user="bob"),
        SCOPE._replace(path="/namespaces/zebra/pendingunits"),
        SCOPE._replace(selector="metadata.name=a"),
    ],
)
def test_a_token_is_of_no_use_for_anything_else(kept: KeptSnapshots, scope: ListScope) -> None:
    assert code_of(kept, keep(kept), scope) is HTTPStatus.GONE


def test_a_changed_token_is_of_no_use(kept: KeptSnapshots) -> None:
    content = bytearray(base64.urlsafe_b64decode(keep(kept)))
    for index in range(len(content)):
        changed = content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]
        token = base64.urlsafe_b64encode(changed).decode()
        assert code_of(kept, token) is HTTPStatus.GONE, index


def test_a_token_of_another_replica_has_expired(kept: KeptSnapshots, clock: VirtualClock) -> None:
    other = KeptSnapshots(clock)
    assert code_of(other, keep(kept)) is HTTPStatus.GONE


@pytest.mark.parametrize("token", ["x", "ä", "!", "A" * 44, "A" * 52, "\ud800", "A" * 100_000])
def test_what_is_no_token_is_refused(kept: KeptSnapshots, token: str) -> None:
    assert code_of(kept, token) is HTTPStatus.BAD_REQUEST


def test_a_token_says_nothing_of_objects(kept: KeptSnapshots) -> None:
    engine = new_engine()
    engine.on_queue_unit(build_unit("secret", namespace="zebra"))
    assert len({keep(kept, engine=engine) for _ in range(3)}) == 3
    content = base64.urlsafe_b64decode(keep(kept, engine=engine))
    assert not any(word in content for word in (b"secret", b"zebra", b"ann"))


def test_a_state_is_kept_for_a_while(kept: KeptSnapshots, clock: VirtualClock) -> None:
    token = keep(kept)
    clock.advance(KEPT_SECONDS - 1)
    assert code_of(kept, token) is HTTPStatus.OK
    clock.advance(1)
    assert code_of(kept, token) is HTTPStatus.GONE
    assert len(kept) == 0


def test_a_caller_who_begins_many_lists_takes_none_from_others(kept: KeptSnapshots) -> None:
    other = keep(kept, "bob")
    own = [keep(kept) for _ in range(20)]
    want = [HTTPStatus.GONE] * (20 - MAX_OF_CALLER) + [HTTPStatus.OK] * MAX_OF_CALLER
    assert [code_of(kept, token) for token in own] == want
    assert code_of(kept, other, SCOPE._replace(user="bob")) is HTTPStatus.OK


def test_the_number_of_states_is_bounded(kept: KeptSnapshots) -> None:
    for number in range(3 * MAX_KEPT):
        keep(kept, f"user-{number}")
    assert len(kept) == MAX_KEPT


def test_large_states_are_fewer(kept: KeptSnapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_UNITS", 5)
    engine = new_engine()
    for name in "abc":
        engine.on_queue_unit(build_unit(name))
    first, second = keep(kept, "u1", engine), keep(kept, "u2", engine)
    assert len(kept) == 1
    assert code_of(kept, second, SCOPE._replace(user="u2")) is HTTPStatus.OK, "alone"
    assert code_of(kept, first, SCOPE._replace(user="u1")) is HTTPStatus.GONE
