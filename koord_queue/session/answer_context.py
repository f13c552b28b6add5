"""Where a question goes, to the cluster or to a dump, and the time of its answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from koord_queue.answers.decoding import decode
from koord_queue.errors import CommandError
from koord_queue.reach.dump import open_dump
from koord_queue.reach.named import place_of_unit
from koord_queue.reach.objects import read_policies, read_quotas
from koord_queue.reach.sources import Source
from koord_queue.session.session import Session
from koord_queue.show.documents import show_document
from koord_queue.show.forecasts import Wall

DEFAULT_NAMESPACE: Final = "default"
"""The namespace for a dump, or for a server without a context."""


class AnswerContext(NamedTuple):
    """Where a question goes, and the time of its answer.

    Attributes:
        source: Answers.
        find: Returns namespace and name of a unit.
        namespace: Returns the namespace of names that have none.
        now: The time of the answers.
        quotas: Returns the objects of all quotas that may be read.
        policies: Returns the QuotaPolicies.
    """

    source: Source
    find: Callable[[str], tuple[str, str]]
    namespace: Callable[[], str]
    now: datetime
    quotas: Callable[[], list[dict[str, Any]]]
    policies: Callable[[], list[dict[str, Any]]]

    @property
    def wall(self) -> Wall:
        """The time of the answers, in the zone of this machine."""
        return Wall(self.now)


def open_context(session: Session, dump: str | None) -> AnswerContext:
    """Return where questions go; `dump`: the value of `--from-dump`."""
    if dump is None:
        return _ask_cluster(session)
    source = open_dump(dump)
    source.note_differences(session.out.note)
    namespace = _namespace_of(session)
    return AnswerContext(
        source,
        lambda named: source.unit(named, namespace),
        lambda: namespace,
        source.now(),
        source.quota_objects,
        source.policy_objects,
    )


def _ask_cluster(session: Session) -> AnswerContext:
    def namespace() -> str:
        return session.namespace if has_cluster(session) else _namespace_of(session)

    def find(named: str) -> tuple[str, str]:
        if has_cluster(session):
            return session.unit_or_why(named)
        found = place_of_unit(named, _namespace_of(session))
        if found is None:
            raise CommandError(
                f"which unit {named} has is not known without the API server",
                "Name the unit itself, or the cluster with --kubeconfig or --context.",
            )
        return found

    return AnswerContext(
        session.sources(),
        find,
        namespace,
        session.clock.now(),
        lambda: read_quotas(session.cluster(), session.namespace),
        lambda: read_policies(session.cluster(), session.choice.system_namespace),
    )


def has_cluster(session: Session) -> bool:
    """Return whether the API server can be asked; with `--server` it need not be known."""
    try:
        session.cluster()
    except CommandError:
        if session.choice.server is None:
            raise
        return False
    return True


def _namespace_of(session: Session) -> str:
    return session.choice.namespace or DEFAULT_NAMESPACE


def show_tree(session: Session, answer: bytes, form: str) -> bool:
    """Write an answer with all its fields; return False for `text`, which is not written here."""
    if form == "text":
        return False
    show_document(session.out, decode(answer, object), form)
    return True
