"""Which unit a user means: by the name of its job, as its owner knows it, or by its own."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from koord_queue.errors import EXIT_USAGE, CommandError
from koord_queue.reach.choice import NAMESPACE_NAME
from koord_queue.reach.errors import Missing, Refused
from koord_queue.reach.resources import QUEUE_UNITS, ItemList
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from koord_queue.reach.cluster import Cluster

UNIT_WORDS: Final = frozenset({"unit", "units", "qu", "qus", "queueunit", "queueunits"})
"""What a unit is called before the slash; the short names are the CRD's."""
QUEUE_WORDS: Final = frozenset({"kq", "queue", "queues", "queues.scheduling.x-k8s.io"})
"""What a queue is called there."""
QUOTA_WORDS: Final = frozenset({"quota", "quotas"})
"""What a quota of any kind is called there."""
MOST_SIMILAR: Final = 3


class _Meta(msgspec.Struct):
    name: str = ""


class _Consumer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    consumer_ref: _Consumer | None = None


class _Unit(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Owned(NamedTuple):
    """A unit and its job.

    Attributes:
        unit: Name of the unit.
        kind: Kind of the job; "" without a job.
        group: Its API group.
        job: Its name.
    """

    unit: str
    kind: str = ""
    group: str = ""
    job: str = ""


class UnitNotFound(CommandError):
    """No unit belongs to a job.

    Attributes:
        namespace: Where its units were looked for.
        word: The job's kind as it was written; "" if none was.
        name: Its name.
    """

    def __init__(
        self, message: str, next_step: str = "", *, namespace: str = "", word: str = "", name: str
    ) -> None:
        super().__init__(message, next_step)
        self.namespace = namespace
        self.word = word
        self.name = name


def find_unit(cluster: Cluster, namespace: str, named: str) -> tuple[str, str]:
    """Return namespace and name of the unit that is meant.

    Args:
        cluster: The API server.
        namespace: Where it is, if it is not given.
        named: As `pick_unit` has it.

    Raises:
        CommandError: There is none, or there are several; the message names them.
    """
    word, name = split_name(named)
    if not word or word.lower() in UNIT_WORDS:
        # This takes no right to list units.
        try:
            cluster.get(QUEUE_UNITS.path(namespace, name))
            return namespace, name
        except Missing:
            if word:
                raise
    return pick_unit(lambda where: list_owned(cluster, where), namespace, named)


def pick_unit(
    units_in: Callable[[str], Sequence[Owned]], namespace: str, named: str
) -> tuple[str, str]:
    """Return namespace and name of the unit that is meant.

    Args:
        units_in: Returns the units of a namespace.
        namespace: Where it is, if it is not given.
        named: `job/train-1`, `pytorchjobs.kubeflow.org/x`, `unit/train-1-job`, `team/train-1` with
            a namespace, or a bare name. What is no kind is the name of the unit, or of its job if
            no unit is called so.

    Raises:
        CommandError: There is none, or there are several; the message names them.
    """
    word, name = split_name(named)
    units = units_in(namespace)
    if not word or word.lower() in UNIT_WORDS:
        return namespace, _choose_named(units, namespace, word, name)
    if may_be_namespace(word) and not any(is_kind(word, each) for each in units):
        try:
            there = units_in(word)
        except Refused as error:
            raise Refused(
                f"no unit of namespace {namespace} belongs to {named}, and {error.message}"
            ) from error
        if there:
            return word, _choose_named(there, word, "", name)
        elsewhere = f", and namespace {word} has no units"
        return namespace, choose(units, namespace, word, name, elsewhere)
    return namespace, choose(units, namespace, word, name)


def split_name(named: str) -> tuple[str, str]:
    """Return what is before the slash, "" without one, and the name.

    Raises:
        CommandError: It has another form.
    """
    word, slash, name = named.rpartition("/")
    if (slash and not word) or not name or "/" in word:
        raise CommandError(
            f"{named!r} names no unit",
            "Write job/NAME, NAMESPACE/NAME, or the name of the unit; -n says where.",
            EXIT_USAGE,
        )
    return word, name


def place_of_unit(named: str, namespace: str) -> tuple[str, str] | None:
    """Return namespace and name of a unit that is named itself; None if its job is.

    Nothing is asked: whether there is one is not known.
    """
    word, _, name = named.rpartition("/")
    if not word or word.lower() in UNIT_WORDS:
        return namespace, name
    return (word, name) if may_be_namespace(word) else None


def may_be_namespace(word: str) -> bool:
    """Return whether a word before a slash may be a namespace: it is no known kind of a job."""
    is_known = any(is_kind(word, Owned("", kind)) for kind in KNOWN_JOB_KINDS)
    return not is_known and NAMESPACE_NAME.fullmatch(word) is not None


def is_queue(named: str) -> bool:
    """Return whether a text is `queue/NAME`, and not a unit."""
    word, slash, _ = named.partition("/")
    return bool(slash) and word.lower() in QUEUE_WORDS


def queue_name(named: str) -> str:
    """Return the name of the queue that is meant by `queue/NAME`, or `NAME`.

    Raises:
        CommandError: It is neither.
    """
    word, _, name = named.rpartition("/")
    if not name or (word and word.lower() not in QUEUE_WORDS):
        raise CommandError(f"{named!r} names no queue", "Write queue/NAME, or NAME.", EXIT_USAGE)
    return name


def find_quota_name(named: str) -> str:
    """Return the name of the quota that is meant by `quota/NAME`; "" if that is something else.

    A quota of a tree or of a namespace has slashes in its name.
    """
    word, _, name = named.partition("/")
    return name if word.lower() in QUOTA_WORDS else ""


def list_owned(cluster: Cluster, namespace: str) -> list[Owned]:
    """Return the units of a namespace with their jobs."""
    pages = cluster.pages(QUEUE_UNITS.path(namespace))
    return [owned for page in pages for owned in read_owned(page)]


def read_owned(page: bytes) -> Iterator[Owned]:
    """Yield the units of one page of a list with their jobs."""
    for each in msgspec.json.decode(page, type=ItemList[_Unit]).items:
        job = each.spec.consumer_ref or _Consumer()
        group = job.api_version.rpartition("/")[0]
        yield Owned(each.metadata.name, job.kind, group, job.name)


def _choose_named(units: Sequence[Owned], namespace: str, word: str, name: str) -> str:
    """Return the unit of a name, or (`word` is "") that of the job of this name.

    Raises:
        CommandError: There is none, or there are several.
    """
    if any(each.unit == name for each in units):
        return name
    if not word:
        return choose(units, namespace, "", name)
    similar = get_close_matches(name, [each.unit for each in units], MOST_SIMILAR)
    raise Missing(f"there is no unit {namespace}/{name}", _step(similar))


def choose(
    units: Sequence[Owned], namespace: str, word: str, name: str, elsewhere: str = ""
) -> str:
    """Return the unit of a job.

    Args:
        units: All of the namespace.
        namespace: For messages.
        word: The kind as kubectl takes it, in any case; "": any kind.
        name: The name of the job.
        elsewhere: Where it has been looked for in addition, as the rest of a sentence.

    Raises:
        CommandError: None, or several, fit.
    """
    fitting = [each for each in units if each.job == name and (not word or is_kind(word, each))]
    if len(fitting) == 1:
        return fitting[0].unit
    if fitting:
        names = ", ".join(f"{each.kind.lower()}/{each.job}" for each in fitting)
        raise CommandError(f"{name} may be {names}", "Write which one.")
    shown = f"{word}/{name}" if word else name
    known = [f"{each.kind.lower()}/{each.job}" if word else each.job for each in units if each.job]
    known += [] if word else [each.unit for each in units]
    similar = get_close_matches(shown, known, MOST_SIMILAR)
    text = f"no unit of namespace {namespace} belongs to {shown}{elsewhere}"
    raise UnitNotFound(text, _step(similar), namespace=namespace, word=word, name=name)


def _step(similar: Sequence[str]) -> str:
    if similar:
        return f"Did you mean {' or '.join(similar)}?"
    return "`koord-queue units` lists them; a job without a unit is not managed by the queue."


def is_kind(word: str, unit: Owned) -> bool:
    """Return whether a word of kubectl (`job`, `jobs`, `jobs.batch`) means the kind of a job."""
    kind, _, group = word.lower().partition(".")
    own = unit.kind.lower()
    # Plurals as Kubernetes' generators make them; the CRDs of all kinds of jobs have these.
    is_alike = bool(own) and kind in {own, f"{own}s", f"{own}es"}
    return is_alike and group in {"", unit.group.lower()}
