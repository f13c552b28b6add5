"""Options that several commands have, as decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from koord_queue.reach.choice import NAMESPACE_NAME, SYSTEM_NAMESPACE, Choice

if TYPE_CHECKING:
    from koord_queue.session.session import Session

Function = Callable[..., Any]


def _check_namespace(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    """Refuse what would be another path of the API."""
    if text and not NAMESPACE_NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is no name of a namespace.")
    return text


def _check_header(_context: click.Context, _option: click.Parameter, given: Any) -> Any:  # noqa: ANN401 - a text, several or None
    """Refuse what no HTTP header can hold."""
    for text in (given,) if isinstance(given, str) else given or ():
        if not (text.isascii() and text.isprintable()):
            raise click.BadParameter(f"{text!r} has characters that cannot be sent.")
    return given


_REACH: Final = (
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        callback=_check_namespace,
        help="Namespace; default: the context's.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option("--kubeconfig", metavar="FILE", help="The kubeconfig; default: as kubectl."),
    click.option(
        "--as",
        "as_user",
        metavar="USER",
        callback=_check_header,
        help="Ask as this user (impersonation).",
    ),
    click.option(
        "--as-group",
        "as_groups",
        metavar="GROUP",
        multiple=True,
        callback=_check_header,
        help="And as this group.",
    ),
    click.option(
        "--server",
        metavar="URL",
        envvar="KOORD_QUEUE_SERVER",
        show_envvar=True,
        help="Ask this debug API, instead of the cluster's APIs.",
    ),
    click.option("--token-file", metavar="FILE", help="A bearer token for --server."),
    click.option("--ca-file", metavar="FILE", help="Authorities of the certificate of --server."),
    click.option(
        "--system-namespace",
        metavar="NAME",
        default=SYSTEM_NAMESPACE,
        callback=_check_namespace,
        envvar="KOORD_QUEUE_NAMESPACE",
        show_envvar=True,
        help=f"Where Koord-Queue is installed; default: {SYSTEM_NAMESPACE}.",
    ),
)


def reach(command: Function) -> Function:
    """Add the options that say which cluster is asked; pass a `Session` as the first argument."""

    @functools.wraps(command)
    def with_session(**given: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        from koord_queue.session.session import Session  # noqa: PLC0415 - not for --help

        choice = Choice(**{name: given.pop(name) for name in Choice._fields})
        with Session(choice) as session:
            return command(session, **given)

    return _with_options(with_session, _REACH)


def from_dump(command: Function) -> Function:
    """Add `--from-dump`, whose value is `dump` of the command."""
    return click.option(
        "--from-dump", "dump", metavar="FILE", help="Ask a dump, at its time, not a cluster."
    )(command)


def at(command: Function) -> Function:
    """Add `--at`, whose value is `at` of the command: a time as the APIs take it, or None."""
    return click.option(
        "--at",
        metavar="TIME",
        callback=_read_past,
        help="At that time, from the record: 2h, 22:30, RFC 3339.",
    )(command)


def since(command: Function) -> Function:
    """Add `--since`, whose value is `since` of the command, in the form of `at`."""
    return click.option(
        "--since", metavar="TIME", callback=_read_past, help="Only since then: 2h, 22:30, RFC 3339."
    )(command)


def _read_past(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    from koord_queue.show.moments import (  # noqa: PLC0415 - only for these options
        MomentError,
        query_time,
        read_moment,
    )
    from shared_api.process.clock import SystemClock  # noqa: PLC0415 - the same

    try:
        return query_time(read_moment(text, SystemClock().now()))
    except MomentError as error:
        raise click.BadParameter(str(error)) from error


def output(*forms: str) -> Callable[[Function], Function]:
    """Add `-o`, whose value is `form` of the command.

    Args:
        forms: What it may be; the first is the default.
    """
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        help=f"Form of the answer; default: {forms[0]}.",
    )


def refuse_namespace(session: Session, why: str) -> None:
    """Refuse `-n` where no namespace is meant.

    Args:
        session: What was chosen.
        why: Said of it, as the rest of a sentence after "-n".

    Raises:
        click.UsageError: There is one.
    """
    if session.choice.namespace is not None:
        raise click.UsageError(f"-n {why}")


def _with_options(
    command: Function, options: tuple[Callable[[Function], Function], ...]
) -> Function:
    for option in reversed(options):
        command = option(command)
    return command
