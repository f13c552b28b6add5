"""The connection for visitors: it has none of the program's credentials, and bounds its answers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from queue_insight.insight_program import api_connection
from queue_insight.insight_program.flags import PROGRAM, parse_insight_flags
from shared_api.client.errors import AnswerTooLarge
from shared_api.client.transport import Request
from shared_api.local_program import LocalProgram
from tests.process_state import process_as_before
from tests.queue_insight.insight_program.test_visibility_serving import write_kubeconfig
from tests.shared_api.client.scripted_server import PATIENCE_SECONDS, answers, scripted_server

VISITOR = "Bearer token-of-ann"


def test_requests_for_visitors_never_have_the_token_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_connection, "MAX_ANSWER_BYTES", 1_000)
    flags = parse_insight_flags([f"--socket-dir={tmp_path}"])
    with process_as_before(), scripted_server() as server, ExitStack() as opened:
        program = LocalProgram(PROGRAM, flags.process)
        path = str(write_kubeconfig(tmp_path / "kubeconfig", server.url))
        transport = api_connection.connect_for_visitors(program, path, None, opened)
        server.plays(answers(), answers(status=401), answers(body=b"x" * 1_001))
        for headers in ((("Authorization", VISITOR),), ()):
            transport.send(Request("GET", "/api", (), headers), PATIENCE_SECONDS)
        sent = [each.headers.get("authorization") for each in server.seen]
        assert sent == [VISITOR, None], "after a 401 there is no second try either"
        with pytest.raises(AnswerTooLarge):
            transport.send(Request("GET", "/api"), PATIENCE_SECONDS)
