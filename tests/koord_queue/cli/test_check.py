"""The command check: how long it looks, how it ends, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from koord_queue.checks.every_check import CHECKS
from koord_queue.cli.check import PAUSE_SECONDS, check
from tests.koord_queue.session.played_session import PlayedSession

SERVED = ("crds", "server")
"""What the played API server has; all else is a problem there."""


def run(session: PlayedSession, *looks_at: str, **given: Any) -> int:
    """Run the command; return its exit code."""
    skipped = tuple(name for name in CHECKS if name not in looks_at)
    options = {"wait": "0s", "strict": False, "form": "table", "skipped": skipped, **given}
    try:
        check.callback.__wrapped__(session, **options)  # type: ignore[union-attr] # of `reach`
    except click.exceptions.Exit as error:
        return error.exit_code
    return 0


@pytest.mark.parametrize(
    ("looks_at", "strict", "want"),
    [
        pytest.param("crds", False, 0, id="nothing is wrong"),
        pytest.param("programs", False, 1, id="a problem"),
        pytest.param("leases", False, 0, id="something is unknown"),
        pytest.param("leases", True, 1, id="something is unknown, and that counts"),
    ],
)
def test_the_exit_code_says_whether_something_is_wrong(
    looks_at: str, strict: bool, want: int
) -> None:
    assert run(PlayedSession(), looks_at, strict=strict) == want


def test_it_looks_again_while_there_is_a_problem() -> None:
    session = PlayedSession()
    began = session.clock.monotonic()
    assert run(session, "programs", wait="7s") == 1
    assert session.clock.monotonic() - began == 3 * PAUSE_SECONDS
    assert len(session.out_text.getvalue().splitlines()) == 1


def test_it_stops_to_look_when_the_problem_is_gone() -> None:
    session = PlayedSession()

    def install() -> None:
        labels = {"app.kubernetes.io/part-of": "koord-queue"}
        labels["app.kubernetes.io/component"] = "scheduler"
        metadata = {"name": "koord-queue", "namespace": "koord-queue", "labels": labels}
        kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
        direct = session.server.direct
        direct.create(kind | {"metadata": metadata})
        ready = {"status": {"readyReplicas": 1}}
        direct.patch(
            "deployments", "koord-queue", ready, namespace="koord-queue", subresource="status"
        )

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koord-queue"}}
    session.server.direct.create(namespace)
    session.clock.meanwhile = install
    assert run(session, "programs", wait="60s") == 0
    assert "ready: koord-queue" in session.out_text.getvalue()


def test_a_wait_that_cannot_be_read_is_a_mistake_of_the_line() -> None:
    with pytest.raises(click.UsageError, match="--wait: 'soon' is not a duration"):
        run(PlayedSession(), wait="soon")


def test_findings_are_values() -> None:
    session = PlayedSession()
    run(session, "crds", form="json")
    [found] = json.loads(session.out_text.getvalue())["findings"]
    assert (found["check"], found["level"], found["fix"]) == ("crds", "ok", "")
