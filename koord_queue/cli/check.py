"""`koord-queue check`: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from koord_queue.checks.every_check import CHECKS, look
from koord_queue.checks.findings import Finding, has_problems
from koord_queue.cli import options
from koord_queue.reach.installation import Installation, NamedServer
from koord_queue.show.documents import show_document
from koord_queue.show.finding_lines import lines_of, summary_of
from shared_api.durations import DurationError, parse_seconds
from shared_api.version import VERSION

if TYPE_CHECKING:
    from koord_queue.session.session import Session

PAUSE_SECONDS: Final = 2.0
"""Between two looks: a Lease is renewed every two seconds."""


@click.command()
@click.option(
    "--skip", "skipped", multiple=True, type=click.Choice(list(CHECKS)), help="Leave a check out."
)
@click.option(
    "--wait",
    metavar="SPAN",
    default="0s",
    help="Repeat the checks for that long while there is a problem.",
)
@click.option("--strict", is_flag=True, help="Count what is unknown as a problem.")
@options.output("table", "json")
@options.reach
def check(
    session: Session, *, skipped: tuple[str, ...], wait: str, strict: bool, form: str
) -> None:
    """Say what is wrong with an installation, and how to fix it.

    Each line is ok, a warning, a problem, or unknown where you lack the right to look. The exit
    code is 1 if there is a problem.
    """
    try:
        patience = parse_seconds(wait)
    except DurationError as error:
        raise click.UsageError(f"--wait: {error}") from error
    findings = _look(session, skipped, patience, strict=strict)
    if form == "json":
        show_document(session.out, {"findings": msgspec.to_builtins(findings)}, form)
    else:
        for line in lines_of(findings, session.out):
            session.out.line(line)
        if session.out.is_terminal:
            session.out.line(summary_of(findings))
    if has_problems(findings, strict=strict):
        session.out.flush()
        raise click.exceptions.Exit(1)


def _named_server(session: Session) -> NamedServer | None:
    """Return the debug API that `--server` names."""
    url = session.choice.server
    if not url:
        return None
    return NamedServer(url, lambda: session.debug("/debug/queues", (("limit", "1"),)))


def _look(
    session: Session, skipped: tuple[str, ...], patience: float, *, strict: bool
) -> list[Finding]:
    """Return what is found, once nothing is a problem or the time is over."""
    clock = session.clock
    namespaces = (session.choice.system_namespace, session.namespace)
    installation = Installation(session.cluster(), *namespaces, server=_named_server(session))
    deadline = clock.monotonic() + patience
    while True:
        facts = installation.gather(version=VERSION, now=clock.now, skipped=skipped)
        findings = look(facts, skipped)
        is_over = clock.monotonic() + PAUSE_SECONDS > deadline
        if is_over or not has_problems(findings, strict=strict):
            return findings
        clock.sleep(PAUSE_SECONDS)
