"""A debug API that is named: what is sent to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from koord_queue.errors import CommandError
from koord_queue.reach.choice import Choice
from koord_queue.reach.debug_api import open_debug_api
from shared_api.testing.virtual_clock import VirtualClock


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text("secret\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("server", ["http://queue.example.com", "http://10.0.0.1:19876/x"])
def test_a_token_is_not_sent_for_all_to_read(token: str, server: str) -> None:
    with pytest.raises(CommandError, match="everybody on the way could read the token"):
        open_debug_api(Choice(server=server, token_file=token), VirtualClock(), ExitStack())


@pytest.mark.parametrize(
    "server", ["https://queue.example.com", "http://127.0.0.1:19876", "http://[::1]:19876"]
)
def test_a_token_is_sent_over_tls_or_within_this_machine(token: str, server: str) -> None:
    open_debug_api(Choice(server=server, token_file=token), VirtualClock(), ExitStack())


def test_a_token_that_cannot_be_read_is_named() -> None:
    choice = Choice(server="https://queue.example.com", token_file="/none/token")
    with pytest.raises(CommandError, match="/none/token"):
        open_debug_api(choice, VirtualClock(), ExitStack())


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(CommandError, match="lists of processes") as got:
        open_debug_api(
            Choice(server="https://ann:secret@queue.example.com"), VirtualClock(), ExitStack()
        )
    assert "secret" not in got.value.message
