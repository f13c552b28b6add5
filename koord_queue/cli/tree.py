"""`koord-queue tree`: the quotas, and how much of each is used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click
from msgspec import to_builtins
from msgspec.structs import replace

from koord_queue.answers.decoding import decode
from koord_queue.answers.quota_trees import find, walk
from koord_queue.answers.quotas import Quota, UserLimit, UserLimitPage
from koord_queue.cli import options
from koord_queue.cli.quota_source import read_quotas
from koord_queue.errors import CommandError
from koord_queue.show.bars import letters_for
from koord_queue.show.documents import show_document
from koord_queue.show.quota_rows import (
    COLUMNS,
    Use,
    documents_of,
    plain_rows,
    styles_of,
    tree_table,
    uses_of,
)
from koord_queue.show.user_limit_rows import USER_COLUMNS, user_rows

if TYPE_CHECKING:
    from koord_queue.session.session import Session

_SIMILAR = 3

PAGE: Final = 1000
"""The most that a page of the debug API has."""


@click.command()
@click.argument("quota", required=False)
@click.option("--resource", metavar="NAME", help="Only this resource: cpu, nvidia.com/gpu.")
@click.option("--users", is_flag=True, help="What users and groups have, where that is limited.")
@options.output("table", "json", "yaml")
@options.reach
def tree(
    session: Session, *, quota: str | None, resource: str | None, users: bool, form: str
) -> None:
    """Show the quotas as a tree: what is used, charged, guaranteed and allowed.

    With QUOTA, only that one and those below it. USED includes the quotas below and pods without a
    unit; CHARGED is what the units of this quota hold; BORROWED is used above what is guaranteed.

    With --users, the limits of users and groups instead: of QUOTA, or of all quotas that have any.
    """
    options.refuse_namespace(session, "is of no use here: quotas are those of all namespaces.")
    if users:
        _show_users(session, quota or "", resource, form)
        return
    roots = read_quotas(session)
    if quota is not None:
        roots = (_named(roots, quota),)
    uses = list(uses_of(roots, resource))
    if form != "table":
        show_document(session.out, {"quotas": documents_of(uses)}, form)
        return
    if not uses:
        named = f" of {resource}" if resource else ""
        session.out.note(f"there is no quota{named}")
    elif session.out.is_terminal:
        letters = letters_for(getattr(sys.stdout, "encoding", None))
        columns, rows = tree_table(uses, session.out.width, letters)
        session.out.table(columns, rows, styles_of(uses))
        _print_problems(session, uses)
    else:
        session.out.table(COLUMNS, plain_rows(uses))


def _show_users(session: Session, quota: str, resource: str | None, form: str) -> None:
    page = _read_users(session, quota)
    if form != "table":
        show_document(session.out, {"userLimits": [to_builtins(each) for each in page.items]}, form)
    elif page.items:
        session.out.table(USER_COLUMNS, list(user_rows(page.items, resource)), {})
    else:
        session.out.note("no user or group has anything that is limited")
    if page.others:
        session.out.note(f"{page.others} more that you may not read")


def _read_users(session: Session, quota: str) -> UserLimitPage:
    """Return all rows as one page."""
    items: tuple[UserLimit, ...] = ()
    while True:
        query = (("quota", quota), ("offset", str(len(items))), ("limit", str(PAGE)))
        page = decode(session.debug("/debug/user-limits", query), UserLimitPage)
        items += page.items
        if not page.items or len(items) >= page.total:
            return replace(page, items=items)


def _named(roots: tuple[Quota, ...], name: str) -> Quota:
    found = find(roots, name)
    if found is not None:
        return found
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    similar = get_close_matches(name, [each.name for each, _ in walk(roots)], _SIMILAR)
    step = f"Did you mean {' or '.join(similar)}?" if similar else "`koord-queue tree` shows all."
    raise CommandError(f"there is no quota {name}", step)


def _print_problems(session: Session, uses: list[Use]) -> None:
    for path, problems in {each.path: each.problems for each in uses}.items():
        for problem in problems:
            session.out.note(f"{path}: {problem}")
